"""Changes between two trees: most of them change what a call returns, and none of these may be taken for identical.

`tests/unit/test_identical.py` plants each one. A call of the benchmark returns ``kit.op.value()``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Text = str | bytes | Path | None
"""The content of a file; a Path is what a symbolic link points to; None: there is no such file."""
BENCH = """\
from kit.op import value
from ratchet import benchmark


@benchmark
def op(*, device):
    return value
"""


@dataclass(frozen=True)
class Change:
    """Two trees. ``head`` has what differs from ``base``."""

    sentence: str
    """How the call gets at what was changed."""
    base: Mapping[str, Text]
    head: Mapping[str, Text] = field(default_factory=dict)
    modes: tuple[str, int, int] | None = None
    """A file with its mode in either tree."""
    library: Mapping[str, str] = field(default_factory=dict)
    """Files of a package that both sides have installed."""
    bench: str = BENCH
    python: tuple[int, int] = (3, 11)
    """The first Python in which it makes a difference."""


def in_op(text: str, **files: Text) -> dict[str, Text]:
    return {"kit/op.py": text, **files}


def _database() -> bytes:
    data = sqlite3.connect(":memory:")
    data.execute("create table t (n)")
    return data.serialize()


_DATABASE = _database()
_HERE = "from pathlib import Path\nROOT = Path(__file__).parent.parent\n"


def _with_work(text: str, **files: Text) -> dict[str, Text]:
    told = "SEEN = []\ndef told(frame, event, given):\n    if frame.f_code.co_name == 'work': SEEN.append(frame.f_lineno)\n"
    return in_op("from kit.work import work\n" + told + text, **{"kit/work.py": "def work(): return 1\n", **files})


_SHIFTED = {"kit/work.py": "# one\n# two\ndef work(): return 1\n"}
_HANDLED = "import signal\nSEEN = []\nsignal.signal(10, lambda _, frame: SEEN.append(frame.f_lineno))\n"
_CODED = """\
import signal
SEEN = []
def taken(_, frame): SEEN.extend(max(each.co_consts[1:]) for each in frame.f_code.co_consts if 'unused' in repr(each))
signal.signal(10, taken)
def unused(): return %d
def work(): return 1
signal.raise_signal(10)
"""

SEEN = (
    Change(
        "a hook of forks imports it",
        in_op(
            "import os\nS = [1]\ndef again():\n    from kit import table\n    S[0] = table.N\n"
            "os.register_at_fork(after_in_child=again)\ndef value(): return S[0]\n",
            **{"kit/table.py": "N = 2\n"},
        ),
        {"kit/table.py": "N = 8\n"},
    ),
    Change(
        "a hook before forks reads it",
        in_op(
            f"{_HERE}import os\nS = [1]\ndef again(): S[0] = int((ROOT / 'notes.md').read_text())\n"
            "os.register_at_fork(before=again)\ndef value(): return S[0]\n",
            **{"notes.md": "2"},
        ),
        {"notes.md": "8"},
    ),
    Change(
        "what formats a warning reads it",
        in_op(
            f"{_HERE}import importlib, warnings\nimportlib.reload(warnings)  # pytest has its own\nS = [1]\n"
            "def fmt(*a, **k):\n    S[0] = int((ROOT / 'style.md').read_text())\n    return ''\n"
            "def value():\n    before, warnings.formatwarning = warnings.formatwarning, fmt\n    warnings.warn('x')\n"
            "    warnings.formatwarning = before\n    return S[0]\n",
            **{"style.md": "2"},
        ),
        {"style.md": "8"},
    ),
    Change(
        "a file is loaded as the program",
        in_op(
            f"{_HERE}import importlib.util\ndef value():\n"
            "    spec = importlib.util.spec_from_file_location('__main__', ROOT / 'kit/tool.py')\n"
            "    tool = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(tool)\n    return tool.N\n",
            **{"kit/tool.py": "N = 1\nif __name__ == '__main__':\n    N = 2\n"},
        ),
        {"kit/tool.py": "N = 1\nif __name__ == '__main__':\n    N = 8\n"},
    ),
    Change(
        "data lie among the byte code",
        in_op(
            "from pathlib import Path\ndef value(): return (Path(__file__).parent / '__pycache__/plan.json').read_text()\n",
            **{"kit/__pycache__/plan.json": "2"},
        ),
        {"kit/__pycache__/plan.json": "8"},
    ),
    *(
        Change(
            f"the size of a file is read {sentence}",
            in_op(
                "import os, pathlib, tempfile\nfrom pathlib import Path\nKIT = Path(__file__).parent\n"
                f"def value():\n    place = Path(tempfile.mkdtemp())\n    {text}\n",
                **{"kit/table.md": "12"},
            ),
            {"kit/table.md": "12345678"},
        )
        for sentence, text in (
            (
                "through a link elsewhere",
                "os.symlink(KIT / 'table.md', place / 'a')\n    return os.stat(place / 'a').st_size",
            ),
            (
                "through a link to its folder",
                "os.symlink(KIT, place / 'a')\n    return os.stat(place / 'a' / 'table.md').st_size",
            ),
            (
                "through a link that led elsewhere before",
                "os.mkdir(place / 'b')\n    open(place / 'b' / 'table.md', 'w').close()\n    os.symlink('b', place / 'a')\n"
                "    os.stat(place / 'a' / 'table.md')\n    os.unlink(place / 'a')\n    os.symlink(KIT, place / 'a')\n"
                "    return os.stat(place / 'a' / 'table.md').st_size",
            ),
            (
                "through a folder that was replaced by a link to it",
                "os.mkdir(place / 'a')\n    open(place / 'a' / 'table.md', 'w').close()\n"
                "    os.stat(place / 'a' / 'table.md')\n    os.rename(place / 'a', place / 'b')\n"
                "    os.symlink(KIT, place / 'a')\n"
                "    return os.lstat(place / 'a' / 'table.md').st_size",
            ),
            (
                "from the folder that holds the tree",
                "return os.stat(f'{KIT.parent.parent}/{KIT.parent.name}/kit/table.md').st_size",
            ),
            (
                "past a folder that is left again",
                "return os.stat(f'{place}/../{os.path.relpath(KIT, place.parent)}/table.md').st_size",
            ),
            (
                "through a link, by pathlib",
                "os.symlink(KIT / 'table.md', place / 'a')\n    return (place / 'a').stat().st_size",
            ),
            (
                "through a link to its folder, that of the last part not followed",
                "os.symlink(KIT, place / 'a')\n    return os.stat(place / 'a' / 'table.md', follow_symlinks=False).st_size",
            ),
            (
                "from a folder that is open",
                "return os.stat('table.md', dir_fd=os.open(KIT, os.O_RDONLY), follow_symlinks=False).st_size",
            ),
            ("with two separators", "return os.stat(f'/{KIT}//table.md').st_size"),
        )
    ),
    Change(
        "a constant is read by a computed name",
        in_op("from kit import config\ndef value(): return getattr(config, 'DE' + 'LAY')\n", **{"kit/config.py": "DELAY = 2\n"}),
        {"kit/config.py": "DELAY = 8\n"},
    ),
    Change(
        "an __init_subclass__ runs where a class is made, and at no other time",
        in_op(
            "from kit.base import Base\nclass Op(Base): pass\ndef value(): return Op.delay\n",
            **{"kit/base.py": "class Base:\n    def __init_subclass__(cls):\n        cls.delay = 2\n"},
        ),
        {"kit/base.py": "class Base:\n    def __init_subclass__(cls):\n        cls.delay = 8\n"},
    ),
    Change(
        "a decorator takes a constant out of the code of a function that is never called",
        in_op(
            "def read(f): return max(x for x in f.__code__.co_consts if x)\n@read\n"
            "def value_of(): return 2\ndef value(): return value_of\n"
        ),
        in_op(
            "def read(f): return max(x for x in f.__code__.co_consts if x)\n@read\n"
            "def value_of(): return 8\ndef value(): return value_of\n"
        ),
    ),
    Change(
        "a function within another one was changed, and the call keeps it",
        in_op("def make():\n    def inner():\n        return 2\n    return inner\nvalue = make()\n"),
        in_op("def make():\n    def inner():\n        return 8\n    return inner\nvalue = make()\n"),
    ),
    Change(
        "a generator began while the tree was imported",
        in_op(
            "def numbers():\n    yield 0\n    while True:\n        yield 2\nN = numbers()\nnext(N)\ndef value(): return next(N)\n"
        ),
        in_op(
            "def numbers():\n    yield 0\n    while True:\n        yield 8\nN = numbers()\nnext(N)\ndef value(): return next(N)\n"
        ),
    ),
    Change(
        "a coroutine runs in a loop of its own",
        in_op("import asyncio\nasync def later(): return 2\ndef value(): return asyncio.run(later())\n"),
        in_op("import asyncio\nasync def later(): return 8\ndef value(): return asyncio.run(later())\n"),
    ),
    Change(
        "the callback of a weak reference runs when an object dies",
        in_op(
            "import weakref\nfrom kit.hooks import N, died\nclass A: pass\n"
            "def value():\n    a = A()\n    weakref.finalize(a, died)\n    del a\n    return N[0]\n",
            **{"kit/hooks.py": "N = [0]\ndef died(): N[0] = 2\n"},
        ),
        {"kit/hooks.py": "N = [0]\ndef died(): N[0] = 8\n"},
    ),
    Change(
        "a signal's handler was changed",
        in_op(
            "import signal\nfrom kit.hooks import N, heard\nsignal.signal(signal.SIGUSR2, heard)\n"
            "def value():\n    signal.raise_signal(signal.SIGUSR2)\n    return N[0]\n",
            **{"kit/hooks.py": "N = [0]\ndef heard(*_): N[0] = 2\n"},
        ),
        {"kit/hooks.py": "N = [0]\ndef heard(*_): N[0] = 8\n"},
    ),
    Change(
        "a bare thread that began with the imports did it",
        in_op(
            "import _thread, time\nfrom kit.work import N, work\n_thread.start_new_thread(work, ())\n"
            "def value():\n    while not N[0]: time.sleep(0.001)\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work(): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work(): N[0] = 8\n"},
    ),
    Change(
        "a function is rebuilt of another one's code under another name",
        in_op(
            "import types\nfrom kit.work import work\n"
            "d"
            "ef value(): return types.FunctionType(work.__code__.replace(co_name='x', co_filename='y', co_qualname='z'), {})()\n",
            **{"kit/work.py": "def work(): return 2\n"},
        ),
        {"kit/work.py": "def work(): return 8\n"},
    ),
    Change(
        "a new file hides a module of Python's own library",
        in_op("import tabnanny\ndef value(): return getattr(tabnanny, 'N', 2)\n"),
        {"tabnanny.py": "N = 8\n"},
    ),
    Change(
        "a new folder is a namespace package",
        in_op("import importlib.util\ndef value(): return 8 if importlib.util.find_spec('kit.extra') else 2\n"),
        {"kit/extra/notes.md": "x\n"},
    ),
    Change(
        "a finder of the path is asked past the import system",
        in_op(
            "from importlib.machinery import PathFinder\nimport kit\nimport kit.other\n"
            "def value(): return 8 if PathFinder.find_spec('kit.fast', kit.__path__) else 2\n",
            **{"kit/other.py": ""},
        ),
        {"kit/fast.py": ""},
    ),
    Change(
        "a package counts its modules without importing them",
        in_op("import pkgutil, kit\nN = len(list(pkgutil.iter_modules(kit.__path__)))\ndef value(): return N\n"),
        {"kit/never.py": "raise RuntimeError\n"},
    ),
    Change(
        "documents are counted by a walk",
        in_op(
            _HERE + "import os\ndef value(): return sum(len(files) for _, _, files in os.walk(ROOT / 'docs'))\n",
            **{"docs/a/one.md": ""},
        ),
        {"docs/a/two.md": ""},
    ),
    Change(
        "the size of a document counts",
        in_op(_HERE + "def value(): return (ROOT / 'README.md').stat().st_size\n", **{"README.md": "12"}),
        {"README.md": "12345678"},
    ),
    Change(
        "a Python file may be run or not",
        in_op(_HERE + "import os\ndef value(): return 2 if os.access(ROOT / 'tool.py', os.X_OK) else 8\n", **{"tool.py": ""}),
        modes=("tool.py", 0o755, 0o644),
    ),
    Change(
        "a document is read by code that is not Python's",
        in_op(
            _HERE
            + "import torch\ndef value(): return int(torch.from_file(str(ROOT / 'notes.md'), size=1, dtype=torch.uint8)[0])\n",
            **{"notes.md": "2"},
        ),
        {"notes.md": "8"},
    ),
    Change(
        "the commit's name is read",
        in_op(_HERE + "def value(): return int((ROOT / '.git' / 'HEAD').read_text()[0])\n", **{".git/HEAD": "2\n"}),
        {".git/HEAD": "8\n"},
    ),
    Change(
        "a comment is counted",
        in_op("import inspect\ndef f():\n    # 12\n    pass\ndef value(): return len(inspect.getsource(f))\n"),
        in_op("import inspect\ndef f():\n    # 12345678\n    pass\ndef value(): return len(inspect.getsource(f))\n"),
    ),
    Change(
        "a file is run under another name",
        in_op(
            _HERE + "import runpy\ndef value(): return runpy.run_path(str(ROOT / 'settings.py'))['N']\n",
            **{"settings.py": "N = 2\n"},
        ),
        {"settings.py": "N = 8\n"},
    ),
    Change(
        "a tracer calls it, which no other tracer sees",
        in_op(
            "import sys\nfrom kit.work import N, work\ndef tracer(*_): work()\ndef f(): pass\n"
            "def value():\n    sys.settrace(tracer)\n    f()\n    sys.settrace(None)\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work(): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work(): N[0] = 8\n"},
    ),
    Change(
        "an audit hook calls it, which no tracer sees",
        in_op(
            "import sys\nfrom kit.work import N, work\ndef hook(event, _):\n"
            "    if event == 'kit': work()\nsys.addaudithook(hook)\n"
            "def value():\n    sys.audit('kit')\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work(): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work(): N[0] = 8\n"},
    ),
    Change(
        "the audit hook of an installed package calls what the tree gave it",
        in_op(
            "import bus, sys\nfrom kit.work import N, work\nbus.CALLED.append(work)\n"
            "def value():\n    sys.audit('kit')\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work(): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work(): N[0] = 8\n"},
        library={
            "bus.py": "import sys\nCALLED = []\n"
            "def hook(event, _):\n    for each in CALLED if event == 'kit' else ():\n        each()\nsys.addaudithook(hook)\n"
        },
    ),
    Change(
        "an audit hook is no function, but an object that calls one",
        in_op(
            "import sys\nfrom kit.work import N, Hook\nsys.addaudithook(Hook())\n"
            "def value():\n    sys.audit('kit')\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\nclass Hook:\n    def __call__(self, event, _): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\nclass Hook:\n    def __call__(self, event, _): N[0] = 8\n"},
    ),
    Change(
        "C functions of Python, which an installed package looked up, give a function's code",
        in_op(
            "import codes\nfrom kit.work import work\ndef value(): return max(x for x in codes.of(work).co_consts if x)\n",
            **{"kit/work.py": "def work(): return 2\n"},
        ),
        {"kit/work.py": "def work(): return 8\n"},
        library={
            "codes.py": "import ctypes\nget = ctypes.pythonapi.PyFunction_GetCode\n"
            "get.argtypes, get.restype = (ctypes.py_object,), ctypes.c_void_p\n"
            "def of(function): return ctypes.cast(get(function), ctypes.py_object).value\n"
        },
    ),
    Change(
        "the tree has a module that is called as one that copies bytes with C functions of Python",
        in_op(
            "import ctypes\nfrom kit.fsspec.utils import of\nfrom kit.work import work\n"
            "def value(): return max(x for x in of(work).co_consts if x)\n",
            **{
                "kit/work.py": "def work(): return 2\n",
                "kit/fsspec/utils.py": "import ctypes\nget = ctypes.pythonapi.PyFunction_GetCode\n"
                "get.argtypes, get.restype = (ctypes.py_object,), ctypes.c_void_p\n"
                "def of(function): return ctypes.cast(get(function), ctypes.py_object).value\n",
            },
        ),
        {"kit/work.py": "def work(): return 8\n"},
    ),
    Change(
        "a loader is asked for code, and a constant is taken out of it",
        in_op(
            "import importlib.util\nfrom kit import work\n"
            "def code(): return work.__spec__.loader.get_code('kit.work').co_consts[0]\n"
            "def value(): return max(x for x in code().co_consts if x)\n",
            **{"kit/work.py": "def work(): return 2\n"},
        ),
        {"kit/work.py": "def work(): return 8\n"},
    ),
    Change(
        "a process is forked, and what it does is its own",
        in_op(
            "import os\ndef value():\n    reader, writer = os.pipe()\n    if os.fork() == 0:\n        from kit.work import N\n"
            "        os.write(writer, N)\n        os._exit(0)\n    os.close(writer)\n    return int(os.read(reader, 1))\n",
            **{"kit/work.py": "N = b'2'\n"},
        ),
        {"kit/work.py": "N = b'8'\n"},
    ),
    Change(
        "the cache of lines is read without a look at the file",
        in_op(
            "import linecache, warnings\nfrom kit import work\nwork.warned()\n"
            "def value(): return len(linecache.getlines(work.__file__))\n",
            **{"kit/work.py": "import warnings\ndef warned(): warnings.warn('x', stacklevel=1)\n"},
        ),
        {"kit/work.py": "import warnings\ndef warned(): warnings.warn('x', stacklevel=1)\n#\n#\n#\n"},
    ),
)
"""Each gives another value in the head; written before the code was."""

_KERNELS = {
    "kit/one.py": '"""One."""\nSIZE = 2\n\ndef run(x):\n    # a comment\n    return x + SIZE\n\ndef other(x):\n    return x\n',
    "kit/two.py": "SIZE = 2\n\nclass Two:\n    def run(self, x):\n        return x * SIZE\n",
    "kit/lazy.py": "SIZE = 2\n",
    "README.md": "A project.\n",
    "pyproject.toml": "[project]\nname = 'kit'\n",
    "bench/two.py": BENCH.replace("op", "two")
    .replace("from kit.two import value", "from kit.two import Two")
    .replace("return value", "return lambda: Two().run(1)"),
    **in_op("import kit.two\nfrom kit.one import run\ndef value(): return run(1)\n"),
}
_ONE = str(_KERNELS["kit/one.py"])


def _harmless(sentence: str, head: Mapping[str, Text]) -> Change:
    return Change(sentence, _KERNELS, head)


def _harmless_beside(sentence: str, imports: str, library: Mapping[str, str]) -> Change:
    """Return a change of a function that does not run, in a file that imports something."""
    one = imports + _ONE
    return Change(
        sentence, {**_KERNELS, "kit/one.py": one}, {"kit/one.py": one.replace("return x\n", "return x * 5\n")}, library=library
    )


HARMLESS = (
    _harmless("a comment", {"kit/one.py": _ONE.replace("# a comment", "# another comment\n    # and one more")}),
    _harmless("empty lines at the top", {"kit/one.py": "\n\n\n" + _ONE}),
    _harmless("another format", {"kit/one.py": _ONE.replace("x + SIZE", "(x\n            + SIZE)")}),
    _harmless("a function that does not run", {"kit/one.py": _ONE.replace("return x\n", "return x * 5\n")}),
    _harmless_beside("packages that torch needs", "import filelock\nimport fsspec.utils\n", {}),
    _harmless_beside(
        "a package that hears of forks",
        "import locks\n",
        {"locks.py": "import sys\ndef hook(event, _):\n    if event == 'os.fork':\n        pass\nsys.addaudithook(hook)\n"},
    ),
    _harmless_beside(
        "a package that copies bytes with C functions of Python",
        "import fsspec.utils\n",
        {"fsspec/utils.py": "import ctypes\nas_text = ctypes.pythonapi.PyBytes_AsString\n"},
    ),
    _harmless(
        "a method of another operator", {"kit/two.py": "SIZE = 2\n\nclass Two:\n    def run(self, x):\n        return SIZE * x\n"}
    ),
    _harmless("a new test", {"tests/test_one.py": "def test(): pass\n"}),
    _harmless("documentation", {"README.md": "The project.\n", "docs/more.md": "x\n", "LICENSE": "x\n"}),
    _harmless("a workflow", {".github/workflows/ci.yml": "on: push\n"}),
    _harmless("the project's metadata", {"pyproject.toml": "[project]\nname = 'kernels'\n"}),
    _harmless("a module that nothing imports", {"kit/lazy.py": "SIZE = 3\n", "kit/new.py": "SIZE = 1\n"}),
    _harmless("another benchmark", {"bench/two.py": str(_KERNELS["bench/two.py"]).replace("run(1)", "run(2)")}),
    _harmless("results of ratchet", {"results/baseline.json": "{}\n", "results/history/a.json": "{}\n"}),
    _harmless("another commit", {".git/HEAD": "2\n"}),
    _harmless("what a file does as a program", {"kit/one.py": _ONE + "if __name__ == '__main__':\n    print(run(1))\n"}),
)
"""Changes after which the benchmark ``op`` is still the same."""

LATER = (
    Change(
        "its folder has another name meanwhile",
        in_op(
            f"{_HERE}def value():\n    moved = (ROOT / 'docs').rename(ROOT / 'moved')\n"
            "    size = (moved / 'a.md').stat().st_size\n    moved.rename(ROOT / 'docs')\n    return size\n",
            **{"docs/a.md": "2"},
        ),
        {"docs/a.md": "eight..."},
    ),
    Change(
        "the compiler that torch starts is a program of the tree",
        in_op(
            f"from torch.utils.cpp_extension import check_compiler_is_gcc\n{_HERE}"
            "def value(): return check_compiler_is_gcc(str(ROOT / 'tools/cxx'))\n",
            **{"tools/cxx": "#!/bin/sh\n[ -e ${0%/*}/../docs/new.md ] || printf 'COLLECT_GCC=1\\ngcc version 1'\n"},
        ),
        {"docs/new.md": ""},
        modes=("tools/cxx", 0o755, 0o755),
    ),
    Change(
        "a name with a dot is relative to a descriptor, and nothing opens its file",
        in_op(
            f"import os\n{_HERE}def value():\n    folder = os.open(ROOT / 'docs', os.O_PATH)\n"
            "    return os.fstat(os.open('./a.md', os.O_PATH, dir_fd=folder)).st_size\n",
            **{"docs/a.md": "2"},
        ),
        {"docs/a.md": "eight..."},
    ),
    Change(
        "a path is of a class that says it leads elsewhere",
        in_op(
            f"import os\n{_HERE}class Place(str):\n    def rpartition(self, *_): return '/etc', '/', 'passwd'\n"
            "def value(): return os.stat(Place(ROOT / 'docs/a.md')).st_size\n",
            **{"docs/a.md": "2"},
        ),
        {"docs/a.md": "eight..."},
    ),
    Change(
        "the names that an import found are read where it keeps them",
        in_op(
            "import sys, kit\nimport kit.other\ndef value(): return len(sys.path_importer_cache[kit.__path__[0]]._path_cache)\n",
            **{"kit/other.py": ""},
        ),
        {"kit/never.py": ""},
    ),
    Change(
        "byte code that an import left is read",
        in_op(
            "import marshal\nfrom pathlib import Path\nfrom kit import work\n"
            "def value():\n    code = marshal.loads(Path(work.__cached__).read_bytes()[16:])\n"
            "    return max(x for x in code.co_consts[0].co_consts if x)\n",
            **{"kit/work.py": "def work(): return 2\n"},
        ),
        {"kit/work.py": "def work(): return 8\n"},
    ),
    Change(
        "a function within another one is taken out of the code of that",
        in_op(
            "from kit.work import make\ndef value():\n"
            "    inner = [x for x in make.__code__.co_consts if hasattr(x, 'co_consts')][0]\n"
            "    return max(x for x in inner.co_consts if x)\n",
            **{"kit/work.py": "def make():\n    def inner():\n        return 2\n    return inner\n"},
        ),
        {"kit/work.py": "def make():\n    def inner():\n        return 8\n    return inner\n"},
    ),
    Change(
        "a pipe cannot be made where there is something",
        in_op(
            _HERE + "import os\ndef value():\n    try:\n        os.mkfifo(ROOT / 'notes.md')\n"
            "    except FileExistsError:\n        return 8\n"
            "    os.remove(ROOT / ('no' + 'tes.md'))\n    return 2\n"
        ),
        {"notes.md": ""},
    ),
    Change(
        "the C library is asked for a document",
        in_op(_HERE + "import ctypes\ndef value(): return ctypes.CDLL(None).access(bytes(ROOT / 'notes.md'), 0)\n"),
        {"notes.md": ""},
    ),
    Change(
        "the call itself is a function of Python's own",
        in_op(_HERE + "value = (ROOT / 'notes.md').read_text\n", **{"notes.md": "2"}),
        {"notes.md": "8"},
    ),
    Change(
        "a thread of a pool lists a folder",
        in_op(
            _HERE + "import os\nfrom concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor(1)\n"
            "def value(): return len(POOL.submit(os.listdir, ROOT / 'docs').result())\n",
            **{"docs/one.md": ""},
        ),
        {"docs/two.md": ""},
    ),
    Change(
        "the resources of a package are listed",
        in_op("from importlib.resources import files\ndef value(): return len(list(files('kit').iterdir()))\n"),
        {"kit/notes.md": ""},
    ),
    Change(
        "two documents are compared",
        in_op(
            _HERE + "import filecmp\ndef value(): return filecmp.cmp(ROOT / 'a.md', ROOT / 'b.md')\n",
            **{"a.md": "1", "b.md": "1"},
        ),
        {"b.md": "22"},
    ),
    Change(
        "a folder cannot be made where there is one",
        in_op(
            _HERE + "import os\ndef value():\n    try:\n        os.mkdir(ROOT / 'docs')\n"
            "    except FileExistsError:\n        return 8\n"
            "    os.rmdir(ROOT / ('do' + 'cs'))\n    return 2\n"
        ),
        {"docs/one.md": ""},
    ),
    Change(
        "a database attaches a document",
        in_op(
            _HERE + "import sqlite3\nD = sqlite3.connect(':memory:')\nD.execute('attach ? as d', (str(ROOT / 'data.md'),))\n"
            "def value(): return D.execute('select count(*) from d.sqlite_master').fetchone()[0]\n",
            **{"data.md": ""},
        ),
        {"data.md": _DATABASE},
    ),
    Change(
        "a package becomes a namespace",
        in_op(
            "import kit.sub\ndef value(): return 8 if kit.sub.__file__ is None else 2\n",
            **{"kit/sub/__init__.py": "", "kit/sub/a.py": ""},
        ),
        {"kit/sub/__init__.py": None},
    ),
    Change(
        "a namespace becomes a package",
        in_op(
            "import kit.sub\ndef value(): return 2 if kit.sub.__file__ is None else 8\n",
            **{"kit/sub/a.py": ""},
        ),
        {"kit/sub/__init__.py": ""},
    ),
    Change(
        "the first process leaves its result to the next one",
        in_op(
            _HERE
            + "from kit import work\ndef value():\n    kept = ROOT / 'kept.txt'\n    if not kept.exists():\n"
            + "        kept.write_text(str(work.work()))\n    return int(kept.read_text())\n",
            **{"kit/work.py": "def work(): return 2\n"},
        ),
        {"kit/work.py": "def work(): return 8\n"},
    ),
    Change(
        "a pool hands out the entries of a folder",
        in_op(
            _HERE
            + "import os\nfrom concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor(1)\n"
            + "def value(): return [each.stat().st_size for each in POOL.submit(os.scandir, ROOT / 'docs').result()][0]\n",
            **{"docs/one.md": "1"},
        ),
        {"docs/one.md": "12"},
    ),
    Change(
        "a folder has as many links as it has folders",
        in_op(_HERE + "def value(): return (ROOT / 'docs').stat().st_nlink\n", **{"docs/one.md": ""}),
        {"docs/more/two.md": ""},
    ),
    Change(
        "a line number is read from a function",
        in_op("def value(): return value.__code__.co_firstlineno\n"),
        in_op("# one\n# two\ndef value(): return value.__code__.co_firstlineno\n"),
    ),
    Change(
        "a line number is read from a frame",
        in_op("import sys\ndef value(): return sys._getframe().f_lineno\n"),
        in_op("import sys\n# one\n# two\ndef value(): return sys._getframe().f_lineno\n"),
    ),
    Change(
        "an audit hook is a function of the file that changed",
        in_op(
            "import sys\nfrom kit.work import N, work\nsys.addaudithook(work)\n"
            "def value():\n    sys.audit('kit')\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work(*_): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work(*_): N[0] = 8\n"},
    ),
    Change(
        "an audit hook is a partial call, added by another name, and runs in a thread",
        in_op(
            "import sys\nfrom functools import partial\nfrom threading import Thread\nfrom kit.work import N, work\n"
            "vars(sys)['addaudit' + 'hook'](partial(work, 1))\n"
            "def value():\n    thread = Thread(target=sys.audit, args=('kit',))\n"
            "    thread.start()\n    thread.join()\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work(*_): N[0] = 2\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work(*_): N[0] = 8\n"},
    ),
    Change(
        "the audit hook of a package goes on with a generator",
        in_op(
            "import bus, sys\nfrom kit.work import N, work\nbus.GOING.append(work())\n"
            "def value():\n    sys.audit('kit')\n    return N[0]\n",
            **{"kit/work.py": "N = [0]\ndef work():\n    while True:\n        N[0] = 2\n        yield\n"},
        ),
        {"kit/work.py": "N = [0]\ndef work():\n    while True:\n        N[0] = 8\n        yield\n"},
        library={
            "bus.py": "import sys\nGOING = []\n"
            "def hook(event, _):\n    for each in GOING if event == 'kit' else ():\n        next(each)\nsys.addaudithook(hook)\n"
        },
    ),
    Change(
        "a file is read whose name is no text",
        in_op(_HERE + "def value(): return int((ROOT / 'n\\udcff.md').read_text())\n", **{"n\udcff.md": "2"}),
        {"n\udcff.md": "8"},
    ),
    Change(
        "a function's code is found in memory",
        in_op(
            "import ctypes\nfrom kit.work import work\n"
            "PLACES = range(16, 96, 8)\n"
            "def value():\n    there = [ctypes.c_void_p.from_address(id(work) + each).value for each in PLACES]\n"
            "    kind = id(type(compile('', '', 'exec')))\n"
            "    is_code = [each for each in there if each and ctypes.c_void_p.from_address(each + 8).value == kind]\n"
            "    return max(x for x in ctypes.cast(is_code[0], ctypes.py_object).value.co_consts if x)\n",
            **{"kit/work.py": "def work(): return 2\n"},
        ),
        {"kit/work.py": "def work(): return 8\n"},
    ),
    Change(
        "the compiler warns of a function that never runs, and warnings are errors",
        in_op(
            "import warnings\nwarnings.simplefilter('error')\n"
            "try:\n    from kit.fast import value\nexcept SyntaxError:\n    def value(): return 8\n",
            **{"kit/fast.py": "def value(): return 2\ndef unused(): return 'd'\n"},
        ),
        {"kit/fast.py": "def value(): return 2\ndef unused(): return '\\d'\n"},
    ),
    Change(
        "a tracer is shown frames, and so lines",
        _with_work("import sys\ndef value():\n    sys.settrace(told)\n    work()\n    sys.settrace(None)\n    return SEEN[0]\n"),
        _SHIFTED,
    ),
    Change(
        "a tracer of threads is shown frames, and so lines",
        _with_work(
            "import threading\nthreading.settrace(told)\n"
            "def value():\n    thread = threading.Thread(target=work)\n    thread.start()\n    thread.join()\n"
            "    return max(SEEN)\n"
        ),
        _SHIFTED,
    ),
    Change(
        "a profiler of Python's own is shown lines",
        _with_work(
            "import cProfile\ndef value():\n    profile = cProfile.Profile()\n    profile.runcall(work)\n"
            "    profile.create_stats()\n    return [each[1] for each in profile.stats if each[2] == 'work'][0]\n"
        ),
        _SHIFTED,
    ),
    Change(
        "the collector shows the code of a function, and so its lines",
        _with_work(
            "import gc\nCODE = [each for each in gc.get_referents(work) if hasattr(each, 'co_code')][0]\n"
            "def value(): return CODE.co_firstlineno\n"
        ),
        _SHIFTED,
    ),
    Change(
        "an audit hook is shown code, and so lines",
        _with_work(
            "import sys\ndef hook(event, given):\n    if event == 'exec' and given[0].co_filename.endswith('late.py'):\n"
            "        SEEN.append(max(each.co_firstlineno for each in given[0].co_consts if hasattr(each, 'co_code')))\n"
            "sys.addaudithook(hook)\nimport kit.late\ndef value(): return SEEN[-1]\n",
            **{"kit/late.py": "def late(): return 1\n"},
        ),
        {"kit/late.py": "# one\n# two\ndef late(): return 1\n"},
    ),
    Change(
        "a handler of signals is given a frame, and so lines",
        _with_work(
            "def value(): return work()\n", **{"kit/work.py": _HANDLED + "def work(): signal.raise_signal(10); return SEEN[-1]\n"}
        ),
        {"kit/work.py": _HANDLED + "# one\ndef work(): signal.raise_signal(10); return SEEN[-1]\n"},
    ),
    Change(
        "a handler of signals is given a frame, and so the code of its module",
        _with_work("from kit.work import SEEN\ndef value(): return SEEN[0]\n", **{"kit/work.py": _CODED % 2}),
        {"kit/work.py": _CODED % 8},
    ),
    Change(
        "a part that runs as a program comes to stand before a docstring",
        in_op("'A text.'\ndef value(): return __doc__\n"),
        in_op("if __name__ == '__main__':\n    pass\n'A text.'\ndef value(): return __doc__\n"),
    ),
)
"""The same, of other kinds; written when the code was finished."""
