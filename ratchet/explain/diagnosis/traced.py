"""Find what a whole call spends its time on: kernels that were added, replaced or got slower, and what the host costs.

`diagnose` calls it; it needs no single counter. Launches, and how long they take, come from the trace where both sides have one,
else from the report of ncu. Sections: launches by name, costs of the host. Pure.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ratchet.common.call_trace import host_copies_s
from ratchet.core import units
from ratchet.core.records.profile import Activity, Effect, Finding, Profile
from ratchet.core.records.run import Performance
from ratchet.explain.diagnosis import rule as at
from ratchet.explain.diagnosis.rule import Cause, Confidence, Difference, State, arrow, direction_of, noticed, standing
from ratchet.explain.metrics import bare

LAUNCH_S = 2e-6
"""The least that one more launch costs besides its kernel; profilers do not see it."""
EFFECTS: tuple[Effect, ...] = ("slower", "faster")
NAMES_SHOWN = 3
LONGEST_NAME = 60
# Ranks: launches that were added or are gone are an edit, not a consequence of one. Another kernel is what somebody wrote; the
# same kernel with another time only says where to look.
STORM = Cause(
    "launches",
    0.97,
    "Every launch costs microseconds on the host, and a start and an end on the GPU in which it is partly empty. While kernels"
    " are short, the GPU waits for the host.",
    "Do the work in one launch (batch, fuse), or capture the calls in a CUDA graph.",
)
LAUNCH_BOUND = replace(STORM, key="launch-bound")
_COMPARE = "Compare the two implementations for these shapes, or go back to the former one."
ADDED_OR_REMOVED: dict[Effect, Cause] = {
    "slower": Cause(
        "extra kernel",
        0.97,
        "Work that the reference does not do takes its own time. A kernel costs a launch, reads its input from memory and writes"
        " its result back.",
        "Check whether the result needs it; if so, fuse it with its neighbour, so that intermediate values stay in registers (in"
        " PyTorch, see torch.compile), or do it once outside of the call.",
    ),
    "faster": Cause("extra kernel", 0.97, "Work that is no longer done saves its time.", _COMPARE),
}
REPLACED: dict[Effect, Cause] = {
    effect: Cause(
        "other kernels",
        0.7,
        f"The kernels that do this work now take {'longer' if effect == 'slower' else 'less time'} together"
        " than those that did it before.",
        _COMPARE,
    )
    for effect in EFFECTS
}
SAME_NAME: dict[Effect, Cause] = {
    effect: Cause(
        f"{effect} kernels",
        0.5,
        "The profile shows where the time goes, but no rule of ratchet explains why.",
        "Compare the two versions of it: shapes, layouts, data types, and how it is launched.",
    )
    for effect in EFFECTS
}
Timed = tuple[Performance | None, Performance | None]
"""A case as the benchmark timed it: head and reference."""


@dataclass(frozen=True)
class LaunchTotal:
    """All launches of one name in a call."""

    name: str
    seconds: float | None
    """None where it is not known, or not to be believed."""
    launches: int = 1
    launching_s: float = 0.0
    """The time that the launches cost besides."""

    @property
    def cost_s(self) -> float:
        return (self.seconds or 0.0) + self.launching_s


@dataclass(frozen=True)
class LaunchChange:
    """All launches of one name on both sides."""

    reference: LaunchTotal
    head: LaunchTotal

    @property
    def more(self) -> int:
        """Launches that the head has more."""
        return self.head.launches - self.reference.launches

    @property
    def cost_s(self) -> float:
        """Seconds that the head's take longer."""
        return self.head.cost_s - self.reference.cost_s

    @property
    def effect(self) -> Effect | None:
        """Return the effect of their number on the call; None where it is the same, or where more of them take less time."""
        return None if self.more * self.cost_s <= 0 else "slower" if self.more > 0 else "faster"

    @property
    def is_apart(self) -> bool:
        """Return whether the times differ at all."""
        return abs(self.cost_s) > (at.SAME_TRACED - 1) * max(self.head.cost_s, self.reference.cost_s)

    def times(self, label: str) -> str:
        """Return ``softmax (12.78 µs → 25.56 µs)``."""
        return f"{label} ({arrow(*(units.duration(side.seconds or 0.0) for side in (self.reference, self.head)))})"

    def text(self, label: str) -> str:
        """Return ``Memcpy DtoD 1 → 17 times (12.78 µs more)``; without the time where it is not known."""
        text = f"{label} {arrow(self.reference.launches, self.head.launches)} times"
        longer = None not in (self.head.seconds, self.reference.seconds) and (self.head.seconds or 0) - (
            self.reference.seconds or 0
        )
        return f"{text} ({units.duration(abs(longer))} {'more' if longer > 0 else 'less'})" if longer else text


