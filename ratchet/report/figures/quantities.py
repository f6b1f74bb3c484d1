"""Numbers and texts that the page of a case shows, selected from the profiles of both sides.

Only `ratchet.report.figures.page` calls it; nothing here draws. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ratchet import units
from ratchet.judge.profile import matched
from ratchet.records.profile import Activity, CaseProfile, Effect, KernelProfile
from ratchet.report.words import NOTHING

_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_ISSUED = "selected"
"""ncu lists it among the reasons to wait, but it is the cycle in which a warp issues."""
_UNCHANGED = 0.02
"""Durations that differ by less have not changed."""
MOST_STALLS, MOST_TIMES = 6, 7


@dataclass(frozen=True)
class Bar:
    """One quantity of both sides; None where a side does not have it."""

    label: str
    reference: float | None
    head: float | None
    unit: str = "%"
    absent: tuple[str, str] = ("not in the report", "not in the report")
    """Words for a side that has no number: reference, head."""


@dataclass(frozen=True)
class Fact:
    """One line of a table: a label, and the text of both sides."""

    label: str
    reference: str
    head: str


@dataclass(frozen=True)
class Launch:
    """One launch on both sides; None where a side does not have it."""

    reference: KernelProfile | None
    head: KernelProfile | None

    @property
    def kernel(self) -> KernelProfile:
        """The kernel that names the launch: the head's if there is one."""
        return next(kernel for kernel in (self.head, self.reference) if kernel)

    def fact(self, label: str, text: Callable[[KernelProfile], str | None]) -> Fact:
        """Return one line of a table."""
        before, after = ((text(kernel) if kernel else None) or NOTHING for kernel in (self.reference, self.head))
        return Fact(label, before, after)

    def bar(self, label: str, value: Callable[[KernelProfile], float | None], unit: str = "%") -> Bar:
        """Return one pair of bars; a side without a number says whether the report lacks it or the launch does not exist."""
        sides = (self.reference, self.head)
        before, after = (value(kernel) if kernel else None for kernel in sides)
        absent = ("not in the report" if kernel else "no such launch" for kernel in sides)
        return Bar(label, before, after, unit, (next(absent), next(absent)))


def launches(profile: CaseProfile) -> list[Launch]:
    """Return the launches of both sides in pairs, then those that only the reference has."""
    return [Launch(reference, head) for head, reference in matched(profile.head, profile.reference)]


def heaviest(every: Sequence[Launch], direction: Effect | None = None) -> Launch | None:
    """Return the launch that changed most in the direction of its case (None: in any); where none changed, the longest."""

    def weight(launch: Launch) -> tuple[bool, float]:
        before, after = ((kernel.duration_s or 0.0 if kernel else 0.0) for kernel in (launch.reference, launch.head))
        change = {"slower": after - before, "faster": before - after}.get(direction or "", abs(after - before))
        changed = change > _UNCHANGED * max(before, after)
        return changed, change if changed else max(before, after)

    return max(every, key=weight, default=None)


def throughput(launch: Launch) -> list[Bar]:
    """Return how busy each part of the GPU was, in percent of the peak that it can sustain."""
    return [
        launch.bar("Multiprocessors (SM)", lambda kernel: kernel.sm_percent),
        launch.bar("Memory", lambda kernel: kernel.memory_percent),
        launch.bar("DRAM", lambda kernel: kernel.dram_percent),
        launch.bar("L2 cache", lambda kernel: kernel.metrics.get(_L2)),
        launch.bar("Matrix units", lambda kernel: kernel.tensor_percent),
        launch.bar("L2 hits", lambda kernel: kernel.l2_hit_percent),
    ]


def stalls(launch: Launch) -> list[Bar]:
    """Return the reasons for which warps waited longest on either side, in cycles."""

    def bar(name: str) -> Bar:
        return launch.bar(name.replace("_", " "), lambda kernel: kernel.stalls.get(name), "cycles")

    names = {name for kernel in (launch.reference, launch.head) if kernel for name in kernel.stalls} - {_ISSUED}
    return _longest([bar(name) for name in sorted(names)], MOST_STALLS)


