"""A verdict without a GPU: what one commit's process touched answers for every later tree."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.identical.difference import PythonChange, TreeDifference, compare, whole
from ratchet.identical.footprint import Footprint, Found, Touch, look
from ratchet.identical.static.instructions import instructions
from tests.planted_changes import HARMLESS, LATER, SEEN, Change
from tests.unit.test_identical import parameters, watched, write

pytestmark = pytest.mark.no_cover

ONE_SIDED = {"a new function", "a function that nobody used is gone"}
"""Of a function that one side alone has, nobody can tell beforehand whether it would have been asked for."""


def found(folder: Path, change: Change) -> Found:
    """Run a case in one tree alone, and hold what it touched against a tree with a planted change."""
    import torch  # noqa: F401  as in a host

    base = write(folder / "a" / "base", {"bench/op.py": change.bench, **change.base}).resolve()
    write(folder / "library", change.library)

    def told(loaded: Any, _: object) -> str:
        loaded.proof.result()
        return Footprint.of(loaded.proof.touched).model_dump_json()

    touched = Footprint.model_validate_json(watched(base, folder / "library", whole(base), told)).touches()
    before = write(folder / "c" / "base", {"bench/op.py": change.bench, **change.base}).resolve()  # as the commit has it
    head = write(folder / "b" / "head", {"bench/op.py": change.bench, **change.base, **change.head}).resolve()
    for tree, mode in zip((before, head), change.modes[1:] if change.modes else (), strict=False):
        (tree / change.modes[0]).chmod(mode)  # type: ignore[index]
    return look(touched, compare(before, head, "bench", "results"))


@pytest.mark.slow
@pytest.mark.parametrize("change", parameters(SEEN + LATER))
def test_a_change_is_noticed_by_what_was_touched_before_it(tmp_path: Path, change: Change) -> None:
    """A later change of what a call returns is noticed by what the call touched, when nobody knew of the change."""
    assert found(tmp_path, change).noticed


@pytest.mark.slow
@pytest.mark.parametrize("change", parameters(HARMLESS))
def test_what_changes_nothing_is_not_noticed_by_it(tmp_path: Path, change: Change) -> None:
    """A later change that the case does not use is not noticed."""
    is_seen = change.sentence in ONE_SIDED
    assert bool(found(tmp_path, change).noticed) == is_seen


def sees(touch: Touch, path: str, what: str, change: PythonChange | None = None) -> bool:
    """Return whether a process that touched one thing notices one difference."""
    python = {path: change} if change else {}
    return bool(look({touch}, TreeDifference(paths={path: what}, python=python)).noticed)


@pytest.mark.parametrize(
    ("touch", "path", "what", "seen"),
    [
        (Touch("read", "a.md"), "a.md", "changed", True),
        (Touch("read", "a.md"), "b.md", "changed", False),
        (Touch("asked", "a.md"), "a.md", "changed", False),
        (Touch("asked", "a.md"), "a.md", "is new", True),
        (Touch("asked", "kit/a.md"), "kit", "is gone", True),
        (Touch("asked", "kit/a.md"), "ki", "is gone", False),
        (Touch("asked", "*/a.md"), "kit/a.md", "is new", True),
        (Touch("asked", "*/a.md"), "kit/aa.md", "is new", False),
        (Touch("asked", ".git/HEAD"), ".git", "changed", True),
        (Touch("read", "notes.md"), ".git", "changed", False),
        (Touch("listed", "kit"), "kit/a.md", "is new", True),
        (Touch("listed", "kit"), "kit/a.md", "changed", False),
        (Touch("listed", "kit"), "kit/more/a.md", "is new", False),
        (Touch("looked through", "kit"), "kit/a.md", "changed", True),
        (Touch("searched", "kit", "one"), "kit/one.py", "is new", True),
        (Touch("searched", "kit", "one"), "kit/one", "is new", True),
        (Touch("searched", "kit", "one"), "kit/two.py", "is new", False),
        (Touch("searched", ".", "one"), "one.py", "is new", True),
        (Touch("imported", "kit/one.py"), "kit/one.py", "is gone", True),
        (Touch("imported", "kit/one.py"), "kit/one.py", "changed", False),
        (Touch("anything", "a process was started"), "a.md", "changed", True),
    ],
)
def test_a_path_that_differs(touch: Touch, path: str, what: str, *, seen: bool) -> None:
    """A path that differs is seen by whoever read it or its folder, and one that one tree alone has by whoever looked for it."""
    assert sees(touch, path, what) == seen


@pytest.mark.parametrize(
    ("touch", "change", "seen"),
    [
        (Touch("imported", "a.py"), PythonChange(top="A = 1"), True),
        (Touch("imported", "a.py"), PythonChange(names=frozenset({"g"})), True),
        (Touch("imported", "a.py"), PythonChange(bodies=frozenset({"f"})), False),
        (Touch("imported", "a.py"), PythonChange(), False),
        (Touch("imported", "b.py"), PythonChange(top="A = 1"), False),
        (Touch("ran", "a.py", "f"), PythonChange(bodies=frozenset({"f"})), True),
        (Touch("ran", "a.py", "g"), PythonChange(bodies=frozenset({"f"})), False),
        (Touch("functions", "torch.compile may have read any"), PythonChange(bodies=frozenset({"f"})), True),
        (Touch("functions", "torch.compile may have read any"), PythonChange(), False),
        (Touch("read", "a.py"), PythonChange(), True),
    ],
)
def test_a_python_file_that_differs(touch: Touch, change: PythonChange, *, seen: bool) -> None:
    """What differs in a Python file is seen by whoever imports it, or runs the function that differs; comments by readers."""
    assert sees(touch, "a.py", "changed", change) == seen


def test_a_kernel_with_another_body_is_left_to_the_compiler() -> None:
    """A changed function that Triton compiled, and that nobody ran, is named as a kernel, and is no difference by itself."""
    difference = TreeDifference(paths={"a.py": "changed"}, python={"a.py": PythonChange(bodies=frozenset({"k", "other"}))})
    touched = {Touch("imported", "a.py"), Touch("kernel", "a.py", "k")}
    assert look(touched, difference) == Found((), (("a.py", "k"),))
    assert look(touched | {Touch("ran", "a.py", "k")}, difference).noticed


@pytest.mark.parametrize("difference", [TreeDifference(counted=("data.bin changed",)), TreeDifference(unknown="too large")])
def test_what_always_counts_is_seen_by_all(difference: TreeDifference) -> None:
    """A difference that every case notices, or that nobody knows, is seen by a process that touched nothing."""
    assert look(set(), difference).noticed


def test_a_footprint_is_read_back_as_it_was() -> None:
    """A footprint that was written and read again holds the same touches."""
    touches = {Touch("ran", "a.py", "f"), Touch("ran", "a.py", "g"), Touch("read", "b.md"), Touch("anything", "it was so")}
    assert Footprint.model_validate_json(Footprint.of(touches).model_dump_json()).touches() == touches


LISTING = """\
.text.add:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*00f0*/              @!P0 LDG.E R0, desc[UR4][R4.64] ;
        /*0100*/              @!UP1 LDG.E.128 R11, desc[UR4][R6.64] ;
