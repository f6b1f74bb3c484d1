"""What was measured → the record of the run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from ratchet.config import Settings
from ratchet.measure.lost import repeats
from ratchet.measure.suite import Suite
from ratchet.pipeline.machine import Machine, environment_of, plan_of
from ratchet.pipeline.request import Request
from ratchet.records.run import SESSION_PAIRS, CaseRun, RunRecord, Tree


def record_of(
    kind: Literal["check", "run"],
    request: Request,
    settings: Settings,
    machine: Machine,
    suite: Suite,
    timing: tuple[datetime, float],
    head: Tree,
    reference: Tree | None = None,
    best: Sequence[CaseRun] = (),
) -> RunRecord:
    """Everything that a run was, in one record."""
    missing = suite.reference_missing
    return RunRecord(
        kind=kind,
        started_at=timing[0],
        wall_s=timing[1],
        command=request.command,
        environment=environment_of(machine, settings, suite),
        plan=plan_of(settings, machine.device, restart_after=SESSION_PAIRS if kind == "check" else 0),
        policy=settings.policy,
        head=head,
        reference=reference,
        shard=request.shard,
        reference_missing=f"The reference could not be measured: {missing}" if missing else None,
        cases=suite.cases,
        best=tuple(best),
        warnings=(*machine.warnings, *repeats((*suite.cases, *best))),
    )
