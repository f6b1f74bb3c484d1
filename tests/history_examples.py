"""Checks of commits after each other for tests of the baseline: cases that change, appear and disappear."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ratchet.core.records.run import CaseRun, RunRecord, Tree
from tests.examples import STARTED, compared, run_of

STEADY = (1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999) * 3
"""Pairs of unchanged code, enough to prove a change of them."""


def commit(number: int) -> str:
    """A hash."""
    return f"{number:04x}" * 10


def timed(ratio: float, name: str = "attention/training_512", **changes: Any) -> CaseRun:
    """A case whose head takes ``ratio`` times as long as its reference, which takes 1 ms."""
    return compared(*(ratio * each for each in STEADY), name=name, **changes)


def new(name: str = "attention/training_512", **changes: Any) -> CaseRun:
    """A case that only the head has."""
    return timed(1.0, name, **({"reference": (), "reference_workload": None, "in_reference": False} | changes))


def gone(name: str = "attention/training_512", **changes: Any) -> CaseRun:
    """A case that only the reference has."""
    return compared(name=name, **({"workload": None, "performance": None, "in_head": False} | changes))


def check_of(*cases: CaseRun, day: float, head: int, reference: int | None = 0, **changes: Any) -> RunRecord:
    """A check of the commit ``head`` against ``reference``, so many days after the first; without one, a run of it alone."""
    usual: dict[str, Any] = {
        "kind": "run" if reference is None else "check",
        "head": Tree(commit=commit(head)),
        "reference": None if reference is None else Tree(commit=commit(reference)),
        "started_at": STARTED + timedelta(days=day),
    }
    return run_of(*cases, **(usual | changes))
