"""The proof that two trees are the same for a case: every planted change is noticed, and what changes nothing is not."""

from __future__ import annotations

import gc
import json
import marshal
import os
import sys
import time
import warnings
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ratchet.core.bench.child.host import load
from ratchet.core.bench.messages import HostCode
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.errors import WorkerError
from ratchet.core.records.run import CaseRun
from ratchet.identical.difference import PythonChange, TreeDifference, compare, python_change, whole
from ratchet.identical.footprint import Footprint, Found, look
from ratchet.identical.proof import Noticed, Proof
from ratchet.identical.runtime import JIT_FUNCTION, freeze, living
from ratchet.identical.watch import NativeOpenings
from ratchet.process_state.boundary import CaseBoundary
from tests import examples
from tests.forked import forked
from tests.planted_changes import BENCH, HARMLESS, LATER, SEEN, Change, Text, in_op

pytestmark = pytest.mark.no_cover


def write(tree: Path, files: Mapping[str, Text]) -> Path:
    for name, text in {"kit/__init__.py": "", ".git/HEAD": "1\n", **files}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Path):
            path.symlink_to(text)
        elif text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(text.encode() if isinstance(text, str) else text)
    return tree


def spec_of(tree: Path) -> TreeSpec:
    return TreeSpec.of(Settings(), tree, checkout=tree.parent / "checkout", device="cpu", gpu_uuid=None)


def answers(folder: Path, change: Change) -> tuple[dict[str, dict[str, Any]], Found]:
    """Plant a change. Return what the benchmark ``op`` returns on each side and what was noticed there, in plain values.

    And what would have been noticed by what one process touched that ran in the base, before anybody knew of the change.
    """
    import torch  # noqa: F401  as in a host

    base = {"bench/op.py": change.bench, **change.base}
    contents = {"base": base, "head": {**base, **change.head}, "then": base}
    trees = {name: write(folder / name / name, files).resolve() for name, files in contents.items()}
    write(folder / "some-packages", change.library)
    for side, mode in zip(("base", "head"), change.modes[1:] if change.modes else (), strict=False):
        (trees[side] / change.modes[0]).chmod(mode)
    difference = compare(trees["base"], trees["head"], "bench", "results")
    found = {side: watched(trees[side], folder / "some-packages", difference) for side in ("base", "head")}
    footprint = watched(trees["then"], folder / "some-packages", whole(trees["then"]))["footprint"]
    return found, look(Footprint.model_validate(footprint, strict=False).touches(), difference)


def watched(tree: Path, library: Path, difference: TreeDifference) -> dict[str, Any]:
    """Call the benchmark ``op`` of a tree twice in a worker that is watched, and return what it returned and touched."""

    def host(writer: int) -> None:
        sys.path.append(str(library))
        warnings.simplefilter("default")  # as in a host
        sys.dont_write_bytecode = False
        loaded = load(spec_of(tree), difference)
        assert not loaded.catalogue.broken, loaded.catalogue.broken
        with loaded.proof.forking():
            found = forked(lambda inner: worker(inner, loaded))
        os.write(writer, found.encode())

    def worker(writer: int, loaded: Any) -> None:
        loaded.proof.forked(watched=True)
        CaseBoundary(loaded).begin("op/default", watched=False)
        call = loaded.build("op/default", 1).run
        call()
        found = {"value": call(), **vars(loaded.proof.result())}
        "".join(found["noticed"]).encode()  # it can be sent
        os.write(writer, json.dumps({**found, "footprint": Footprint.of(loaded.proof.touched).model_dump()}).encode())

    return json.loads(forked(host))


def parameters(changes: tuple[Change, ...]) -> list[Any]:
    return [pytest.param(one, id=one.sentence) for one in changes if sys.version_info >= one.python]


@pytest.mark.slow
@pytest.mark.parametrize("change", parameters(SEEN + LATER))
def test_a_change_is_noticed(tmp_path: Path, change: Change) -> None:
    """A change of what a call returns is noticed on one side at least, and by what the call touched before the change."""
    found, later = answers(tmp_path, change)
    assert found["base"]["value"] != found["head"]["value"]
    assert found["base"]["noticed"] or found["head"]["noticed"]
    assert later.noticed


