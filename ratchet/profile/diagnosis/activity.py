"""What a trace of some calls shows: launches, gaps, copies from pageable memory, allocations. No counters are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ratchet import units
from ratchet.profile.diagnosis import thresholds as at
from ratchet.profile.diagnosis.figures import arrow
from ratchet.profile.diagnosis.rule import Confidence, Difference
from ratchet.profile.diagnosis.times import moved_s
from ratchet.records.profile import Activity, Finding


@dataclass(frozen=True)
class Cost:
    """What one thing costs a call."""

    seconds: float
    """On the clock, for each call; 0 where it is only counted."""
    figure: str
    noteworthy: bool
    count: float | None = None
    """How many there are in a call, where they can be counted: more of them cannot make a call faster."""


@dataclass(frozen=True)
class TraceRule:
    """A cost that one side has, or that differs between the sides."""

    key: str
    subject: str
    rank: float
    cost: Callable[[Activity], Cost | None]
    why: str
    advice: str
    sure: Confidence = "medium"


def pageable(activity: Activity) -> Cost | None:
    count, each = activity.pageable_copies / activity.calls, activity.copies_s / activity.calls
    return Cost(each if count else 0.0, f"{count:.3g} in a call" if count else "none", count > 0, count)


def allocation(activity: Activity) -> Cost | None:
    each = activity.allocation_s / activity.calls
    return Cost(each, f"{units.duration(each)} in a call", activity.allocation_s >= at.ALLOCATION_SHARE * activity.wall_s)


def gaps(activity: Activity) -> Cost | None:
    if activity.gaps_s is None:
        return None
    each, share = activity.gaps_s / activity.calls, activity.gaps_s / activity.wall_s
    return Cost(each, f"{units.duration(each)} in a call ({units.percent(share)})", share >= at.GAP_SHARE)


def launches(activity: Activity) -> Cost | None:
    count = activity.launches / activity.calls
    device_s = sum(activity.kernels.values())
    short = activity.launches > 0 and device_s / activity.launches < at.SHORT_KERNEL_S
    each_s = min(activity.wall_s / activity.calls, count * at.SHORT_KERNEL_S)
    return Cost(each_s, f"{count:.3g} in a call", short and count >= at.MANY_LAUNCHES, count)


RULES = (
    TraceRule("pageable copies", "Copies with host memory that is not pinned", 0.97, pageable,
              "The driver first copies pageable memory into a pinned buffer of its own, and the call waits for that.",
              "Allocate the host side with pin_memory=True and copy with non_blocking=True; reuse the buffer.", "high"),
    TraceRule("launches", "Launches", 0.9, launches,
              "Every launch costs the host microseconds; where kernels are short, the GPU waits for the next one.",
              "Do the work in one launch (batch, fuse), or capture the calls in a CUDA graph."),
    TraceRule("allocation", "CPU time in allocations", 0.8, allocation,
              "An allocation that the cache of the allocator cannot serve stops the host, and often the device.",
              "Allocate outputs and scratch once, and write into them (out=, copy_)."),
    TraceRule("gaps", "Device idle between kernels", 0.7, gaps,
              "While the device is idle, the host is preparing the next launch or waiting for something.",
              "Remove synchronisation (.item(), .cpu(), print), launch less, or capture the calls in a CUDA graph."),
)  # fmt: skip


def trace_changes(head: Activity, reference: Activity, ratio: float | None) -> list[Difference]:
    """Costs that differ between the sides. ``ratio``: head time / reference time of the case."""
    if not all(side.calls and side.wall_s > 0 for side in (head, reference)):
        return []
    return [found for rule in RULES if (found := _changed(rule, head, reference, ratio))]


def standing_costs(head: Activity) -> list[Finding]:
    """Costs that stand out in the head, whatever the reference does."""
    if not head.calls or head.wall_s <= 0:
        return []
    return [found for rule in RULES if (found := _standing(rule, head))]


def _changed(rule: TraceRule, head: Activity, reference: Activity, ratio: float | None) -> Difference | None:
    after, before = rule.cost(head), rule.cost(reference)
    if after is None or before is None or after.figure == before.figure:
        return None
    if not (after.noteworthy or before.noteworthy):
        return None
    cost = after.seconds - before.seconds
    low, high = sorted((after.seconds, before.seconds))
    if cost == 0 or high < at.NOTICED * low:
        return None
    if after.count is not None and before.count is not None and (after.count - before.count) * cost <= 0:
        return None  # fewer that take longer: the time is not due to their number
    moved = moved_s(reference.wall_s / reference.calls, head.wall_s / head.calls, ratio)
    part = min(1.0, abs(cost) / moved) if moved else 0.0
    if part < at.TIMES_SHARE:
        return None
    what = f"{rule.subject}: {arrow(before.figure, after.figure)}."
    return Difference(rule.key, what, rule.why, rule.advice, "slower" if cost > 0 else "faster", part, rule.rank)


def _standing(rule: TraceRule, head: Activity) -> Finding | None:
    seen = rule.cost(head)
    if seen is None or not seen.noteworthy:
        return None
    return Finding(
        key=rule.key,
        what=f"{rule.subject}: {seen.figure}.",
        why=rule.why,
        advice=rule.advice,
        confidence=rule.sure,
        weight=0.99 * rule.rank * min(1.0, seen.seconds / (head.wall_s / head.calls)),
    )