def kernel_seconds(profile: Profile) -> float | None:
    """Return the seconds of all launches; None where one has no duration."""
    times = [kernel.duration_s for kernel in profile.kernels if kernel.duration_s is not None]
    return sum(times) if times and len(times) == len(profile.kernels) else None


def call_seconds(profile: Profile) -> float | None:
    """Return the seconds of all launches with the cost of launching them; None where one has no duration."""
    seconds = kernel_seconds(profile)
    return None if seconds is None else seconds + LAUNCH_S * len(profile.kernels)


def moved_s(before: float, after: float, ratio: float | None) -> float:
    """Return the seconds by which the call changed, by the benchmark's ratio where that is known."""
    return abs(after - before) if ratio is None else abs(ratio - 1) * before


def on_cpu(activity: Activity) -> bool:
    """Return whether a trace shows operators on the CPU."""
    operators_alone = activity.ran.keys() <= activity.cpu_s.keys()
    return activity.gaps_s is None and operators_alone and not (activity.launches or activity.copies_s)


def launches_changed(
    head: Profile, reference: Profile, ratio: float | None, timed: Timed, explained: Collection[str]
) -> Iterator[Difference]:
    """Yield differences of launches by name.

    All names of one side only are one difference; then come common names that run more or less often, and those that got slower
    or faster. ``explained``: functions whose counters say why they got slower or faster. On the CPU a tracer stretches short
    calls, and one process is slower than the next: there, the times count as far as they agree with ``timed``. How often an
    operator runs is exact, so it counts where no time does.
    """
    ours, theirs = head.activity, reference.activity
    if ours and theirs:
        with_counters = head.kernels and reference.kernels
        counted = {kernel.function for kernel in (*head.kernels, *reference.kernels)} if with_counters else set[str]()
        after, before = _traced_launches(ours, counted), _traced_launches(theirs, counted)
    else:
        after, before = _counted_launches(head), _counted_launches(reference)
    totals = _cost(before.values()), _cost(after.values())
    moved, scatter, believed = moved_s(*totals, ratio), 0.0, True
    is_on_cpu = ours is not None and theirs is not None and on_cpu(ours) and on_cpu(theirs)
    if is_on_cpu and timed[0] and timed[1]:
        head_s, reference_s = (side.median_time_ms / 1e3 for side in timed if side)
        moved = moved_s(reference_s, head_s, ratio)
        scatter = at.PROCESS_SPREADS * max(side.std_time_ms / side.median_time_ms for side in timed if side)
        stretched = totals[0] > at.STRETCHED * reference_s or totals[1] > at.STRETCHED * head_s
        believed = not stretched and abs(totals[1] - totals[0]) <= at.STRETCHED * moved
    counts = [sum(total.launches for total in side.values()) for side in (before, after)]
    is_storm = not is_on_cpu and max(counts) >= at.MANY_LAUNCHES and max(counts) >= at.STORM * min(counts)
    added = [total for name, total in after.items() if name not in before and total.seconds != 0]
    gone = [total for name, total in before.items() if name not in after and total.seconds != 0]
    yield from _only_on_one_side(
        added, gone, moved, f"Launches in a call {arrow(*counts)}: the head" if is_storm else "", believed
    )
    common = [LaunchChange(before[name], after[name]) for name in after if name in before]
    timed_apart = common if believed else []
    if ours and theirs:
        timed_apart = [both for both in timed_apart if _is_apart(both, ours, theirs, scatter)]
    same = [both for both in timed_apart if not both.effect and bare(both.head.name) not in explained]
    found = [
        *_more_or_less_often(timed_apart, moved, is_storm=is_storm),
        *_same_name(same, moved, "" if ours and theirs else ", under the profiler"),
    ]
    yield from found or (_counts_alone(common, direction_of(ratio)) if is_on_cpu else ())