@pytest.mark.slow
@pytest.mark.parametrize("change", parameters(HARMLESS))
def test_what_changes_nothing_is_not_noticed(tmp_path: Path, change: Change) -> None:
    """A change that the case does not use is noticed on neither side, nor by what the case touched before."""
    found, later = answers(tmp_path, change)
    assert [(side["noticed"], side["unknown"]) for side in found.values()] == [([], "")] * 2
    assert later == Found()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writes", "uses"),
    [
        ("kit/_made.py", "from kit import _made\n    return _made.N"),
        ("kit/made", "return MADE.exists()"),
        ("kit/made", "import os\n    return os.access(MADE, os.R_OK)"),
        ("kit/made", "import sqlite3\n    return sqlite3.connect(MADE).total_changes"),
        ("kit/made", "return MADE.read_text()"),
        ("kit/made", "return len(list(MADE.parent.glob('m*')))"),
        ("kit/__pycache__/made", "return MADE.read_text()"),
    ],
    ids=["imported", "asked for", "asked for its rights", "opened by C code", "read", "listed", "read beside byte code"],
)
def test_what_another_worker_has_left_in_the_tree_is_noticed(tmp_path: Path, writes: str, uses: str) -> None:
    """It did what this one need not do any more, and nobody knows what that was."""
    op = f"from pathlib import Path\nMADE = Path(__file__).parent.parent / '{writes}'\ndef value():\n    {uses}\n"
    trees = {side: write(tmp_path / side / side, {**in_op(op), "bench/op.py": BENCH}).resolve() for side in ("base", "head")}
    (trees["head"] / "kit/source.py").write_text("def source(): return 8\n")

    def host(writer: int) -> None:
        loaded = load(spec_of(trees["base"]), compare(trees["base"], trees["head"], "bench", "results"))
        (trees["base"] / writes).parent.mkdir(exist_ok=True)
        (trees["base"] / writes).write_text("N = 2\n")
        os.write(writer, forked(lambda inner: worker(inner, loaded)).encode())

    def worker(writer: int, loaded: Any) -> None:
        loaded.proof.forked(watched=True)
        loaded.build("op/default", 1).run()
        os.write(writer, "; ".join(loaded.proof.result().noticed).encode())

    assert f"{Path(writes).name}, which the run itself has written" in forked(host)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beside", "uses"),
    [
        ("n.txt", "return MADE.read_text()"),
        ("n.txt", "return MADE.stat().st_size"),
        ("n.py", "import runpy\n    return runpy.run_path(str(MADE))['N']"),
        ("n.py", "import sys\n    sys.path.append(str(MADE.parent))\n    import n\n    return n.N"),
        ("n.db", "import sqlite3\n    return sqlite3.connect(MADE).total_changes"),
        ("n.so", "import ctypes\n    try:\n        ctypes.CDLL(str(MADE))\n    except OSError:\n        return 1"),
        (
            f"n{EXTENSION_SUFFIXES[0]}",
            "import sys\n    sys.path.append(str(MADE.parent))\n"
            "    try:\n        import n\n    except ImportError:\n        return 1",
        ),
        ("link", "return MADE.read_text()"),
        ("folder", "return len(list(MADE.iterdir()))"),
    ],
    ids=["read", "asked for its size", "run", "imported", "opened by C code", "loaded", "a library", "a link", "listed"],
)
@pytest.mark.parametrize("is_of_the_build", [True, False])
def test_what_a_build_has_left_outside_its_tree_is_noticed(
    tmp_path: Path, beside: str, uses: str, *, is_of_the_build: bool
) -> None:
    """A build may have made it of anything that differs; an older file is the same for both sides."""
    made = tmp_path / "build" / beside
    leaves = {"link": {beside: Path(os.__file__)}, "folder": {f"{beside}/1": ""}}.get(beside, {beside: "N = 2\n"})
    op = f"from pathlib import Path\nMADE = Path({str(made)!r})\ndef value():\n    {uses}\n"
    if not is_of_the_build:
        write(tmp_path / "build", leaves)
        time.sleep(0.02)  # kernels give files coarse times
    files = {**in_op(op), "bench/op.py": BENCH, ".git/objects/info/alternates": ""}
    trees = {side: write(tmp_path / side / side, {**files, "tools/make.py": side}).resolve() for side in ("base", "head")}
    write(tmp_path / "build", leaves if is_of_the_build else {})
    difference = compare(trees["base"], trees["head"], "bench", "results")
    noticed = watched(trees["base"], tmp_path / "none", difference)["noticed"]
    assert bool(noticed) == is_of_the_build
    assert all(f"used {made}, which a build has written outside of its tree" in each for each in noticed)


