"""Prove that two trees are the same for a case, from what differs between them.

A host makes a `Proof` before it imports its tree; its workers ask it about a case that they have prepared. Both sides run the same
interpreter, libraries and harness in the same environment, so they do the same until one of them gets at something that differs.
docs/decisions/0021-host-code.md has the argument, and what is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ratchet.measure.identical.difference import Difference, compare
from ratchet.measure.identical.watch import Watch

__all__ = ["Difference", "Noticed", "Proof", "compare"]


@dataclass(frozen=True)
class Noticed:
    """What a process noticed of the difference between two trees: nothing is the proof that it does the same in both."""

    noticed: tuple[str, ...] = ()
    always: bool = False
    """Every case of the tree notices that."""
    unknown: str = ""


class Proof:
    """The difference between this process's tree and the other one, and what was noticed of it since this was made."""

    def __init__(self, difference: Difference, tree: Path) -> None:
        self._difference = difference
        self._watch = Watch(difference, tree) if difference.paths and not difference.counted else None
        self._imported: tuple[str, ...] = ()
        if self._watch:
            self._watch.start()

    def imported(self) -> None:
        """Note that the tree is imported: what was noticed until now, all cases notice."""
        if self._watch:
            self._imported = self._watch.findings()
            self._watch.pause()

    def forked(self, *, watched: bool) -> None:
        """Go on in a worker, or let it run as if nothing had been watched."""
        if self._watch and watched and not self._imported:
            self._watch.go_on()
        elif self._watch:
            self._watch.stop()

    def result(self) -> Noticed:
        """Return what this process has noticed, and stop watching it."""
        found = self._difference.counted or self._imported
        if found or self._difference.unknown or not self._watch:
            return Noticed(found, always=True, unknown=self._difference.unknown)
        found = self._watch.findings()
        self._watch.stop()
        return Noticed(found)
