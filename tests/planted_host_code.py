"""A small project whose benchmarks depend on their code in many ways, and changes to it that an identity has to see.

`tests/unit/test_host_code.py` plants each change and compares the host code of all cases before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass

_PLAIN_NAMES = (
    *("global", "import", "alias", "module", "default", "keyword", "closure", "decorator", "argument", "config", "lambda"),
    *("dataclass", "enum", "generator", "async", "thread", "cache", "environment"),
)
_ACTS = (
    *("helpers", "listing_thread", "scan", "eval", "pickle", "pickled_name", "child", "shell", "source", "lines", "docstring"),
    *("subclasses", "modules", "file", "bytes", "gone", "mock", "loader", "bare_thread"),
)
PROJECT = {
    "README.md": "A project.\n",
    "pyproject.toml": "[project]\nname = 'kernels'\n",
    "data/table.txt": "1\n2\n3\n",
    "data/numbers.json": '{"block": 64}\n',
    "data/array.npy": "not read as such",
    "data/where.txt": "kernels.pointed.FACTOR",
    "results/baseline.json": "{}\n",
    "results/best.txt": "2",
    "kernels/__init__.py": "",
    "kernels/constants.py": "BLOCK = 64\nWIDE = 128\nUNUSED = 1\n",
    "kernels/decorators.py": """\
import functools

def scaled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * 2.0
    return wrapper

def scaled_by(factor):
    def decorate(function):
        def wrapper(*args):
            return function(*args) * factor
        return wrapper
    return decorate
""",
    "kernels/ops.py": '''\
"""Operators."""
import dataclasses, enum, functools, os, threading
import torch
from kernels.constants import BLOCK, WIDE as WIDTH
from kernels import constants
from kernels.decorators import scaled, scaled_by

ROUNDS = 3
CONFIG = {"block": 4, "nested": {"depth": 2}}
TABLE = {"add": lambda x: x + 1, "mul": lambda x: x * 2}

def with_global(x):
    # a comment
    for _ in range(ROUNDS):
        x = x + 1
    return x

def with_import(x):
    return x * BLOCK

def with_alias(x):
    return x * WIDTH

def with_module(x):
    return x * constants.BLOCK

def with_default(x, times=2):
    return x * times

def with_keyword(x, *, times=2):
    return x * times

def make_closure(factor):
    def inner(x):
        return x * factor
    return inner

with_closure = functools.partial(make_closure(5))

@scaled
def with_decorator(x):
    return x

@scaled_by(3)
def with_argument(x):
    return x

def with_config(x):
    return x * CONFIG["block"] * CONFIG["nested"]["depth"]

def with_lambda(x):
    return TABLE["add"](x)

class Base:
    scale = 2
    def run(self, x):
        return x * self.scale

class Derived(Base):
    def __init__(self):
        self.offset = 1
    def run(self, x):
        return super().run(x) + self.offset

class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.factor = 7
        return made

class WithMeta(metaclass=Meta):
    def run(self, x):
        return x * self.factor

class Descriptor:
    def __get__(self, owner, kind):
        return 3

class WithProperty:
    __slots__ = ("a",)
    described = Descriptor()
    def __init__(self):
        self.a = 4
    @property
    def factor(self):
        return 2
    def run(self, x):
        return x * self.factor * self.described * self.a

@dataclasses.dataclass
class Settings:
    block: int = 8
    names: list = dataclasses.field(default_factory=list)

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

def with_dataclass(x):
    return x * Settings().block

def with_enum(x):
    return x * Mode.FAST.value

half = functools.partial(with_default, times=0.5)

def steps(x):
    for at in range(3):
        yield x * at

def with_generator(x):
    return sum(steps(x))

async def later(x):
    return x * 2

def with_async(x):
    import asyncio
    return asyncio.run(later(x))

def with_thread(x):
    out = []
    def body():
        out.append(x * 9)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return out[0]

@functools.lru_cache(maxsize=None)
def cached_factor():
    return 11

def with_cache(x):
    return x * cached_factor()

def with_environment(x):
    return x * int(os.environ.get("KERNELS_FACTOR", "1"))
''',
    "kernels/registry.py": """\
REGISTRY = {}

def register(name):
    def decorate(function):
        REGISTRY[name] = function
        return function
    return decorate