@pytest.mark.parametrize("name", ["gettrace", "getprofile"])
def test_a_case_that_asks_whether_it_is_watched_is_noticed(tmp_path: Path, name: str) -> None:
    """It may do something else while it is timed."""
    op = f"import sys\ndef value(): return 1 if sys.{name}() else 2\n"
    found, _ = answers(tmp_path, Change("", in_op(op), {"kit/other.py": "N = 8\n"}))
    assert found["base"]["noticed"] == [f"kit/op.py:2 asked whether it is being watched (sys.{name})"]


@pytest.mark.parametrize(
    "begins",
    [
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(60), daemon=True).start()\n",
        "import threading\nTIMER = threading.Timer(60, print); TIMER.daemon = True; TIMER.start()\n",
        "import time\nfrom concurrent.futures import ThreadPoolExecutor as Pool; Pool(1).submit(time.sleep, 60)\n",
        "import _thread, threading\n_thread.start_new(threading.Event().wait, ())\n",
    ],
    ids=["in code of the tree", "in code of Python's own", "of a pool", "begun by an old name"],
)
def test_a_thread_that_keeps_running_after_the_import_is_noticed(tmp_path: Path, begins: str) -> None:
    """What it imports a second later, all workers have, and nobody has heard of it."""
    op = f"{begins}def value(): return 1\n"
    trees = {side: write(tmp_path / side / side, {**in_op(op), "bench/op.py": BENCH}).resolve() for side in ("base", "head")}
    (trees["head"] / "kit/table.py").write_text("N = 8\n")

    def host(writer: int) -> None:
        loaded = load(spec_of(trees["base"]), compare(trees["base"], trees["head"], "bench", "results"))
        os.write(writer, "; ".join(loaded.proof.result().noticed).encode())
        os._exit(0)

    assert "a thread of kit/op.py:2 keeps running after the import" in forked(host)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("A = 1", "A = 1  # one", PythonChange()),
        ("A = 1", "A = True", PythonChange(top="A = True")),
        ("A = 1\nB = 2", "B = 2\nA = 1", PythonChange(top="the order of its statements")),
        ("A =", "A = 1", PythonChange(top="what is no Python")),
        ("A = 1", "A = 1\nif __name__ == '__main__':\n  break", PythonChange(top="what is no Python")),
        ("def f(): return 1", "def f(): return 1 is 2", PythonChange(top="what the compiler warns of")),
        (r"A = '\\d'", r"A = '\d'", PythonChange(top="what the compiler warns of")),
        ("def f(): return 1", "def f(): return 2", PythonChange(bodies=frozenset({"f"}))),
        ("def f(): return 1", "def f():\n  'A text.'\n  return 1", PythonChange(top="def f():")),
        ("def f(): return 1", "def f(): yield 1", PythonChange(top="def f():")),
        ("def f(a): return 1", "def f(b): return 1", PythonChange(top="def f(b):")),
        ("class A:\n  def f(self): return 1", "class A:\n  def f(self): return 2", PythonChange(bodies=frozenset({"A.f"}))),
        ("class A:\n  def f(self): return 1", "class A:\n  def f(self): return super().f()", PythonChange(top="class A:")),
        ("class A: pass", "class A:\n  def g(self): return 1", PythonChange(top="class A:")),
        ("def f(a: 1): pass", "def f(a: 2): pass", PythonChange(top="def f(a: 2):")),
        ("A = 1", "A = 1\n@f.register\ndef _(x: int): pass", PythonChange(top="@f.register")),
        ("A = [lambda: 1]", "A = [lambda: 2]", PythonChange(bodies=frozenset({"<lambda>"}))),
        ("A = 1", "A = 1\ndef g(): pass", PythonChange(top="def g():")),
        ("A = 1", "A = 1\nif __name__ == '__main__':\n  print(A)", PythonChange()),
        ("__name__ = 'A'", "__name__ = 'A'\nif __name__ == '__main__': B = 1", PythonChange(top="if __name__ == '__main__':")),
        ("'A'", "if __name__ == '__main__':\n  b = 1\n'A'", PythonChange(top="if __name__ == '__main__':")),
        ("A = 1", "A = 1\nif __name__ == '__main__':\n  b: int = A", PythonChange(top="if __name__ == '__main__':")),
        ("@triton.jit\ndef k(a: t.c): pass", "@triton.jit\ndef k(a, b: t.c): pass", PythonChange(kernels=frozenset({"k"}))),
        ("@triton.jit\ndef k(a: t.c): pass", "@triton.jit\ndef k(a: t.b): pass", PythonChange(top="@triton.jit")),
        ("@triton.jit\ndef k(a=1): pass", "@triton.jit\ndef k(a=f()): pass", PythonChange(top="@triton.jit")),
        ("@triton.jit\ndef k(a): pass", "@triton.jit\ndef k(b):\n  'A text.'", PythonChange(top="@triton.jit")),
        ("@triton.jit\ndef k(a): pass", "@triton.jit\ndef k(a, a): pass", PythonChange(top="what is no Python")),
        ("@mine\n@triton.jit\ndef k(a): pass", "@mine\n@triton.jit\ndef k(b): pass", PythonChange(top="@mine")),
        ("@triton.jit\ndef k(a): pass\nk = 1", "@triton.jit\ndef k(b): pass\nk = 2", PythonChange(top="k = 2")),
        (
            "@triton.jit\ndef k(a): pass\nclass A:\n  def k(self): pass",
            "@triton.jit\ndef k(b): pass\nclass A:\n  def k(self): pass",
            PythonChange(top="@triton.jit"),
        ),
    ],
)
def test_two_python_files(before: str, after: str, change: PythonChange) -> None:
    """Files differ in comments, in bodies of functions, or for whoever imports them."""
    assert python_change(before.encode(), after.encode()) == change


