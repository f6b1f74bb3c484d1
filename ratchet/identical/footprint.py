"""Say what a process touched of its tree, and whether a tree that differs would have shown it something else. Pure.

A `Watch` finds what a process touches. With any other tree the process does the same until it gets at something that differs; if
it touched nothing of that, it does the same to its end. So what is written down once, where the process could run, also answers
for trees that come later, where it cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

from ratchet.core.records import Record
from ratchet.identical.difference import GIT, TreeDifference

Kind = Literal[
    "anything", "functions", "ran", "kernel", "taken", "inspected",
    "imported", "read", "asked", "listed", "looked through", "searched",
]  # fmt: skip
"""What was touched: perhaps anything, or any function; a function that ran, that Triton compiled, that Triton alone was given to
make a kernel of, or of which others read the parameters; a file that was imported, or of which content, lines or attributes were
read, or whose existence was asked for; a folder of which names, or names and sizes, were read, or in which imports looked for a
module."""


class Touch(NamedTuple):
    """One thing that a process touched."""

    kind: Kind
    what: str
    """A path within the tree; of ``anything`` and ``functions`` the reason, as a clause."""
    function: str = ""
    """Its qualified name, where a function was touched; of ``searched`` the name of the module."""


class Found(NamedTuple):
    """The part of a difference that a process would have noticed."""

    noticed: tuple[str, ...] = ()
    """Sentences without an end. None: at most the machine code of ``kernels`` can differ."""
    kernels: tuple[tuple[str, str], ...] = ()
    """Kernels with another body, by file and qualified name."""


class Footprint(Record):
    """The part of its tree that a process touched: kind → path → names of functions, or of modules that were looked for there."""

    touched: dict[Kind, dict[str, tuple[str, ...]]] = {}

    @classmethod
    def of(cls, touches: Collection[Touch]) -> Footprint:
        """Return the record of these."""
        found: dict[Kind, dict[str, list[str]]] = {}
        for kind, what, function in sorted(touches):
            found.setdefault(kind, {}).setdefault(what, []).extend([function] if function else [])
        return cls(touched={kind: {what: tuple(names) for what, names in of.items()} for kind, of in found.items()})

    def touches(self) -> dict[Touch, str]:
        """Return what this is the record of, without how it was touched."""
        every = ((kind, what, names) for kind, of in self.touched.items() for what, names in of.items())
        return {Touch(kind, what, name): "" for kind, what, names in every for name in names or ("",)}


def look(touches: Mapping[Touch, str], difference: TreeDifference) -> Found:
    """Return what a process that touched this would notice of a difference between its tree and another one.

    ``touches`` say of each how it was touched, as a clause; no text where that was not written down.
    """
    seen: dict[str, dict[str, str]] = {kind: {} for kind in get_args(Kind)}
    for touch, clause in touches.items():
        what = str(PurePath(touch.what, touch.function)) if touch.kind == "searched" else touch.what
        seen[touch.kind].setdefault(what, clause)
    noticed = [*filter(None, [difference.unknown]), *difference.counted]
    if difference.paths:
        noticed += sorted(seen["anything"])
    named = _with_folders(seen)
    one_sided = difference.one_sided
    for path, what in difference.paths.items():
        if (how := _sight(seen, named, path, is_one_sided=path in one_sided)) is not None:
            noticed.append(f"{path} {what}, and {how}" if how else f"{path} {what}")
    compiled: list[tuple[str, str]] = []
    for path, change in difference.python.items():
        if path in seen["imported"] and change.top:
            noticed.append(f"{path}: {change.top} changed, and it was imported")
        if change.bodies or change.kernels:
            noticed += (f"functions in {path} changed, and {why}" for why in sorted(seen["functions"]))
        for function in sorted(change.bodies):
            if Touch("ran", path, function) in touches:
                noticed.append(f"{path}: the body of {function} changed, and it runs")
            elif Touch("kernel", path, function) in touches:
                compiled.append((path, function))
        for kernel in sorted(change.kernels):
            if path in seen["imported"] and (how := _parameters_seen(touches, path, kernel)):
                noticed.append(f"{path}: the parameters of {kernel} changed, and {how}")
    return Found(tuple(noticed), tuple(compiled))


def _parameters_seen(touches: Collection[Touch], path: str, kernel: str) -> str:
    """Return who saw the parameters of a kernel, as a clause; no text where that was Triton, which compiled nothing of it."""
    clauses: dict[Kind, str] = {"ran": "it runs", "kernel": "Triton compiled it", "inspected": "they were read"}
    how = next((clause for kind, clause in clauses.items() if Touch(kind, path, kernel) in touches), "")
    return how or ("" if Touch("taken", path, kernel) in touches else "Triton was not given it")


def _with_folders(seen: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return all paths that were named, and the folders above them: where one is missing, so is what was asked for."""
    found: dict[str, str] = {}
    for kind in ("read", "imported", "asked", "listed", "looked through"):
        for path, how in seen[kind].items():
            for each in (path, *map(str, PurePath(path).parents)):
                found.setdefault(each, how)
    return found


def _sight(seen: Mapping[str, Mapping[str, str]], named: Mapping[str, str], path: str, *, is_one_sided: bool) -> str | None:
    """Return how someone has seen a path that differs, before looking at what differs in it; None where nobody has."""
    place = PurePath(path)
    folder = str(place.parent)
    sights = [seen["read"].get(path), seen["looked through"].get(folder)]
    if path == GIT or is_one_sided:
        # A name may have been relative to some folder: */data.txt.
        relative = (how for name, how in seen["asked"].items() if name.startswith("*/") and f"/{path}".endswith(name[1:]))
        sights += [named.get(path), next(relative, None)]
    if is_one_sided:
        name = place.name.partition(".")[0]
        module = place.parent if name == "__init__" else place.parent / name
        sights += [seen["listed"].get(folder), seen["searched"].get(str(module))]
    elif not path.endswith(".py"):
        sights.append(seen["imported"].get(path))
    return next((how for how in sights if how is not None), None)
