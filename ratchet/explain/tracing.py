"""Trace cases with torch.profiler, in workers of their own: for profiles, and to learn which kernels a candidate launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet.core.bench.ready.workers import SideWorkers, Workers
from ratchet.core.errors import RatchetError
from ratchet.core.records import Record
from ratchet.core.records.profile import Activity
from ratchet.core.records.run import Side


class Traced(Record):
    """The activity that torch.profiler saw of the prepared case."""

    activity: Activity


@dataclass(frozen=True)
class SideTrace:
    """The activity that torch.profiler saw of one side of a case, or why it saw none."""

    activity: Activity | None
    trouble: str = ""


def trace(workers: Workers, side: Side, cases: Sequence[str]) -> dict[str, SideTrace]:
    """Trace some calls of each case on one side with torch.profiler. Trouble costs the trace of that case, and no more."""
    traces: dict[str, SideTrace] = {}
    alone = SideWorkers()
    for name in cases:
        try:
            workers.fork_missing(alone, side, name)
            workers.wait_for_ends()  # of workers whose copies and kernels would be in the trace's way
            workers.prepare(side, alone.workers[side], name, workers.plan.seed, check=False)
            traces[name] = SideTrace(alone.workers[side].ask("trace", Traced).activity)
        except RatchetError as error:
            workers.stop_workers(alone)
            traces[name] = SideTrace(None, f"Under torch.profiler {error}")
    workers.stop_workers(alone)
    return traces