def test_two_trees(tmp_path: Path) -> None:
    """Whatever few programs read waits to be noticed; everything else, and settings of ratchet, count for every case."""
    same = {"a.bin": "\0", "link": Path("a.bin"), "kit/a.py": "A = 1\n", "notes.md": "", "built.txt": "TREE/lib"}
    same |= dict.fromkeys(("kit/same.py", "kit/stale.py"), "A = 1\n")
    trees = [write(tmp_path / name, same) for name in ("one", "other")]
    for tree in trees:
        (tree / "built.txt").write_text(f"{tree}/lib")
    assert compare(*trees, "bench", "results") == TreeDifference()
    one, eight = (("A = 1\n", "", "exec"), ("A = 8\n", "", "exec"))
    head = {
        "a.bin": "1",
        "kit/a.py": "A = 2\n",
        "docs/new.md": "",
        "notes.md": None,
        "pyproject.toml": "[tool.ratchet]\n",
        "kit.egg-info/LICENSE": "",
        "kit/__pycache__/a.cpython-311.pyc": b"1234\0\0\0\0",
        "kit/__pycache__/gone.cpython-311.pyc": b"1234\0\0\0\0",
        "kit/__pycache__/odd.pyc": b"1234\0\0\0\0",
        "kit/__pycache__/b.cpython-311.pyc": b"1234\1\0\0\0",
        cache_from_source("kit/same.py"): MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(*one, dont_inherit=True)),
        cache_from_source("kit/stale.py"): MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(*eight, dont_inherit=True)),
        ".git/HEAD": "2",
    }
    write(trees[1], head)
    (trees[1] / "link").unlink()
    (trees[1] / "link").symlink_to("kit")
    found = compare(*trees, "bench", "results")
    assert found.paths == {
        ".git": "changed",
        "docs": "is new",
        "docs/new.md": "is new",
        "kit/a.py": "changed",
        "notes.md": "is gone",
    } | {"kit.egg-info": "is new"}
    assert found.one_sided == {"docs", "docs/new.md", "notes.md", "kit.egg-info"}
    assert found.python == {"kit/a.py": PythonChange(top="A = 2")}
    cached = [f"kit/__pycache__/{name}.pyc is new" for name in ("b.cpython-311", "gone.cpython-311", "odd")]
    cached.append(f"{cache_from_source('kit/stale.py')} is new")
    counted = ("a.bin changed", "kit.egg-info/LICENSE is new", *cached, "link leads elsewhere")
    assert found.counted == (*counted, "the settings in pyproject.toml changed")