def _traced_launches(activity: Activity, counted: Collection[str]) -> dict[str, LaunchTotal]:
    """Return the kernels and copies of one call; those with counters by their bare names, by which counters are matched."""
    calls, found = max(1, activity.calls), dict[str, LaunchTotal]()
    for full, time in {**activity.kernels, **activity.copies}.items():
        name, count = bare(full) if bare(full) in counted else full, max(1, round(activity.ran.get(full, 0) / calls))
        earlier = found.get(name, LaunchTotal(name, 0.0, 0))
        found[name] = LaunchTotal(name, (earlier.seconds or 0.0) + time / calls, earlier.launches + count)
    return found


def _counted_launches(profile: Profile) -> dict[str, LaunchTotal]:
    """Return the launches in a report by function."""
    times: dict[str, list[float | None]] = defaultdict(list)
    for kernel in profile.kernels:
        times[kernel.function].append(kernel.duration_s)
    sums = {name: None if None in each else sum(filter(None, each)) for name, each in times.items()}
    return {name: LaunchTotal(name, sums[name], len(each), LAUNCH_S * len(each)) for name, each in times.items()}


def _only_on_one_side(
    added: Sequence[LaunchTotal], gone: Sequence[LaunchTotal], moved: float, storm: str, believed: bool
) -> Iterator[Difference]:
    """Yield the names that only one side launches as one difference."""
    net, more = _cost(added) - _cost(gone), sum(one.launches for one in added) - sum(one.launches for one in gone)
    is_known = all(one.seconds is not None for one in (*added, *gone))
    part = min(1.0, abs(net) / moved) if moved else 0.0
    if not (added or gone) or (is_known and part < at.TIMES_SHARE):
        return
    effect: Effect | None = None if net == 0 else "slower" if net > 0 else "faster"
    # More launches that are faster, or fewer that are slower: their number is not the reason.
    is_replaced = added and gone and (not more or (effect == "slower") == (more < 0))
    cause = STORM if storm and more else (REPLACED if is_replaced else ADDED_OR_REMOVED)[effect or "slower"]
    if not believed:
        gone, added = ([replace(one, seconds=None) for one in side] for side in (gone, added))
    beginning = storm if cause is STORM else "In each call, the head"
    yield Difference(cause, f"{beginning} {replaced(gone, added)}.", effect, part)


def _is_apart(both: LaunchChange, head: Activity, reference: Activity, scatter: float) -> bool:
    """Return whether the times of a name differ by more than those of calls do, and by more than those of processes.

    ``scatter``: part of the time by which processes differ.
    """
    if abs(both.cost_s) <= scatter * max(both.head.cost_s, both.reference.cost_s):
        return False
    ours, theirs = head.per_call.get(both.head.name), reference.per_call.get(both.head.name)
    if ours is None or theirs is None:
        return not on_cpu(head)
    return ours[0] > theirs[1] or ours[1] < theirs[0]


def _more_or_less_often(common: Sequence[LaunchChange], moved: float, *, is_storm: bool) -> Iterator[Difference]:
    """Yield the names that the head runs more often as one difference, and those that it runs less often as another."""
    for effect in EFFECTS:
        repeated = sorted((both for both in common if both.effect == effect), key=lambda both: -abs(both.cost_s))
        total = sum(abs(both.cost_s) for both in repeated)
        if moved and total >= at.TIMES_SHARE * moved:
            cause = STORM if is_storm else ADDED_OR_REMOVED[effect]
            yield Difference(cause, f"Each call runs {_changes(repeated, LaunchChange.text)}.", effect, min(1.0, total / moved))


def _counts_alone(common: Sequence[LaunchChange], direction: Effect | None) -> Iterator[Difference]:
    """Yield operators that run more often in a slower head, or less often in a faster one, without times."""
    way = {"slower": 1, "faster": -1}.get(direction or "", 0)
    fitting = sorted((both for both in common if way * both.more > 0), key=lambda both: (-abs(both.more), -way * both.cost_s))
    if direction and fitting:
        untimed = [LaunchChange(*(replace(side, seconds=None) for side in (one.reference, one.head))) for one in fitting]
        yield Difference(
            ADDED_OR_REMOVED[direction], f"Each call runs {_changes(untimed, LaunchChange.text)}.", direction, at.TIMES_SHARE
        )