@register("twice")
def twice(x):
    return x * 2

def run(name, x):
    return REGISTRY[name](x)
""",
    "kernels/patches.py": """\
import os
import torch

os.environ["KERNELS_FACTOR"] = "3"
_relu = torch.relu

def patched(x):
    return _relu(x) * 1.0

torch.relu = patched
torch.set_num_threads(1)
""",
    "kernels/lazy.py": "def run(x):\n    return x * 2\n",
    "kernels/hooked.py": "def __getattr__(name):\n    if name == 'FACTOR':\n        return 4\n    raise AttributeError(name)\n",
    "kernels/starred.py": "STAR = 6\n_HIDDEN = 1\n",
    "kernels/conditional.py": (
        "from kernels.starred import *\nDEEP = 2\nif DEEP > 1:\n    def run(x):\n        return x * STAR\n"
        "else:\n    def run(x):\n        return x\n"
    ),
    "kernels/files.py": """\
import json
from pathlib import Path

HERE = Path(__file__).parent
SCALE = json.loads((HERE.parent / "data" / "numbers.json").read_text())["block"]

def with_text(x):
    return x * len((HERE.parent / "data" / "table.txt").read_text().split())

def with_scale(x):
    return x * SCALE
""",
    "kernels/dynamic.py": """\
import importlib
import os
from pathlib import Path

def with_exec(x):
    scope = {}
    exec("def f(x):\\n    return x * 5\\n", scope)
    return scope["f"](x)

def with_plugins(x):
    for name in sorted(os.listdir(Path(__file__).parent / "plugins")):
        if name.startswith("p"):
            x = importlib.import_module("kernels.plugins." + name.partition(".")[0]).run(x)
    return x

def with_program(x):
    import subprocess, sys
    script = Path(__file__).parent.parent / "tools" / "answer"
    return x * int(subprocess.run([sys.executable, str(script) + ".py"], capture_output=True, text=True).stdout)

def with_reload(x):
    import kernels.lazy
    importlib.reload(kernels.lazy)
    return kernels.lazy.run(x)

def named(x, name):
    from kernels import ops
    return getattr(ops, "with_" + name)(x)
""",
    "kernels/acts.py": """\
import _thread
import inspect
import linecache
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import torch
from kernels import hidden

HERE = Path(__file__).parent
FOUND = []

def install(name):
    subprocess.run([sys.executable, "-m", "pip", "install", name])

def listing(folder):
    return sorted(os.listdir(folder))

def unpickled(data):
    return pickle.loads(data)

def evaluated(text):
    return eval(text)

def with_helpers(x):
    helpers = (install, listing, unpickled, evaluated)
    return x * len(helpers)

def with_listing_thread(x):
    thread = threading.Thread(target=lambda: FOUND.append(len(listing(HERE / "plugins"))))
    thread.start()
    thread.join()
    return x * FOUND[-1]

def with_scan(x):
    return x * len(list(os.scandir(HERE.parent / "kernels" / "plugins")))

def with_eval(x):
    return x * sum(map(eval, ["hidd" + "en.FACTOR"]))

def with_pickle(x):
    return x * pickle.loads(b"ckernels.hidden\\nfactor\\n.")()

def with_pickled_name(x):
    return x * pickle.loads(b"cbuiltins\\neval\\n(X\\x15\\x00\\x00\\x00__import__('kernels')tR.").hidden.FACTOR

def with_child(x):
    reader, writer = os.pipe()
    def run():
        os.write(writer, str(len(listing(HERE / "plugins"))).encode())
    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join()
    return x * int(os.read(reader, 9))

def counted(folder):
    return len(os.listdir(folder))

class Counted(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, at):
        return counted(HERE / "plugins")

def with_loader(x):
    return x * next(iter(torch.utils.data.DataLoader(Counted(), num_workers=1)))

def with_bare_thread(x):
    _thread.start_new_thread(os.scandir, (str(HERE / "plugins"),))
    time.sleep(0.1)
    return x * len(os.listdir(HERE / "plugins"))

def with_shell(x):
    return x * (1 + os.system(f"exit $(cat '{HERE}'/hidden* | wc -c)"))

def documented():
    # one line of source
    return 1

def with_source(x):
    return x * len(inspect.getsource(documented))

def with_lines(x):
    return x * len(linecache.getlines(hidden.__file__))

