"""Prove that two trees are the same for a case, from what differs between them.

A host makes a `Proof` before it imports its tree; its workers ask it about a case that they have prepared. Both sides run the same
interpreter, libraries and harness in the same environment, so they do the same until one of them gets at something that differs.
docs/decisions/0021-host-code.md has the argument, and what is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ratchet.errors import WorkerError
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
    """Why nobody knows."""


class Proof:
    """The difference between this process's tree and the other one, and what was noticed of it since this was made."""

    def __init__(self, difference: Difference, tree: Path) -> None:
        self._always = Noticed(difference.counted, always=True, unknown=difference.unknown)
        self._watch: Watch | None = None
        if difference.paths and not (difference.counted or difference.unknown):
            self._watch = Watch(difference, tree)
            try:
                self._watch.start()
            except WorkerError as error:
                self._give_up(error)

    def imported(self) -> None:
        """Note that the tree is imported: what was noticed until now, all cases notice."""
        try:
            if self._watch and (found := self._watch.pause()):
                self._always = Noticed(found, always=True)
                self._end()
        except WorkerError as error:
            self._give_up(error)

    def forked(self, *, watched: bool) -> None:
        """Go on in a worker, or let it run as if nothing had been watched."""
        try:
            if self._watch and watched:
                self._watch.go_on()
            else:
                self._end()
        except WorkerError as error:
            self._give_up(error)

    def result(self) -> Noticed:
        """Return what this process has noticed, and stop watching it."""
        if self._watch is None:
            return self._always
        try:
            return Noticed(self._watch.pause())
        except WorkerError as error:
            return Noticed(unknown=str(error))
        finally:
            self._end()

    def _end(self) -> None:
        if self._watch:
            self._watch.stop()
        self._watch = None

    def _give_up(self, error: WorkerError) -> None:
        self._always = Noticed(unknown=str(error), always=True)
        self._end()
