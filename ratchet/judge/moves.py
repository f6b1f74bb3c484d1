"""What recording runs did to the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ratchet.records.baseline import Baseline, BaselineEntry
from ratchet.records.verdict import Outcome


class MoveKind(StrEnum):
    """What recording a run did to a case. The first ones are steps of its chain; the others are not."""

    FIRST = "first"
    IMPROVED = "improved"
    CHANGED = "changed"
    REMOVED = "removed"
    RETURNED = "returned"
    CANDIDATE = "candidate"
    """Proven faster once: it waits for a second measurement."""
    DROPPED = "dropped"
    """A candidate that another measurement of the same commit contradicts."""
    APART = "apart"
    """The same commit as the baseline's, but measured as another workload: by other settings, not by other code."""


@dataclass(frozen=True)
class Move:
    """What happened to one case, and its entry before (where it had one) and after."""

    machine: str
    """`Fingerprint.key`."""
    case: str
    kind: MoveKind
    after: BaselineEntry
    before: BaselineEntry | None = None
    note: str = ""


@dataclass(frozen=True)
class Recorded:
    """The next baseline, the very same object where nothing changed, and how it came about."""

    baseline: Baseline
    moves: tuple[Move, ...]
    unchanged: tuple[str, ...]
    """Cases that have a baseline which stayed as it was."""
    left_out: dict[str, Outcome]
    """Cases of the head that have none yet and gave nothing to make one of, with the last outcome."""
    renames: dict[str, str]
    """New name → old name, of cases that have a baseline and were perhaps renamed."""