.L_x_0:
        /*0160*/                   BRA `(.L_x_0);
        /*0170*/                   NOP;
"""
PTX = """\
.visible .entry add(
\t.param .u64 .ptr .global .align 1 add_param_0
)
{
\t.reg .pred \t%p<2>;
$L__func_begin0:
\t.loc\t1 7 0                           // k.py:7:0
\tld.param.b64 \t%rd4, [add_param_0];
\t// begin inline asm
\t@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
\tret;
}
"""


def test_instructions_are_counted_by_opcode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the machine code count, without padding, where a disassembler stands beside Triton, and else those of the PTX."""
    package = tmp_path / "triton" / "__init__.py"
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__file__=str(package)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assembly = {"cubin": b"code", "ptx": PTX}
    assert instructions(assembly) == {"of": "PTX", "counts": {"ld": 2, "ret": 1}}
    program = write(tmp_path, {"triton/backends/nvidia/bin/nvdisasm": f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n"})
    (program / "triton/backends/nvidia/bin/nvdisasm").chmod(0o755)
    assert instructions(assembly) == {"of": "machine code", "counts": {"LDC": 1, "LDG": 2, "BRA": 1}}
    write(tmp_path, {"triton/backends/nvidia/bin/nvdisasm": "#!/bin/sh\nexit 1\n"})
    assert instructions(assembly)["of"] == "PTX"
