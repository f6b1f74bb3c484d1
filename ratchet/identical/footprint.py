"""Say what a process touched of its tree, and whether a tree that differs would have shown it something else. Pure.

A `Watch` over a difference in which everything counts (`difference.whole`) finds what a process touches. With any other tree the
process does the same until it gets at something that differs; if it touched nothing of that, it does the same to its end. So what
is written down once, where the process could run, answers for trees that come later, where it cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

from ratchet.core.records import Record
from ratchet.identical.difference import GIT, TreeDifference

Kind = Literal[
    "anything", "functions", "ran", "kernel", "imported", "read", "asked", "listed", "looked through", "searched"
]  # fmt: skip
"""What was touched: perhaps anything, or any function; a function that ran, or that Triton compiled; a file that was imported, or
of which content, lines or attributes were read, or whose existence was asked for; a folder of which names, or names and sizes,
were read, or in which imports looked for a module."""


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

    def touches(self) -> set[Touch]:
        """Return what this is the record of."""
        every = ((kind, what, names) for kind, of in self.touched.items() for what, names in of.items())
        return {Touch(kind, what, name) for kind, what, names in every for name in names or ("",)}


def look(touches: Collection[Touch], difference: TreeDifference) -> Found:
    """Return what a process that touched this would notice of a difference between its tree and another one."""
    seen = {kind: {touch.what for touch in touches if touch.kind == kind} for kind in get_args(Kind)}
    noticed = [*filter(None, [difference.unknown]), *difference.counted]
    if difference.paths:
        noticed += sorted(seen["anything"])
    searched = {str(PurePath(touch.what, touch.function)) for touch in touches if touch.kind == "searched"}
    noticed += (
        f"{path} {what}"
        for path, what in difference.paths.items()
        if _sees(seen, path, path in difference.one_sided)
        or (path in difference.one_sided and str(PurePath(path).parent / PurePath(path).name.partition(".")[0]) in searched)
    )
    compiled: list[tuple[str, str]] = []
    for path, change in difference.python.items():
        if path in seen["imported"] and (change.top or change.names):
            noticed.append(f"{path}: {change.top or ', '.join(sorted(change.names))} changed, and it was imported")
        if change.bodies:
            noticed += (f"functions in {path} changed, and {why}" for why in sorted(seen["functions"]))
        for function in sorted(change.bodies):
            if Touch("ran", path, function) in touches:
                noticed.append(f"{path}: the body of {function} changed, and it runs")
            elif Touch("kernel", path, function) in touches:
                compiled.append((path, function))
    return Found(tuple(noticed), tuple(compiled))


def _sees(seen: Mapping[Kind, set[str]], path: str, is_one_sided: bool) -> bool:
    """Return whether someone who has touched this sees a path that differs, before looking at what differs in it."""
    folder = str(PurePath(path).parent)
    if path in seen["read"] or folder in seen["looked through"]:
        return True
    if path == GIT or is_one_sided:
        named = seen["asked"] | seen["read"] | seen["imported"]
        if path in named or any(each.startswith(f"{path}/") or _may_be(each, path) for each in named):
            return True
    if not is_one_sided:
        return path in seen["imported"] and not path.endswith(".py")
    return folder in seen["listed"]


def _may_be(name: str, path: str) -> bool:
    """Return whether a path has a name that was relative to some folder: ``*/data.txt``."""
    return name.startswith("*/") and f"/{path}".endswith(name[1:])