def _same_name(common: Sequence[LaunchChange], moved: float, when: str) -> Iterator[Difference]:
    """Yield the names that got slower as one difference, and those that got faster as another.

    A difference below `TIMES_SHARE` of the change of the call is left out. ``when``: the end of the sentence.
    """
    for effect in EFFECTS:
        apart = [both for both in common if both.is_apart and (both.cost_s > 0) == (effect == "slower")]
        total = sum(abs(both.cost_s) for both in apart)
        if moved and total >= at.TIMES_SHARE * moved:
            longest = sorted(apart, key=lambda both: -abs(both.cost_s))
            more = "more" if effect == "slower" else "less"
            what = f"Each call spends {more} in {_changes(longest, LaunchChange.times)}{when}."
            yield Difference(SAME_NAME[effect], what, effect, min(1.0, total / moved))


def _changes(changed: Sequence[LaunchChange], text: Callable[[LaunchChange, str], str]) -> str:
    """Return ``a; also b, c and 2 more``: a headline shows what comes before the semicolon."""
    labels = _labels([both.head.name for both in changed])
    first, *others = [text(both, labels[both.head.name]) for both in changed]
    return f"{first}; also {units.listed(others, NAMES_SHOWN - 1)}" if others else first


def replaced(gone: Sequence[LaunchTotal], added: Sequence[LaunchTotal]) -> str:
    """Return ``replaced softmax (349.8 µs) by my_kernel (1.200 ms)``; ``added …`` or ``removed …`` where one list is empty."""
    labels = _labels([one.name for one in (*gone, *added)])
    if gone and added:
        return f"replaced {_listed(gone, labels)} by {_listed(added, labels)}"
    return f"added {_listed(added, labels)}" if added else f"removed {_listed(gone, labels)}"


def _listed(spent: Sequence[LaunchTotal], labels: Mapping[str, str]) -> str:
    """List names with their times, the longest first."""
    shown = []
    for one in sorted(spent, key=lambda one: (-(one.seconds or 0.0), -one.launches)):
        count = f" ×{one.launches}" if one.launches > 1 else ""
        time = f" ({units.duration(one.seconds)})" if one.seconds else ""
        shown.append(f"{labels[one.name]}{count}{time}")
    return units.listed(shown, NAMES_SHOWN)


