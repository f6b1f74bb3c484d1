"""A verdict without a GPU: what one commit's process touched answers for every later tree."""

from __future__ import annotations

import pytest

from ratchet.identical.difference import PythonChange, TreeDifference
from ratchet.identical.footprint import Footprint, Found, Touch, look

pytestmark = pytest.mark.no_cover


def sees(touch: Touch, path: str, what: str, change: PythonChange | None = None) -> bool:
    """Return whether a process that touched one thing notices one difference."""
    python = {path: change} if change else {}
    return bool(look({touch: ""}, TreeDifference(paths={path: what}, python=python)).noticed)


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
        (Touch("listed", "kit/more"), "kit/more", "is gone", True),
        (Touch("listed", "kit"), "kit/a.md", "changed", False),
        (Touch("listed", "kit"), "kit/more/a.md", "is new", False),
        (Touch("looked through", "kit"), "kit/a.md", "changed", True),
        (Touch("searched", "kit", "one"), "kit/one.py", "is new", True),
        (Touch("searched", "kit", "one"), "kit/one", "is new", True),
        (Touch("searched", "kit", "one"), "kit/one/__init__.py", "is new", True),
        (Touch("searched", "kit", "one"), "kit/one/two.py", "is new", False),
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
    touched = dict.fromkeys([Touch("imported", "a.py"), Touch("kernel", "a.py", "k")], "")
    assert look(touched, difference) == Found((), (("a.py", "k"),))
    assert look(touched | {Touch("ran", "a.py", "k"): ""}, difference).noticed


@pytest.mark.parametrize("difference", [TreeDifference(counted=("data.bin changed",)), TreeDifference(unknown="too large")])
def test_what_always_counts_is_seen_by_all(difference: TreeDifference) -> None:
    """A difference that every case notices, or that nobody knows, is seen by a process that touched nothing."""
    assert look({}, difference).noticed


def test_a_footprint_is_read_back_as_it_was() -> None:
    """A footprint that was written and read again holds the same touches."""
    touches = {Touch("ran", "a.py", "f"), Touch("ran", "a.py", "g"), Touch("read", "b.md"), Touch("anything", "it was so")}
    assert Footprint.model_validate_json(Footprint.of(touches).model_dump_json()).touches().keys() == touches
