"""Traces of torch.profiler: have workers take them, and see which kernels they show, and which of these are worth counters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ratchet.core.bench.ready.workers import SideWorkers, Workers
from ratchet.core.errors import RatchetError
from ratchet.core.records import Record
from ratchet.core.records.profile import Activity
from ratchet.core.records.run import Side
from ratchet.explain.metrics import bare

MATTERS = 0.95
"""Part of a call's time on the device whose kernels are worth counters. Of two sides, also part of the time between them."""
ALIKE = 0.02
"""Two sides whose kernels differ by less than this part of their time are alike: which ones differ most would be chance."""


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


# The kernels of a trace. Pure.


def kernel_times(activity: Activity) -> dict[str, float]:
    """Return bare name → seconds of the kernels that ran, the longest first; copies and fills of memory are none."""
    times: dict[str, float] = {}
    for name, seconds in activity.kernels.items():
        if not name.startswith(("Memset", "Memcpy")):
            times[bare(name)] = times.get(bare(name), 0.0) + seconds
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def busiest(activity: Activity | None, among: Collection[str] = ()) -> str | None:
    """Return the bare name of the kernel that takes most of the device's time; None where no kernel ran.

    ``among`` leaves only kernels of these names, unless it is empty.
    """
    times = kernel_times(activity) if activity else {}
    return next((name for name in times if not among or name in among), None)


def that_matter(times: Mapping[str, float]) -> list[str]:
    """Return the names with the longest times, which together make up `MATTERS` of all."""
    chosen: list[str] = []
    for name in sorted(times, key=lambda name: -times[name]):
        if sum(times[one] for one in chosen) < MATTERS * sum(times.values()):
            chosen.append(name)
    return chosen


def worth_counters(sides: Sequence[Activity]) -> list[str]:
    """Return the bare names of the kernels of a case whose counters explain it: of one side, those that matter.

    Of two sides those that, besides, make up nearly all of the difference in time, and at least one kernel of each side.
    """
    matter = dict.fromkeys(name for activity in sides for name in that_matter(kernel_times(activity)))
    times = [{name: s / max(1, activity.calls) for name, s in kernel_times(activity).items()} for activity in sides]
    apart = {name: max(of.get(name, 0.0) for of in times) - min(of.get(name, 0.0) for of in times) for name in matter}
    if len(sides) < 2 or sum(apart.values()) < ALIKE * max(sum(of.values()) for of in times):
        return list(matter)
    chosen = set(that_matter(apart))
    chosen |= {next(iter(of)) for of in times if of and not chosen & set(of)}
    return [name for name in matter if name in chosen]


def launches_of(activity: Activity, names: Collection[str]) -> int:
    """Return how often a call launches kernels of these bare names, rounded up."""
    return math.ceil(sum(launches_by_name(activity, names).values()))


def launches_by_name(activity: Activity, names: Collection[str]) -> dict[str, float]:
    """Return bare name → how often a call launches it, of these names; a fraction where calls differ."""
    counts: Counter[str] = Counter()
    for name, count in activity.ran.items():
        if bare(name) in names:
            counts[bare(name)] += count
    return {name: count / max(1, activity.calls) for name, count in counts.items()}