def test_what_leads_into_a_tree_differs_from_what_leads_elsewhere(tmp_path: Path) -> None:
    """A build writes where its tree lies; the same text without that place leads to another one."""
    trees = [write(tmp_path / name, {}) for name in ("one", "other")]
    for tree, place in zip(trees, ("", trees[1]), strict=True):
        (tree / "named.txt").write_text(f"{place}/lib")
        (tree / "link").symlink_to(f"{place}/lib")
    assert compare(*trees, "bench", "results").counted == ("link leads elsewhere", "named.txt changed")


def test_what_always_counts_is_not_watched(tmp_path: Path) -> None:
    """Without a difference nothing is watched, nor where every case has noticed one anyway."""
    proof = Proof(TreeDifference(), tmp_path)
    proof.imported()
    proof.forked(watched=True)
    assert proof.result() == Noticed(always=True)
    for difference in (TreeDifference(counted=("a changed",), paths={"b.md": "changed"}), TreeDifference(unknown="too large")):
        assert Proof(difference, tmp_path).result() == Noticed(difference.counted, always=True, unknown=difference.unknown)


def test_where_nobody_can_watch_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that refuses to watch files costs time, and no run."""

    def refuse(*_: object) -> None:
        raise WorkerError("no more watches")

    monkeypatch.setattr(NativeOpenings, "__init__", refuse)
    stat = os.stat
    proof = Proof(TreeDifference(paths={"b.md": "changed"}), tmp_path)
    assert proof.result() == Noticed(unknown="no more watches", always=True)
    assert os.stat is stat


def test_what_is_timed_is_not_watched(tmp_path: Path) -> None:
    """A worker that nobody will ask runs with the functions of Python's own, and what an author put in their place stays."""

    def host(writer: int) -> None:
        originals = os.stat, sys.modules["posix"].stat, sys.getprofile()
        python = {"a.py": PythonChange(bodies=frozenset({"f"}))}
        proof = Proof(TreeDifference(paths={"a.py": "changed"}, python=python), tmp_path)
        assert os.stat is not originals[0]
        own = os.access = lambda *_: True
        proof.imported()
        proof.forked(watched=False)
        assert (os.stat, sys.modules["posix"].stat, sys.getprofile()) == originals
        assert os.access is own
        os.write(writer, b"done")

    assert forked(host) == "done"


def test_a_difference_is_named() -> None:
    """The first that was noticed is named; what is not compared says why."""
    one, other = HostCode(noticed=("a.md changed, and b.py:1 opened it", "c")), HostCode(noticed=("c",))
    assert one.difference(other) == "a.md changed, and b.py:1 opened it; and 1 more"
    assert HostCode().difference(other) == "c"
    assert HostCode().difference(HostCode()) == ""
    assert one.difference(HostCode(unknown="the trees are too large")) == "its host code is not compared: the trees are too large"


@pytest.mark.parametrize(("digests", "same"), [({"head": "a", "reference": "a"}, True), ({"head": "a"}, False)])
def test_older_records_have_digests_of_host_code(digests: dict[str, str], same: bool) -> None:
    """A record of before there was this proof is read; equal digests meant the same."""
    text = examples.compared(host_code=digests).model_dump_json()
    assert CaseRun.model_validate_json(text, strict=True).identical is same