def with_docstring(x):
    return x * len(hidden.factor.__doc__)

def with_subclasses(x):
    return x * sum(kind.FACTOR for kind in hidden.Kind.__subclasses__())

def with_modules(x):
    return x * getattr(sys.modules["kernels." + "hidden"], "FAC" + "TOR")

def with_file(x):
    return x * len((HERE.parent / "tools" / "answer.py").read_text())

def with_bytes(x):
    with open(os.fsencode(HERE.parent) + b"/tools/answer.py") as file:
        return x * len(file.read())

def with_gone(x):
    import kernels.gone
    return x * sys.modules.pop("kernels.gone").factor()

def with_mock(x):
    with mock.patch("kernels." + "hidden.FACTOR", 5):
        return x * hidden.factor()
""",
    "kernels/gone.py": "FACTOR = 2\n\ndef factor():\n    return FACTOR\n",
    "kernels/hidden.py": '''\
FACTOR = 2

class Kind:
    FACTOR = 1

def factor():
    """Return it."""
    return FACTOR
''',
    "kernels/kinds.py": "from kernels.hidden import Kind\n\nclass One(Kind):\n    FACTOR = 2\n",
    "kernels/handed.py": "FACTOR = 2\n",
    "kernels/formatted.py": "FACTOR = 2\n",
    "kernels/pointed.py": "FACTOR = 2\n",
    "kernels/rendered.py": """\
import sys
from pathlib import Path
import jinja2
import pydantic
from kernels import formatted, handed

DATA = Path(__file__).parents[1] / "data"

def with_format(x):
    return x * float("{module.FACTOR}".format(module=formatted))

def with_template(x):
    text = jinja2.Template("{{ module[name] }}").render(module=handed, name="FAC" + "TOR")
    return x * float(text)

POINTED = pydantic.TypeAdapter(pydantic.ImportString).validate_python((DATA / "where.txt").read_text())

def with_pointer(x):
    return x * POINTED

def with_best(x):
    return x * float((DATA.parent / "results" / "best.txt").read_text())
""",
    "kernels/plugins/p_one.py": "def run(x):\n    return x + 1\n",
    "kernels/vendors/__init__.py": """\
import importlib
import pkgutil

RUNS = []
for _, found, _ in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{found}")
""",
    "kernels/vendors/one.py": "from kernels import vendors\n\nvendors.RUNS.append(lambda x: x + 1)\n",
    "kernels/vendors/two.py": "from kernels.vendors.one import vendors\n\ndef run(x):\n    return x * 4\n",
    "tools/answer.py": "print(42)\n",
    "kernels/other.py": "FACTOR = 2\n\ndef helper(x):\n    return x * FACTOR\n\ndef run(x):\n    return helper(x)\n",
    "kernels/unrelated.py": "SIZE = 3\n\ndef first(x):\n    return x * SIZE\n\ndef second(x):\n    return x\n",
    "bench/cases.py": """\
import torch
from ratchet import Workload, benchmark
from kernels import acts, conditional, dynamic, files, hooked, kinds, ops, other, patches, registry, rendered, unrelated, vendors

def case(run, size=16):
    x = torch.ones(size)
    return Workload(run=lambda: run(x), reference=None, dtype="float32", flops=size, bytes=4 * size)

