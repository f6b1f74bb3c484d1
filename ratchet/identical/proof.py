"""Prove that two trees are the same for a case, from what differs between them.

A host makes a `Proof` before it imports its tree; its workers ask it about a case that they have prepared. Both sides run the
same interpreter, libraries and harness in the same environment, so they do the same until one of them gets at a difference.
docs/decisions/0021-host-code.md has the argument, and what is accepted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ratchet.core.errors import WorkerError
from ratchet.identical.difference import TreeDifference, compare, whole
from ratchet.identical.footprint import Touch, look
from ratchet.identical.runtime import freeze
from ratchet.identical.watch import Watch

__all__ = ["Noticed", "Proof", "TreeDifference", "compare", "freeze", "whole"]

MOST_NOTICED = 50


@dataclass(frozen=True)
class Noticed:
    """The differences between two trees that a process noticed: nothing is the proof that it does the same in both."""

    noticed: tuple[str, ...] = ()
    always: bool = False
    """Every case of the tree notices that."""
    unknown: str = ""
    """Why nobody knows."""


class Proof:
    """The difference between this process's tree and the other one, and what was noticed of it since this was made."""

    def __init__(self, difference: TreeDifference, tree: Path) -> None:
        self._difference = difference
        self._answer = Noticed(difference.counted, always=True, unknown=difference.unknown)
        waits = difference.paths and self._answer == Noticed(always=True)
        functions = difference.is_whole or any(change.bodies or change.kernels for change in difference.python.values())
        self._watch = Watch(tree, difference.paths, functions=functions) if waits else None
        self.touched = self.imported_touches = frozenset({Touch("anything", difference.unknown or "nothing was watched")})
        """What this process has touched of its tree, and what the import of the tree has."""
        self._try(Watch.start)

    def imported(self) -> None:
        """Note that the tree is imported: what was noticed until now, all cases notice."""
        self._try(Watch.note_threads)
        found = self._noticed()
        if self._watch:
            self.imported_touches = frozenset(self._watch.touched)
        if found and not self._difference.is_whole:
            self._settle(Noticed(found, always=True))

    def forking(self) -> contextlib.AbstractContextManager[None]:
        """Return a context for a fork of the host, which may run code of the tree."""
        return self._watch.open_for_forks() if self._watch else contextlib.nullcontext()

    def forked(self, *, watched: bool) -> None:
        """Go on in a worker, or let it run as if nothing had been watched."""
        if watched:
            self._try(Watch.go_on)
        else:
            self._settle(self._answer)

    def result(self) -> Noticed:
        """Return what this process has noticed, and stop watching it."""
        found = self._noticed()
        if self._watch:
            self.touched = frozenset(self._watch.touched)
            self._settle(Noticed(found))
        return self._answer

    def _noticed(self) -> tuple[str, ...]:
        """Return the differences that show in what was touched, as sentences without an end."""
        self._try(Watch.pause)
        if not self._watch:
            return ()
        found = look(self._watch.touched, self._difference)
        kernels = (f"{path}: the body of {name} changed, and Triton compiled it" for path, name in found.kernels)
        texts = (*found.noticed, *kernels)[:MOST_NOTICED]
        return tuple(text.encode(errors="backslashreplace").decode() for text in texts)  # a path may be no text

    def _try(self, step: Callable[[Watch], None]) -> None:
        try:
            if self._watch:
                step(self._watch)
        except WorkerError as error:
            self._settle(Noticed(unknown=str(error), always=True))

    def _settle(self, answer: Noticed) -> None:
        self._answer = answer
        if self._watch:
            self._watch.stop()
        self._watch = None