def occupancy(launch: Launch) -> list[Bar]:
    """Return warps that were active and warps that the launch allows, in percent of those that fit."""
    return [
        launch.bar("Occupancy achieved", lambda kernel: kernel.occupancy_percent),
        launch.bar("Occupancy allowed", lambda kernel: kernel.occupancy_limit_percent),
    ]


def launch_facts(launch: Launch) -> list[Fact]:
    """Return what limits occupancy, and the size of the launch."""

    def size(value: float | None) -> str | None:
        return None if value is None else units.size(value)

    def shape(kernel: KernelProfile) -> str | None:
        if kernel.grid is None or kernel.block is None:
            return None
        extents = ("×".join(map(str, extent)) for extent in (kernel.grid, kernel.block))
        return ", ".join(extent.removesuffix("×1").removesuffix("×1") for extent in extents)

    return [
        launch.fact("Limited by", lambda kernel: kernel.occupancy_limiter),
        launch.fact("Registers per thread", lambda kernel: None if kernel.registers is None else str(kernel.registers)),
        launch.fact("Shared memory per block", lambda kernel: size(kernel.shared_bytes)),
        launch.fact("Spilled", lambda kernel: size(kernel.spill_bytes)),
        launch.fact("DRAM read and written", lambda kernel: size(kernel.dram_bytes)),
        launch.fact("Grid, block", shape),
        launch.fact("Duration under ncu", lambda kernel: units.duration(kernel.duration_s) if kernel.duration_s else None),
    ]


def activities(profile: CaseProfile) -> tuple[Activity | None, Activity | None]:
    """Return the traces of the reference and of the head."""
    before, after = (side.activity if side else None for side in (profile.reference, profile.head))
    return before, after


def times(profile: CaseProfile, seconds: Callable[[Activity], dict[str, float]]) -> list[Bar]:
    """Return the kernels, operators or API calls that took longest on either side, in µs of one call."""

    def microseconds(activity: Activity | None, name: str) -> float | None:
        return 1e6 * seconds(activity).get(name, 0.0) / max(activity.calls, 1) if activity else None

    reference, head = activities(profile)
    names = {name for activity in (reference, head) if activity for name in seconds(activity)}
    return _longest(
        [Bar(name, microseconds(reference, name), microseconds(head, name), "µs") for name in sorted(names)], MOST_TIMES
    )


def _longest(bars: Sequence[Bar], most: int) -> list[Bar]:
    return sorted(bars, key=lambda bar: -max(bar.reference or 0.0, bar.head or 0.0))[:most]


def activity_facts(profile: CaseProfile) -> list[Fact]:
    """Return launches, gaps and copies of one call."""

    def fact(label: str, total: Callable[[Activity], float | None], text: Callable[[float], str]) -> Fact:
        def shown(activity: Activity | None) -> str:
            value = total(activity) if activity else None
            return NOTHING if value is None or activity is None else text(value / max(activity.calls, 1))

        before, after = map(shown, activities(profile))
        return Fact(label, before, after)

    def count(value: float) -> str:
        return f"{value:.3g}"

    def duration(value: float) -> str:
        return units.duration(value) if value else "0"

    return [
        fact("Launches", lambda activity: activity.launches, count),
        fact("First event to last", lambda activity: activity.wall_s, duration),
        fact("Kernels", lambda activity: sum(activity.kernels.values()), duration),
        fact("Idle between kernels", lambda activity: activity.gaps_s, duration),
        fact("Copies", lambda activity: activity.copies_s, duration),
        fact("Pageable copies", lambda activity: activity.pageable_copies, count),
        fact("Allocation, on the CPU", lambda activity: activity.allocation_s, duration),
    ]
