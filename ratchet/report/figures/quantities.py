"""What the panels of a page show, out of the records: pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ratchet import units
from ratchet.records.profile import Activity, CaseProfile, Effect, KernelProfile, Profile
from ratchet.report.figures.bars import Bar, Fact
from ratchet.report.words import NOTHING

_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_ISSUED = "selected"
"""ncu lists it among the reasons to wait, but it is the cycle in which a warp issues."""
_SAME = 0.02
"""Durations that differ by less have not changed."""
MOST_STALLS, MOST_TIMES = 6, 7


@dataclass(frozen=True)
class Launch:
    """One launch as both sides have it; None where one has not."""

    reference: KernelProfile | None
    head: KernelProfile | None

    @property
    def shown(self) -> KernelProfile | None:
        """The side that names it."""
        return self.head or self.reference

    @property
    def seconds(self) -> tuple[float, float]:
        """Durations under the profiler; 0 where there is none."""
        before, after = ((each.duration_s or 0.0 if each else 0.0) for each in (self.reference, self.head))
        return before, after


def launches(profile: CaseProfile) -> list[Launch]:
    """The launches of both sides by function and order, and those that only one of them has."""
    reference = list(profile.reference.kernels) if profile.reference else []
    found = []
    for kernel in profile.head.kernels if profile.head else ():
        twin = next((each for each in reference if each.function == kernel.function), None)
        if twin is not None:
            reference.remove(twin)
        found.append(Launch(twin, kernel))
    return [*found, *(Launch(each, None) for each in reference)]


def heaviest(every: Sequence[Launch], direction: Effect | None = None) -> Launch | None:
    """Of the launches that went the way of the case the one that changed most; where none did, the longest.

    Without a direction, either way counts.
    """

    def weight(launch: Launch) -> tuple[bool, float]:
        before, after = launch.seconds
        change = {"slower": after - before, "faster": before - after}.get(direction or "", abs(after - before))
        changed = change > _SAME * max(before, after)
        return changed, change if changed else max(before, after)

    return max(every, key=weight, default=None)


def throughput(launch: Launch) -> list[Bar]:
    """How busy each part of the GPU was, of the peak that it can sustain."""
    parts: tuple[tuple[str, Callable[[KernelProfile], float | None]], ...] = (
        ("Multiprocessors (SM)", lambda kernel: kernel.sm_percent),
        ("Memory", lambda kernel: kernel.memory_percent),
        ("DRAM", lambda kernel: kernel.dram_percent),
        ("L2 cache", lambda kernel: kernel.metrics.get(_L2)),
        ("Matrix units", lambda kernel: kernel.tensor_percent),
        ("L2 hits", lambda kernel: kernel.l2_hit_percent),
    )
    return [_bar(label, launch, get) for label, get in parts]


def stalls(launch: Launch) -> list[Bar]:
    """The reasons that warps waited for longest on either side, in cycles."""
    before, after = ({} if kernel is None else kernel.stalls for kernel in (launch.reference, launch.head))
    names = sorted({*before, *after} - {_ISSUED}, key=lambda name: (-max(before.get(name, 0), after.get(name, 0)), name))
    absent = _absent(launch)
    return [Bar(name.replace("_", " "), before.get(name), after.get(name), "cycles", absent) for name in names[:MOST_STALLS]]


def occupancy(launch: Launch) -> list[Bar]:
    """Warps that were active and that the launch allows, of those that fit."""
    return [
        _bar("Occupancy achieved", launch, lambda kernel: kernel.occupancy_percent),
        _bar("Occupancy allowed", launch, lambda kernel: kernel.occupancy_limit_percent),
    ]


def launch_facts(launch: Launch) -> list[Fact]:
    """What limits occupancy, and what else the launch is made of."""

    def both(label: str, get: Callable[[KernelProfile], str | None]) -> Fact:
        shown = [(get(kernel) if kernel else None) or NOTHING for kernel in (launch.reference, launch.head)]
        return Fact(label, *shown)

    def counted(value: float | None) -> str | None:
        return None if value is None else f"{value:,.0f}".replace(",", " ")

    def sized(value: float | None) -> str | None:
        return None if value is None else units.size(value)

    return [
        both("Limited by", lambda kernel: kernel.occupancy_limiter),
        both("Registers per thread", lambda kernel: counted(kernel.registers)),
        both("Shared memory per block", lambda kernel: sized(kernel.shared_bytes)),
        both("Spilled", lambda kernel: sized(kernel.spill_bytes)),
        both("DRAM read and written", lambda kernel: sized(kernel.dram_bytes)),
        both("Grid, block", _shape),
        both("Duration under ncu", lambda kernel: units.duration(kernel.duration_s) if kernel.duration_s else None),
    ]


def kernel_times(profile: CaseProfile) -> list[Bar]:
    """Kernels (on the CPU: operators) that took longest on either side, in µs a call."""
    return _times(profile, lambda activity: activity.kernels)


def cpu_times(profile: CaseProfile) -> list[Bar]:
    """Operators and API calls that took longest on the CPU, in µs a call."""
    return _times(profile, lambda activity: activity.cpu_s)


def activity_facts(profile: CaseProfile) -> list[Fact]:
    """Launches, gaps and copies of one call."""

    def both(label: str, get: Callable[[Activity], str | None]) -> Fact:
        shown = [(get(each) if each else None) or NOTHING for each in activities(profile)]
        return Fact(label, *shown)

    def each_call(total: float | None, calls: int) -> str | None:
        return None if total is None else units.duration(total / max(calls, 1)) if total else "0"

    def number(total: int, calls: int) -> str:
        return f"{total / max(calls, 1):.3g}"

    return [
        both("Launches", lambda seen: number(seen.launches, seen.calls)),
        both("First event to last", lambda seen: each_call(seen.wall_s, seen.calls)),
        both("Kernels", lambda seen: each_call(sum(seen.kernels.values()), seen.calls)),
        both("Idle between kernels", lambda seen: each_call(seen.gaps_s, seen.calls)),
        both("Copies", lambda seen: each_call(seen.copies_s, seen.calls)),
        both("Pageable copies", lambda seen: number(seen.pageable_copies, seen.calls)),
        both("Allocation, on the CPU", lambda seen: each_call(seen.allocation_s, seen.calls)),
    ]


def _times(profile: CaseProfile, of: Callable[[Activity], dict[str, float]]) -> list[Bar]:
    before, after = (_microseconds(seen, of) for seen in activities(profile))
    both = {name: max(side.get(name, 0.0) for side in (before, after) if side) for name in {**(before or {}), **(after or {})}}
    names = sorted(both, key=lambda name: (-both[name], name))[:MOST_TIMES]
    return [Bar(name, before.get(name, 0.0) if before else None, after.get(name, 0.0) if after else None, "µs") for name in names]


def _microseconds(seen: Activity | None, of: Callable[[Activity], dict[str, float]]) -> dict[str, float] | None:
    """Of one call; None where nothing was traced."""
    return {name: 1e6 * took / max(seen.calls, 1) for name, took in of(seen).items()} if seen else None


def _bar(label: str, launch: Launch, get: Callable[[KernelProfile], float | None]) -> Bar:
    before, after = (get(kernel) if kernel else None for kernel in (launch.reference, launch.head))
    return Bar(label, before, after, absent=_absent(launch))


def _absent(launch: Launch) -> tuple[str, str]:
    """Why a side has no figure: the report lacks it, or there is no such launch."""
    before, after = ("not in the report" if kernel else "no such launch" for kernel in (launch.reference, launch.head))
    return before, after


def activities(profile: CaseProfile) -> tuple[Activity | None, Activity | None]:
    """What was traced of the reference and of the head."""
    return _activity(profile.reference), _activity(profile.head)


def _activity(profile: Profile | None) -> Activity | None:
    return profile.activity if profile else None


def _shape(kernel: KernelProfile) -> str | None:
    if kernel.grid is None or kernel.block is None:
        return None
    return ", ".join("×".join(str(each) for each in _trimmed(extent)) for extent in (kernel.grid, kernel.block))


def _trimmed(extent: Sequence[int]) -> list[int]:
    """Without ones at the end."""
    kept = list(extent)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return kept