"""
    + "".join(
        f"@benchmark(devices=('cpu',))\ndef {name}(*, device):\n    return case({code})\n\n"
        for name, code in {
            **{f"with_{name}": f"ops.with_{name}" for name in _PLAIN_NAMES},
            "with_half": "ops.half",
            "with_base": "ops.Derived().run",
            "with_meta": "ops.WithMeta().run",
            "with_property": "ops.WithProperty().run",
            "with_registry": "lambda x: registry.run('twice', x)",
            "with_patch": "torch.relu",
            "with_hook": "lambda x: x * hooked.FACTOR",
            "with_condition": "conditional.run",
            "with_text": "files.with_text",
            "with_scale": "files.with_scale",
            "with_exec": "dynamic.with_exec",
            "with_plugins": "dynamic.with_plugins",
            "with_vendors": "lambda x: [run(x) for run in vendors.RUNS]",
            "with_vendor": "lambda x: vendors.two.run(x)",
            "with_program": "dynamic.with_program",
            "with_reload": "dynamic.with_reload",
            "with_name": "lambda x: dynamic.named(x, 'global')",
            **{f"with_{name}": f"rendered.with_{name}" for name in ("format", "template", "pointer", "best")},
            **{f"with_{name}": f"acts.with_{name}" for name in _ACTS},
            "alone": "other.run",
        }.items()
    ),
}
"""File → text."""


@dataclass(frozen=True)
class Change:
    """A change to a file of the project."""

    name: str
    file: str
    old: str
    new: str
    case: str
    """The case that must not be the same any more."""
    spares: bool = True
    """The case ``alone``, which does not use what is changed, must still be the same."""


_OPS, _DYNAMIC = "kernels/ops.py", "kernels/dynamic.py"
_ACTS_FILE, _HIDDEN, _NEW = "kernels/acts.py", "kernels/hidden.py", "kernels/plugins/q_two.py"
_VENDOR = "from kernels import vendors\nvendors.RUNS.append(abs)\n"
CHANGES = (
    Change("a global constant", _OPS, "ROUNDS = 3", "ROUNDS = 4", "with_global"),
    Change("an imported constant", "kernels/constants.py", "BLOCK = 64", "BLOCK = 65", "with_import"),
    Change("a constant under another name", "kernels/constants.py", "WIDE = 128", "WIDE = 129", "with_alias"),
    Change("a constant of an imported module", "kernels/constants.py", "BLOCK = 64", "BLOCK = 65", "with_module"),
    Change("a body", _OPS, "x = x + 1", "x = x + 2", "with_global"),
    Change("a default", _OPS, "def with_default(x, times=2)", "def with_default(x, times=3)", "with_default"),
    Change("a keyword default", _OPS, "*, times=2", "*, times=3", "with_keyword"),
    Change("a closure's value", _OPS, "make_closure(5)", "make_closure(6)", "with_closure"),
    Change("a decorator's body", "kernels/decorators.py", "* 2.0", "* 3.0", "with_decorator"),
    Change("another decorator", _OPS, "@scaled\n", "@scaled_by(2)\n", "with_decorator"),
    Change("a decorator's argument", _OPS, "@scaled_by(3)", "@scaled_by(4)", "with_argument"),
    Change("a value in a dict", _OPS, '"block": 4', '"block": 5', "with_config"),
    Change("a nested value", _OPS, '"depth": 2', '"depth": 3', "with_config"),
    Change("a lambda in a dict", _OPS, "lambda x: x + 1", "lambda x: x + 2", "with_lambda"),
    Change("a class attribute", _OPS, "scale = 2", "scale = 3", "with_base"),
    Change("an __init__", _OPS, "self.offset = 1", "self.offset = 2", "with_base"),
    Change("a base class", _OPS, "x * self.scale", "x + self.scale", "with_base"),
    Change("a metaclass", _OPS, "made.factor = 7", "made.factor = 8", "with_meta", spares=False),
    Change("a property", _OPS, "        return 2\n    def run", "        return 3\n    def run", "with_property", spares=False),
    Change("a descriptor", _OPS, "        return 3\n", "        return 4\n", "with_property", spares=False),
    Change("slots", _OPS, '("a",)', '("a", "b")', "with_property", spares=False),
    Change("a field's default", _OPS, "block: int = 8", "block: int = 9", "with_dataclass"),
    Change("an enum's value", _OPS, "FAST = 1", "FAST = 3", "with_enum"),
    Change("a partial's argument", _OPS, "times=0.5", "times=0.25", "with_half"),
    Change("a generator", _OPS, "yield x * at", "yield x + at", "with_generator"),
    Change("a coroutine", _OPS, "    return x * 2\n\ndef with_async", "    return x * 3\n\ndef with_async", "with_async"),
    Change("a thread's body", _OPS, "x * 9", "x * 8", "with_thread"),
    Change("a cached value", _OPS, "return 11", "return 12", "with_cache"),
    Change("a variable that an import sets", "kernels/patches.py", '"3"', '"4"', "with_environment", spares=False),
    Change("a patch of torch", "kernels/patches.py", "* 1.0", "* 2.0", "with_patch", spares=False),
    Change("a setting of torch", "kernels/patches.py", "set_num_threads(1)", "set_num_threads(2)", "alone", spares=False),
    Change("an entry of a registry", "kernels/registry.py", "return x * 2", "return x * 3", "with_registry", spares=False),
    Change("a module's __getattr__", "kernels/hooked.py", "return 4", "return 5", "with_hook"),
    Change("a star import", "kernels/starred.py", "STAR = 6", "STAR = 7", "with_condition", spares=False),
    Change("a condition at the top", "kernels/conditional.py", "DEEP = 2", "DEEP = 1", "with_condition", spares=False),
    Change("a text file", "data/table.txt", "3\n", "3\n4\n", "with_text", spares=False),
    Change("a json file", "data/numbers.json", "64", "65", "with_scale", spares=False),
    Change("code in a text", _DYNAMIC, "x * 5", "x * 6", "with_exec"),
    Change("a plugin", "kernels/plugins/p_one.py", "x + 1", "x + 2", "with_plugins"),
    Change("a new plugin", "kernels/plugins/p_two.py", "", "def run(x):\n    return x\n", "with_plugins"),
    Change("what a vendor registers", "kernels/vendors/one.py", "x + 1", "x + 2", "with_vendors", spares=False),
    Change(
        "a new vendor",
        "kernels/vendors/a.py",
        "",
        "from kernels import vendors\nvendors.RUNS.append(abs)\n",
        "with_vendors",
        False,
    ),
    Change("a vendor that is used by name", "kernels/vendors/two.py", "x * 4", "x * 5", "with_vendor"),
    Change("a program", "tools/answer.py", "42", "43", "with_program"),
    Change("a lazily imported module", "kernels/lazy.py", "x * 2", "x * 3", "with_reload"),
    Change("an attribute named in a format", "kernels/formatted.py", "FACTOR = 2", "FACTOR = 3", "with_format"),
    Change("an attribute of a module given to a library", "kernels/handed.py", "FACTOR = 2", "FACTOR = 3", "with_template"),
    Change(
        "a name that a library found in a file", "kernels/pointed.py", "FACTOR = 2", "FACTOR = 3", "with_pointer", spares=False
    ),
    Change("a file among the results that is not ratchet's", "results/best.txt", "2", "3", "with_best", spares=False),
    Change("a new file that a thread lists", _NEW, "", "", "with_listing_thread"),
    Change("a name in a text that runs", _HIDDEN, "FACTOR = 2", "FACTOR = 3", "with_eval"),
    Change("a function that a pickle names", _HIDDEN, "FACTOR = 2", "FACTOR = 3", "with_pickle"),
    Change("a file that a forked child lists", _NEW, "", "", "with_child"),
    Change("a file that a loader's worker lists", _NEW, "", "", "with_loader"),
    Change("a file that a thread without Python code lists", _NEW, "", "", "with_bare_thread"),
    Change("a comment in source that is read", _ACTS_FILE, "# one line of source", "# one longer line of source", "with_source"),
    Change("a docstring that is read", _HIDDEN, "Return it.", "Return the factor.", "with_docstring"),
    Change("a class that is found by its base", "kernels/kinds.py", "FACTOR = 2", "FACTOR = 3", "with_subclasses"),
    Change("a module found by a computed name", _HIDDEN, "FACTOR = 2", "FACTOR = 3", "with_modules"),
    Change("a Python file that is read as text", "tools/answer.py", "42", "420", "with_file"),
    Change("a Python file that bytes name", "tools/answer.py", "42", "420", "with_bytes"),
    Change("a module that was taken out", "kernels/gone.py", "FACTOR = 2", "FACTOR = 3", "with_gone"),
    Change("a function found by a computed name", _OPS, "ROUNDS = 3", "ROUNDS = 5", "with_name"),
)
HELD_OUT = (
    Change("a new name that hides a builtin", _OPS, "ROUNDS = 3", "ROUNDS = 3\ndef range(n):\n    return [0]", "with_global"),
    Change("a name bound twice", _OPS, "ROUNDS = 3", "ROUNDS = 3\nROUNDS = 2", "with_global"),
    Change("an order of decorators", _OPS, "@scaled_by(3)", "@scaled\n@scaled_by(3)", "with_argument"),
    Change(
        "another base", _OPS, "class Derived(Base):", "class Extra(Base):\n    scale = 9\n\nclass Derived(Extra):", "with_base"
    ),
    Change(
        "a folder's import order",
        "bench/cases.py",
        "import torch\n",
        "import torch\nimport sys\nsys.path.append('x')\n",
        "alone",
        spares=False,
    ),
    Change(
        "a patch of a class",
        "kernels/patches.py",
        "torch.relu = patched",
        "torch.relu = patched\ntorch.Tensor.half_way = 1",
        "alone",
        spares=False,
    ),
    Change("a default of a factory", _OPS, "default_factory=list", "default_factory=dict", "with_dataclass"),
    Change(
        "an imported name",
        _OPS,
        "from kernels.constants import BLOCK, WIDE",
        "from kernels.constants import UNUSED as BLOCK, WIDE",
        "with_import",
    ),
    Change("a binary file", "data/array.npy", "not read", "no text", "with_text", spares=False),
    Change(
        "an __init__ of a package",
        "kernels/__init__.py",
        "",
        "import torch\ntorch.set_default_dtype(torch.float64)\n",
        "alone",
        spares=False,
    ),
    Change("a new file that is listed", _NEW, "", "", "with_scan"),
    Change("a name that a pickle computes", _HIDDEN, "FACTOR = 2", "FACTOR = 3", "with_pickled_name"),
    Change("a file that a shell reads", _HIDDEN, "FACTOR = 2", "FACTOR = 2  # and more and more and more and more", "with_shell"),
    Change("a module's lines", _HIDDEN, "FACTOR = 2", "\n\nFACTOR = 2", "with_lines"),
    Change("what a mock replaces", _HIDDEN, "    return FACTOR", "    return FACTOR + 1", "with_mock"),
    Change("a changed case", "bench/cases.py", "ops.with_global", "ops.with_cache", "with_global"),
    Change("a helper of all cases", "bench/cases.py", "size=16", "size=32", "alone", spares=False),
)
"""Changes that were written with the others, and first tried when the code was finished."""

HARMLESS = (
    Change("a new file, where what could list did not", _NEW, "", "", "with_helpers"),
    Change("a docstring that nothing reads", _HIDDEN, "Return it.", "Return the factor.", "with_helpers"),
    Change("another file than the one that is read", "tools/other.py", "", "print(1)\n", "with_file"),
    Change("a comment", _OPS, "# a comment", "# another comment", "with_global"),
    Change("a docstring of a module", _OPS, '"""Operators."""', '"""All operators."""', "with_global"),
    Change("an empty line", _OPS, "ROUNDS = 3", "\n\nROUNDS = 3", "with_global"),
    Change("another operator's body", _OPS, "x * 9", "x * 7", "with_global"),
    Change("a new docstring", _OPS, "def with_global(x):\n", 'def with_global(x):\n    """Add."""\n', "with_global"),
    Change("a new function", "kernels/unrelated.py", "SIZE = 3", "SIZE = 3\n\ndef third(x):\n    return x\n", "with_global"),
    Change("a new constant", _OPS, "ROUNDS = 3", "ROUNDS = 3\nMORE = 4", "with_global"),
    Change(
        "another file's order",
        "kernels/unrelated.py",
        "SIZE = 3\n\ndef first",
        "def zero():\n    pass\n\nSIZE = 3\n\ndef first",
        "alone",
    ),
    Change("another constant", "kernels/unrelated.py", "SIZE = 3", "SIZE = 4", "with_global"),
    Change("the README", "README.md", "A project.", "The project.", "alone"),
    Change("the project's settings", "pyproject.toml", "kernels", "fast-kernels", "alone"),
    Change("the results of ratchet", "results/baseline.json", "{}", '{"a": 1}', "alone"),
    Change("a file that nothing loads", "tools/answer.py", "42", "43", "with_global"),
    Change("a new test", "tests/test_kernels.py", "", "def test():\n    pass\n", "alone"),
    Change("a new class", _OPS, "class Base:", "class Another:\n    pass\n\nclass Base:", "with_base"),
    Change(
        "the format",
        _OPS,
        "for _ in range(ROUNDS):\n        x = x + 1",
        "for _ in range(ROUNDS):\n        x = (x\n             + 1)",
        "with_global",
    ),
    Change("a case beside it", "bench/cases.py", "return case(ops.with_thread)", "return case(ops.with_cache)", "with_global"),
)
"""Changes after which ``case`` must still be the same."""