def test_a_kernel_counts_once_it_is_compiled(tmp_path: Path) -> None:
    """The source of a Triton kernel is read where it is defined; what changed in it is noticed only where it was compiled."""
    pytest.importorskip("triton")
    kernel = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef scale(x):\n    tl.store(x, tl.load(x) * 2)\n"
    compiled = "from triton.compiler import ASTSource\nfrom triton.backends.compiler import GPUTarget\nfrom kit import kernels\n"
    compiled += "def value():\n    source = ASTSource(kernels.scale, {'x': '*fp32'})\n    return len(source.hash())\n"
    for text, counts in ((compiled, True), ("from kit import kernels\ndef value(): return 1\n", False)):
        base = {"kit/kernels.py": kernel, "kit/op.py": text}
        found, later = answers(tmp_path / str(counts), Change("", base, {"kit/kernels.py": kernel.replace("* 2", "* 3")}))
        assert (bool(later.kernels), later.noticed) == (counts, ())
        for side in found.values():
            assert bool(side["noticed"]) is counts, side
        comment, _ = answers(tmp_path / f"comment {counts}", Change("", base, {"kit/kernels.py": "# a comment\n" + kernel}))
        assert [side["noticed"] for side in comment.values()] == [[], []]


TRITON = {
    "triton/__init__.py": "from triton.runtime.jit import jit\n",
    "triton/language.py": "class constexpr: pass\n",
    "triton/runtime/__init__.py": "",
    "triton/runtime/jit.py": """\
import inspect

class JITFunction:
    def __init__(self, fn):
        self.fn, self.hash, self.src = fn, None, inspect.getsource(fn)
        self.arg_names = [*inspect.signature(fn).parameters]

    @property
    def cache_key(self):
        self.hash = self.src
        return self.src

def jit(fn):
    return JITFunction(fn)
""",
}
"""A stand-in for Triton, where there is none: it does with a function what Triton does."""
KERNELS = """\
import triton
import triton.language as tl

@triton.jit
def scale(x, by: tl.constexpr, most=1):
    pass

@triton.jit
def other(x):
    pass
"""
MORE = KERNELS.replace("by: tl.constexpr,", "by: tl.constexpr, more: tl.constexpr,")
MOST = KERNELS.replace("most=1", "most=2")


def with_own(triton: str, kernels: str, end: str = "") -> str:
    """Kernels of which ``triton`` is another thing of their own file; Triton itself is called ``real``."""
    return f"import triton as real\nimport triton.language as tl\nSEEN = []\n{triton}\n{kernels.partition('as tl')[2]}\n{end}"