def _cost(launches: Iterable[LaunchTotal]) -> float:
    """Return the seconds of these launches together, as far as they are known."""
    return sum(one.cost_s for one in launches)


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return short names; where two are alike, as much of the whole names as there is room for."""
    short = {name: bare(name) if "(" in name else name for name in names}
    taken = list(short.values())
    return {name: (label if taken.count(label) == 1 else name)[:LONGEST_NAME] for name, label in short.items()}


def short_kernels(profile: Profile) -> Iterator[Finding]:
    """Yield the finding for kernels that take less time than their launch."""
    times = [kernel.duration_s for kernel in profile.kernels if kernel.duration_s is not None]
    if not times or statistics.median(times) >= at.SHORT_KERNEL_S:
        return
    count = f"{len(times)} launches in a call take" if len(times) > 1 else "The kernel takes"
    each = f"{units.duration(statistics.median(times))}{' each (median)' if len(times) > 1 else ''}"
    text = f"{count} {each}: about what the launch itself takes."
    many = len(times) >= at.MANY_LAUNCHES
    yield standing(State(STORM, text, 0.9, "high") if many else State(LAUNCH_BOUND, text, 0.7), 1.0)


# What a trace shows of the host: launches, gaps, copies from pageable memory, allocations.

PAGEABLE = Cause(
    "pageable copies",
    0.97,
    "The driver first copies pageable memory into a pinned buffer of its own, and the call waits for that.",
    "Allocate the host side with pin_memory=True and copy with non_blocking=True; reuse the buffer.",
)
LAUNCHES = Cause(
    "launches",
    0.9,
    "Every launch costs the host microseconds; where kernels are short, the GPU waits for the next one.",
    STORM.advice,
)
ALLOCATION = Cause(
    "allocation",
    0.8,
    "An allocation that the cache of the allocator cannot serve stops the host, and often the device.",
    "Allocate outputs and scratch once, and write into them (out=, copy_).",
)
GAPS = Cause(
    "gaps",
    0.7,
    "While the device is idle, the host is preparing the next launch or waiting for something.",
    "Remove synchronisation (.item(), .cpu(), print), launch less, or capture the calls in a CUDA graph.",
)


@dataclass(frozen=True)
class Cost:
    """The cost of one thing in a call."""

    cause: Cause
    subject: str
    seconds: float
    """On the clock, for each call; 0 where it is only counted."""
    figure: str
    noteworthy: bool
    count: float | None = None
    """How many there are in a call, where they can be counted: more of them cannot make a call faster."""
    sure: Confidence = "medium"

    def text(self, figure: str) -> str:
        return f"{self.subject}: {figure}."


def costs(activity: Activity) -> dict[str, Cost]:
    """Return key → what a call spends on the host; empty for a trace of nothing."""
    calls, wall_s = activity.calls, activity.wall_s
    if not calls or wall_s <= 0:
        return {}
    copies, launches = activity.pageable_copies / calls, activity.launches / calls
    copying = f"{copies:.3g} in a call" if copies else "none"
    device_s = sum(activity.kernels.values())
    short = activity.launches > 0 and device_s / activity.launches < at.SHORT_KERNEL_S
    launching_s = min(wall_s / calls, launches * at.SHORT_KERNEL_S)  # each as a short kernel, together never more than the call
    allocated_s = activity.allocation_s / calls
    found = [
        Cost(PAGEABLE, "Copies to or from host memory that is not pinned", host_copies_s(activity) / calls if copies else 0.0,
             copying, copies > 0, copies, "high"),
        Cost(LAUNCHES, "Launches", launching_s, f"{launches:.3g} in a call", short and launches >= at.MANY_LAUNCHES, launches),
        Cost(ALLOCATION, "CPU time in allocations", allocated_s, f"{units.duration(allocated_s)} in a call",
             activity.allocation_s >= at.ALLOCATION_SHARE * wall_s),
    ]  # fmt: skip
    if activity.gaps_s is not None:
        gap_s, share = activity.gaps_s / calls, activity.gaps_s / wall_s
        figure = f"{units.duration(gap_s)} in a call ({units.percent(share)})"
        found.append(Cost(GAPS, "Device idle between kernels", gap_s, figure, share >= at.GAP_SHARE))
    return {cost.cause.key: cost for cost in found}


def costs_changed(head: Activity, reference: Activity, ratio: float | None) -> Iterator[Difference]:
    """Yield costs that differ between the sides. ``ratio``: head time / reference time of the case."""
    before, after = costs(reference), costs(head)
    if not before or not after:
        return
    moved = moved_s(reference.wall_s / reference.calls, head.wall_s / head.calls, ratio)
    for old, new in [(before[key], new) for key, new in after.items() if key in before]:
        longer = new.seconds - old.seconds
        if old.figure == new.figure or not (old.noteworthy or new.noteworthy) or longer == 0:
            continue
        if old.seconds and new.seconds and not noticed(new.seconds / old.seconds):
            continue
        if old.count is not None and new.count is not None and (new.count - old.count) * longer <= 0:
            continue  # fewer that take longer: the time is not due to their number
        part = min(1.0, abs(longer) / moved) if moved else 0.0
        if part >= at.TIMES_SHARE:
            text = new.text(arrow(old.figure, new.figure))
            yield Difference(new.cause, text, "slower" if longer > 0 else "faster", part)


def standing_costs(head: Activity) -> Iterator[Finding]:
    """Yield costs that stand out in the head, whatever the reference does."""
    for cost in costs(head).values():
        if cost.noteworthy:
            part = cost.seconds / (head.wall_s / head.calls)
            yield standing(State(cost.cause, cost.text(cost.figure), cost.cause.rank * part, cost.sure), 1.0)