PEEKS = """\
class triton:
    @staticmethod
    def jit(f):
        SEEN.append(len(f.__annotations__))
        return real.jit(f)
"""
LEAVES_IT = PEEKS.replace("return real.jit(f)", "return f")
PATCHES = """\
import triton
REAL, SEEN = triton.jit, []

def jit(f):
    kernel = REAL(f)
    SEEN.append(len(kernel.fn.__annotations__))
    return kernel

triton.jit = jit
"""
INNER = """\
from triton.runtime.jit import JITFunction
REAL, SEEN = JITFunction.__init__, []

def init(self, fn, *others, **named):
    REAL(self, fn, *others, **named)
    SEEN.append(len(fn.__annotations__))

JITFunction.__init__ = init
"""
AS_IT_IS = "class triton:\n    jit = staticmethod(lambda f: f)\n"
LATER_ON = "scale = real.jit(scale)\nother = real.jit(other)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernels", "changed", "value", "counts"),
    [
        (KERNELS, MORE, "1", False),
        (KERNELS, MOST, "1", False),
        (KERNELS, MORE, "len(kernels.other.cache_key)", False),
        (KERNELS, MORE, "len(kernels.scale.cache_key)", True),
        (KERNELS, MORE, "len(inspect.signature(kernels.scale.fn).parameters)", True),
        (KERNELS, MORE, "kernels.scale.fn.__code__.co_argcount", True),
        (KERNELS, MORE, "kernels.scale.fn(*range(3)) or 0", True),
        (with_own(AS_IT_IS, KERNELS), with_own(AS_IT_IS, MOST), "kernels.scale.__defaults__[0]", True),
        (with_own(PEEKS, KERNELS), with_own(PEEKS, MORE), "kernels.SEEN[0]", True),
        (with_own(LEAVES_IT, KERNELS, LATER_ON), with_own(LEAVES_IT, MORE, LATER_ON), "kernels.SEEN[0]", True),
        (PATCHES + KERNELS, PATCHES + MORE, "kernels.SEEN[0]", True),
        (INNER + KERNELS, INNER + MORE, "kernels.SEEN[0]", True),
    ],
    ids=map(str, range(12)),
)
def test_parameters_of_a_kernel_count_once_somebody_has_seen_them(
    tmp_path: Path, kernels: str, changed: str, value: str, counts: bool
) -> None:
    """Triton reads them where the kernel is defined; a change is noticed where it was compiled, or anybody else was given it."""
    text = f"import inspect\nfrom kit import kernels\ndef value():\n    return {value}\n"
    base: dict[str, Text] = {"bench/op.py": BENCH, "kit/kernels.py": kernels, "kit/op.py": text}
    contents = {"base": base, "head": {**base, "kit/kernels.py": changed}, "then": base}
    trees = {name: write(tmp_path / name / name, files).resolve() for name, files in contents.items()}
    library = write(tmp_path / "some-packages", {**TRITON})
    difference = compare(trees["base"], trees["head"], "bench", "results")
    found = {side: watched(trees[side], library, difference) for side in ("base", "head")}
    assert [bool(side["noticed"]) for side in found.values()] == [counts, counts], found
    footprint = watched(trees["then"], library, whole(trees["then"]))["footprint"]
    assert bool(look(Footprint.model_validate(footprint, strict=False).touches(), difference).noticed) is counts


def test_the_end_of_the_watch_is_no_doing_of_the_case(tmp_path: Path) -> None:
    """A case is not said to have changed what the watch takes out of the way, and nothing of it comes back with the next case."""
    base = {"kit/op.py": "def value(): return 1\ndef other(): return 1\n", "bench/op.py": BENCH}
    trees = [write(tmp_path / name, base).resolve() for name in ("base", "head")]
    write(trees[1], {"kit/op.py": "def value(): return 1\ndef other(): return 2\n"})
    difference = compare(*trees, "bench", "results")

    def host(writer: int) -> None:
        originals = os.stat, sys.getprofile()
        loaded = load(spec_of(trees[1]), difference)
        boundary = CaseBoundary(loaded)
        loaded.proof.forked(watched=True)
        assert os.stat is not originals[0]
        boundary.begin("op/default", watched=True)
        loaded.build("op/default", 1).run()
        noticed, restored = boundary.apart(loaded.proof.result), boundary.restore()
        assert (os.stat, sys.getprofile()) == originals
        os.write(writer, json.dumps([noticed.noticed, restored.changed, restored.spent]).encode())

    assert json.loads(forked(host)) == [[], [], False]


@pytest.mark.parametrize("of_an_author", [False, True])
def test_frozen_kernels_are_found(of_an_author: bool) -> None:
    """What a host froze before it forked is among the living kernels, and what a case froze; no more is listed."""

    def work(pipe: int) -> None:
        module = ModuleType("triton.runtime.jit")
        vars(module)["JITFunction"] = kind = type("JITFunction", (), {})
        sys.modules[module.__name__] = module
        kept = kind()
        freeze()
        made = [kind()]
        if of_an_author:
            gc.freeze()
        found = living(JIT_FUNCTION)
        listed = {id(each) for each in gc.get_objects()}
        says = len(found) == 2, kept in found, made[0] in found, id(made) in listed, (id(kept) in listed) is of_an_author
        os.write(pipe, f"{all(says)} {says}".encode())

    said = forked(work)
    assert said.startswith("True"), said
