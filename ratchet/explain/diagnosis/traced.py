"""Find what a whole call spends its time on: kernels that were added, replaced or got slower, and what the host costs.

`diagnose` calls it with launches of a report with counters, or with times and counts of a trace; it needs no single counter.
Sections: launches under the profiler, traced times by name, costs of the host. Pure.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ratchet.common.launch_pairs import matched
from ratchet.core import units
from ratchet.core.records.profile import Activity, Effect, Finding, KernelProfile, Profile
from ratchet.core.records.run import Performance
from ratchet.explain.diagnosis import rule as at
from ratchet.explain.diagnosis.rule import Confidence, Difference, arrow
from ratchet.explain.metrics import bare

LAUNCHES_RANK = 0.97
"""Rank of launches that were added or are gone: an edit, not a consequence of one; see `ChangeRule.rank`."""
LAUNCH_S = 2e-6
"""The least that one more launch costs besides its kernel; profilers do not see it."""
STORM_WHY = (
    "Every launch costs microseconds on the host, and a start and an end on the GPU in which it is partly empty. While kernels"
    " are short, the GPU waits for the host."
)
STORM_ADVICE = "Do the work in one launch (batch, fuse), or capture the calls in a CUDA graph."
EXTRA_WHY = "An extra kernel costs a launch, reads its input from memory and writes its result back."
EXTRA_ADVICE = "Fuse it with its neighbour, so that intermediate values stay in registers; in PyTorch, see torch.compile."
REPLACED_RANK, SAME_NAME_RANK = 0.7, 0.5
"""Another kernel is what somebody wrote; the same kernel with another time only says where to look."""
EFFECTS: tuple[Effect, ...] = ("slower", "faster")
NAMES_SHOWN = 3
LONGEST_NAME = 60
REPLACED_WHY: dict[Effect, str] = {
    "slower": "The kernels that do this work now take longer together than those that did it before.",
    "faster": "The kernels that do this work now take less time together than those that did it before.",
}
REPLACED_ADVICE = "Compare the two implementations for these shapes, or go back to the former one."
ADDED_WHY = "Work that the reference does not do takes its own time."
ADDED_ADVICE = "Check whether the result needs it; if so, fuse it with its neighbour, or do it once outside of the call."
REMOVED_WHY = "Work that is no longer done saves its time."
_OFTEN: dict[Effect, tuple[str, str]] = {"slower": (ADDED_WHY, ADDED_ADVICE), "faster": (REMOVED_WHY, REPLACED_ADVICE)}
"""Reason and advice where a side runs something more often, or less often, than before."""
SAME_NAME_WHY = "The profile shows where the time goes, but no rule of ratchet explains why."
SAME_NAME_ADVICE = "Compare the two versions of it: shapes, layouts, data types, and how it is launched."


@dataclass(frozen=True)
class LaunchTotal:
    """All launches of one name in a call."""

    name: str
    seconds: float | None
    """None where it is not known."""
    launches: int = 1


@dataclass(frozen=True)
class LaunchChange:
    """All launches of one name on both sides."""

    reference: LaunchTotal
    head: LaunchTotal

    @property
    def seconds(self) -> float:
        """Seconds that the head's take longer."""
        return (self.head.seconds or 0.0) - (self.reference.seconds or 0.0)

    @property
    def effect(self) -> Effect | None:
        """Return the effect of their number on the call; None where it is the same, or where more of them take less time."""
        more = self.head.launches - self.reference.launches
        return None if more * self.seconds <= 0 else "slower" if more > 0 else "faster"

    def text(self, label: str) -> str:
        """Return ``Memcpy DtoD 1 → 17 times (12.78 µs more)``."""
        return f"{label} {_times(self)}{_by(self.seconds)}"


# Launches under the profiler.


def launches_changed(head: Profile, reference: Profile, moved_s: float) -> list[Difference]:
    """Return kernels that only one side launches, as one difference; then common ones launched more often, and less often.

    ``moved_s``: seconds by which the whole call changed. A group below `TIMES_SHARE` of it is left out.
    """
    if not head.kernels or not reference.kernels:
        return []
    common = {kernel.function for kernel in head.kernels} & {kernel.function for kernel in reference.kernels}
    pairs = matched(head, reference)
    added = _unmatched(one for one, other in pairs if one and other is None)
    gone = _unmatched(other for one, other in pairs if other and one is None)
    other = LaunchGroup(*([spent for spent in side if spent.name not in common] for side in (added, gone)))
    more = LaunchGroup([spent for spent in added if spent.name in common], [])
    fewer = LaunchGroup([], [spent for spent in gone if spent.name in common])
    differences = []
    for group in (other, more, fewer):
        part = group.part(moved_s)
        if (group.added or group.gone) and (part is None or part >= at.TIMES_SHARE):
            differences.append(_difference(group, head, reference, part))
    return differences


@dataclass(frozen=True)
class LaunchGroup:
    """Launches that only one side has."""

    added: Sequence[LaunchTotal]
    gone: Sequence[LaunchTotal]

    @property
    def launches(self) -> int:
        """Number of launches that the head has more."""
        return sum(spent.launches for spent in self.added) - sum(spent.launches for spent in self.gone)

    @property
    def seconds(self) -> float | None:
        """Seconds by which they make the head slower, launching included; None where that is not known."""
        launching = LAUNCH_S * self.launches
        if any(spent.seconds is None for spent in (*self.added, *self.gone)):
            return launching or None
        return launching + _total(self.added) - _total(self.gone)

    def part(self, moved_s: float) -> float | None:
        """Return the part of the call's change that they explain, 0 to 1; None where that is not known."""
        if self.seconds is None:
            return None
        return min(1.0, abs(self.seconds) / moved_s) if moved_s else 0.0


def _difference(group: LaunchGroup, head: Profile, reference: Profile, part: float | None) -> Difference:
    before, count = len(reference.kernels), len(head.kernels)
    slower = (group.seconds or 0.0) > 0
    storm = max(count, before) >= at.MANY_LAUNCHES and max(count, before) >= at.STORM * min(count, before)
    repeated, sums = _repeated(group, reference, head), _sums(head, reference)
    names = repeated or replaced(group.gone, group.added)
    launched = f"Launches in a call {arrow(before, count)}{sums}: {names}."
    if count == before:
        launched = f"Launches in a call: {names}." if repeated else f"The head {names}{sums}."
    if repeated or (storm and group.launches):
        key, why, advice = "launches", STORM_WHY, STORM_ADVICE
    elif group.added and group.gone and (group.launches == 0 or slower == (group.launches < 0)):
        # More launches that are faster, or fewer that are slower: their number is not the reason.
        key, why, advice = "other kernels", REPLACED_WHY["slower" if slower else "faster"], REPLACED_ADVICE
    else:
        key, why, advice = "extra kernel" if group.launches else "other kernels", EXTRA_WHY, EXTRA_ADVICE
    effect: Effect | None = None if group.seconds is None else "slower" if slower else "faster"
    return Difference(key, launched, why, advice, effect, part or 0.0, LAUNCHES_RANK if group.launches else 0.5)


def _repeated(group: LaunchGroup, reference: Profile, head: Profile) -> str:
    """Return ``step 2 → 9 (140.0 µs more)``; empty where a name is on one side only."""
    before, after = (Counter(kernel.function for kernel in side.kernels) for side in (reference, head))
    spent = [*group.added, *group.gone]
    if not all(before[kernel.name] and after[kernel.name] for kernel in spent):
        return ""
    sign = 1 if group.added else -1
    return _some(
        [
            f"{kernel.name[:LONGEST_NAME]} {arrow(before[kernel.name], after[kernel.name])}{_by(sign * (kernel.seconds or 0.0))}"
            for kernel in spent
        ]
    )


def _by(seconds: float) -> str:
    """Return `` (140.0 µs more)``, or less for negative seconds; empty for 0."""
    return f" ({units.duration(abs(seconds))} {'more' if seconds > 0 else 'less'})" if seconds else ""


def short_kernels(profile: Profile) -> Finding | None:
    """Return the finding for kernels that take less time than their launch; None where they take longer."""
    times = [kernel.duration_s for kernel in profile.kernels if kernel.duration_s is not None]
    if not times or statistics.median(times) >= at.SHORT_KERNEL_S:
        return None
    many = len(times) >= at.MANY_LAUNCHES
    count = f"{len(times)} launches in a call take" if len(times) > 1 else "The kernel takes"
    return Finding(
        key="launches" if many else "launch-bound",
        what=f"{count} {units.duration(statistics.median(times))}{' each (median)' if len(times) > 1 else ''}:"
        " about what the launch itself takes.",
        why=STORM_WHY,
        advice=STORM_ADVICE,
        confidence="high" if many else "medium",
        weight=0.9 if many else 0.5,
    )


def call_seconds(profile: Profile) -> float | None:
    """Return the seconds of all launches with the cost of launching them; None where a launch has no duration."""
    kernels = seconds(profile.kernels)
    return None if kernels is None else kernels + LAUNCH_S * len(profile.kernels)


def seconds(kernels: Sequence[KernelProfile]) -> float | None:
    """Return the seconds of these launches together; None where one has no duration, or there is none."""
    times = [kernel.duration_s for kernel in kernels]
    return None if None in times or not times else sum(time for time in times if time is not None)


def _unmatched(kernels: Iterable[KernelProfile]) -> list[LaunchTotal]:
    by_name: dict[str, list[KernelProfile]] = {}
    for kernel in kernels:
        by_name.setdefault(kernel.function, []).append(kernel)
    return [LaunchTotal(name, seconds(launched), len(launched)) for name, launched in by_name.items()]


def _sums(head: Profile, reference: Profile) -> str:
    moved = [[kernel.dram_bytes for kernel in side.kernels] for side in (reference, head)]
    if any(None in side for side in moved):
        return ""
    return f", device memory {arrow(*(units.size(sum(size or 0 for size in side)) for side in moved))}"


# Traced times by name.


Timed = tuple[Performance | None, Performance | None]
"""The times of head and reference without a profiler."""


def on_cpu(activity: Activity) -> bool:
    """Return whether the times are of operators on the CPU."""
    operators_alone = activity.ran.keys() <= activity.cpu_s.keys()
    return activity.gaps_s is None and operators_alone and not (activity.launches or activity.copies_s)


def traced_times(
    head: Activity, reference: Activity, ratio: float | None, counted: Collection[str], timed: Timed = (None, None)
) -> list[Difference]:
    """Return differences of times by name.

    All names of one side only are one difference; then come common names that run more or less often, and those that got slower
    or faster.

    ``counted``: bare names of kernels that have counters, which say more. They are left out. On the CPU a tracer stretches short
    calls, and one process is slower than the next: there, the times count as far as they agree with ``timed``. How
    often an operator runs is exact, so it counts in any case.
    """
    after, before = _of_a_call(head), _of_a_call(reference)
    totals = _total(before.values()), _total(after.values())
    moved, scatter, believed = moved_s(*totals, ratio), 0.0, True
    if on_cpu(head) and timed[0] and timed[1]:
        head_s, reference_s = (side.median_time_ms / 1e3 for side in timed if side)
        moved = moved_s(reference_s, head_s, ratio)
        scatter = at.PROCESS_SPREADS * max(side.std_time_ms / side.median_time_ms for side in timed if side)
        stretched = totals[0] > at.STRETCHED * reference_s or totals[1] > at.STRETCHED * head_s
        believed = not stretched and abs(totals[1] - totals[0]) <= at.STRETCHED * moved
    after, before = ({name: kernel for name, kernel in side.items() if bare(name) not in counted} for side in (after, before))
    added = [kernel for name, kernel in after.items() if name not in before and kernel.seconds]
    gone = [kernel for name, kernel in before.items() if name not in after and kernel.seconds]
    net = _total(added) - _total(gone)
    differences = []
    if moved and abs(net) >= at.TIMES_SHARE * moved:
        effect: Effect = "slower" if net > 0 else "faster"
        why = REPLACED_WHY[effect] if added and gone else ADDED_WHY if added else REMOVED_WHY
        advice = REPLACED_ADVICE if gone else ADDED_ADVICE
        if not believed:
            gone, added = ([replace(kernel, seconds=None) for kernel in side] for side in (gone, added))
        what = f"In each call, the head {replaced(gone, added)}."
        differences.append(Difference("other kernels", what, why, advice, effect, min(1.0, abs(net) / moved), REPLACED_RANK))
    common = [LaunchChange(before[name], after[name]) for name in after if name in before]
    if not believed and ratio:
        differences += _counts_alone(common, "slower" if ratio > 1 else "faster")
    common = [both for both in common if believed and _is_apart(both, head, reference, scatter)]
    differences += _repeated_more_or_less(common, moved)
    times = {both.head.name: (both.reference.seconds or 0.0, both.head.seconds or 0.0) for both in common if not both.effect}
    return differences + same_name_times(times, moved)


def _is_apart(both: LaunchChange, head: Activity, reference: Activity, scatter: float) -> bool:
    """Return whether the times of a name differ by more than those of calls do, and by more than those of processes.

    ``scatter``: part of the time by which processes differ.
    """
    if abs(both.seconds) <= scatter * max(both.head.seconds or 0.0, both.reference.seconds or 0.0):
        return False
    ours, theirs = head.per_call.get(both.head.name), reference.per_call.get(both.head.name)
    if ours is None or theirs is None:
        return not on_cpu(head)
    return ours[0] > theirs[1] or ours[1] < theirs[0]


def _repeated_more_or_less(common: Sequence[LaunchChange], moved: float) -> Iterator[Difference]:
    """Yield the names that the head runs more often as one difference, and those that it runs less often as another."""
    for effect in EFFECTS:
        repeated = sorted((both for both in common if both.effect == effect), key=lambda both: -abs(both.seconds))
        total = sum(abs(both.seconds) for both in repeated)
        if not moved or total < at.TIMES_SHARE * moved:
            continue
        labels = _labels([both.head.name for both in repeated])
        what = f"Each call runs {_first_ones([both.text(labels[both.head.name]) for both in repeated])}."
        why, advice = _OFTEN[effect]
        yield Difference("extra kernel", what, why, advice, effect, min(1.0, total / moved), REPLACED_RANK)


def _counts_alone(common: Sequence[LaunchChange], effect: Effect) -> Iterator[Difference]:
    """Yield operators that run more often in a slower head, or less often in a faster one, without times."""
    way = 1 if effect == "slower" else -1
    changed = [both for both in common if way * (both.head.launches - both.reference.launches) > 0]
    if changed:
        ordered = sorted(changed, key=lambda both: -abs(both.head.launches - both.reference.launches))
        what = f"Each call runs {_first_ones([f'{each.head.name} {_times(each)}' for each in ordered])}."
        why, advice = _OFTEN[effect]
        yield Difference("extra kernel", what, why, advice, effect, at.TIMES_SHARE, REPLACED_RANK)


def _times(both: LaunchChange) -> str:
    return f"{arrow(both.reference.launches, both.head.launches)} times"


def moved_s(before: float, after: float, ratio: float | None) -> float:
    """Return the seconds by which the call changed, by the benchmark's ratio where that is known."""
    return abs(after - before) if ratio is None else abs(ratio - 1) * before


def same_name_times(common: Mapping[str, tuple[float, float]], moved: float, when: str = "") -> list[Difference]:
    """Return the names of both sides that got slower as one difference, and those that got faster as another.

    ``common``: name → seconds before and after. ``moved``: seconds by which the whole call changed; a difference below
    `TIMES_SHARE` of it is left out. ``when``: the end of the sentence.
    """
    differences = []
    for effect in EFFECTS:
        sign = 1 if effect == "slower" else -1
        moves = {name: sign * (after - before) for name, (before, after) in common.items()}
        noticed = {name: move for name, move in moves.items() if move > (at.SAME_TRACED - 1) * max(common[name])}
        total = sum(noticed.values())
        if not moved or total < at.TIMES_SHARE * moved:
            continue
        longest = sorted(noticed, key=lambda name: -noticed[name])
        labels = _labels([*longest])
        shown = _first_ones([f"{labels[name]} ({arrow(*map(units.duration, common[name]))})" for name in longest])
        differences.append(
            Difference(
                f"{effect} kernels",
                f"Each call spends {'more' if effect == 'slower' else 'less'} in {shown}{when}.",
                SAME_NAME_WHY,
                SAME_NAME_ADVICE,
                effect,
                min(1.0, total / moved),
                SAME_NAME_RANK,
            )
        )
    return differences


def replaced(gone: Sequence[LaunchTotal], added: Sequence[LaunchTotal]) -> str:
    """Return ``replaced softmax (349.8 µs) by my_kernel (1.200 ms)``; ``added …`` or ``removed …`` where one list is empty."""
    labels = _labels([kernel.name for kernel in (*gone, *added)])
    if gone and added:
        return f"replaced {_listed(gone, labels)} by {_listed(added, labels)}"
    return f"added {_listed(added, labels)}" if added else f"removed {_listed(gone, labels)}"


def _listed(spent: Sequence[LaunchTotal], labels: Mapping[str, str]) -> str:
    """List names with their times, the longest first."""
    ordered = sorted(spent, key=lambda kernel: (-(kernel.seconds or 0.0), -kernel.launches))
    shown = []
    for kernel in ordered:
        count = f" ×{kernel.launches}" if kernel.launches > 1 else ""
        time = f" ({units.duration(kernel.seconds)})" if kernel.seconds else ""
        shown.append(f"{labels[kernel.name]}{count}{time}")
    return _some(shown)


def _first_ones(texts: Sequence[str]) -> str:
    """Return ``a; also b, c, and more``: a headline shows what comes before the semicolon."""
    first, *others = texts
    return f"{first}; also {_some(others, NAMES_SHOWN - 1)}" if others else first


def _some(texts: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """Return ``a, b, c, and more``."""
    return ", ".join([*texts[:most], "and more"] if len(texts) > most else texts)


def _total(launches: Iterable[LaunchTotal]) -> float:
    """Return the seconds of these launches together, as far as they are known."""
    return sum(spent.seconds or 0.0 for spent in launches)


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return short names; where two are alike, as much of the whole names as there is room for."""
    short = {name: bare(name) if "(" in name else name for name in names}
    taken = list(short.values())
    return {name: (label if taken.count(label) == 1 else name)[:LONGEST_NAME] for name, label in short.items()}


def _of_a_call(activity: Activity) -> dict[str, LaunchTotal]:
    """Return the kernels and copies of one call, by name."""
    calls = max(1, activity.calls)
    times = {**activity.kernels, **activity.copies}
    return {
        name: LaunchTotal(name, time / calls, max(1, round(activity.ran.get(name, 0) / calls))) for name, time in times.items()
    }


# What a trace shows of the host: launches, gaps, copies from pageable memory, allocations.


@dataclass(frozen=True)
class Cost:
    """The cost of one thing in a call."""

    seconds: float
    """On the clock, for each call; 0 where it is only counted."""
    figure: str
    noteworthy: bool
    count: float | None = None
    """How many there are in a call, where they can be counted: more of them cannot make a call faster."""


@dataclass(frozen=True)
class TraceRule:
    """A cost that one side has, or that differs between the sides. `RULES` maps the function that finds it to its rule."""

    key: str
    subject: str
    rank: float
    why: str
    advice: str
    sure: Confidence = "medium"


def pageable(activity: Activity) -> Cost | None:
    """Return the cost of copies from or to host memory that is not pinned."""
    count, per_call = activity.pageable_copies / activity.calls, activity.copies_s / activity.calls
    return Cost(per_call if count else 0.0, f"{count:.3g} in a call" if count else "none", count > 0, count)


def allocation(activity: Activity) -> Cost | None:
    """Return the CPU time in allocations."""
    per_call = activity.allocation_s / activity.calls
    return Cost(per_call, f"{units.duration(per_call)} in a call", activity.allocation_s >= at.ALLOCATION_SHARE * activity.wall_s)


def gaps(activity: Activity) -> Cost | None:
    """Return the time in which the device is idle between kernels; None where the trace does not say."""
    if activity.gaps_s is None:
        return None
    per_call, share = activity.gaps_s / activity.calls, activity.gaps_s / activity.wall_s
    return Cost(per_call, f"{units.duration(per_call)} in a call ({units.percent(share)})", share >= at.GAP_SHARE)


def launches(activity: Activity) -> Cost | None:
    """Return the cost of launching: each counts as `SHORT_KERNEL_S`, together never more than the call."""
    count = activity.launches / activity.calls
    device_s = sum(activity.kernels.values())
    short = activity.launches > 0 and device_s / activity.launches < at.SHORT_KERNEL_S
    each_s = min(activity.wall_s / activity.calls, count * at.SHORT_KERNEL_S)
    return Cost(each_s, f"{count:.3g} in a call", short and count >= at.MANY_LAUNCHES, count)


RULES = {
    pageable: TraceRule("pageable copies", "Copies to or from host memory that is not pinned", 0.97,
              "The driver first copies pageable memory into a pinned buffer of its own, and the call waits for that.",
              "Allocate the host side with pin_memory=True and copy with non_blocking=True; reuse the buffer.", "high"),
    launches: TraceRule("launches", "Launches", 0.9,
              "Every launch costs the host microseconds; where kernels are short, the GPU waits for the next one.",
              "Do the work in one launch (batch, fuse), or capture the calls in a CUDA graph."),
    allocation: TraceRule("allocation", "CPU time in allocations", 0.8,
              "An allocation that the cache of the allocator cannot serve stops the host, and often the device.",
              "Allocate outputs and scratch once, and write into them (out=, copy_)."),
    gaps: TraceRule("gaps", "Device idle between kernels", 0.7,
              "While the device is idle, the host is preparing the next launch or waiting for something.",
              "Remove synchronisation (.item(), .cpu(), print), launch less, or capture the calls in a CUDA graph."),
}  # fmt: skip


def trace_changes(head: Activity, reference: Activity, ratio: float | None) -> list[Difference]:
    """Return costs that differ between the sides. ``ratio``: head time / reference time of the case."""
    if not all(side.calls and side.wall_s > 0 for side in (head, reference)):
        return []
    moved = moved_s(reference.wall_s / reference.calls, head.wall_s / head.calls, ratio)
    return [difference for cost, rule in RULES.items() if (difference := _changed(rule, cost(head), cost(reference), moved))]


def standing_costs(head: Activity) -> list[Finding]:
    """Return costs that stand out in the head, whatever the reference does."""
    if not head.calls or head.wall_s <= 0:
        return []
    return [finding for cost, rule in RULES.items() if (finding := _standing(rule, cost(head), head))]


def _changed(rule: TraceRule, after: Cost | None, before: Cost | None, moved: float) -> Difference | None:
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
    part = min(1.0, abs(cost) / moved) if moved else 0.0
    if part < at.TIMES_SHARE:
        return None
    what = f"{rule.subject}: {arrow(before.figure, after.figure)}."
    return Difference(rule.key, what, rule.why, rule.advice, "slower" if cost > 0 else "faster", part, rule.rank)


def _standing(rule: TraceRule, cost: Cost | None, head: Activity) -> Finding | None:
    if cost is None or not cost.noteworthy:
        return None
    return Finding(
        key=rule.key,
        what=f"{rule.subject}: {cost.figure}.",
        why=rule.why,
        advice=rule.advice,
        confidence=rule.sure,
        weight=0.99 * rule.rank * min(1.0, cost.seconds / (head.wall_s / head.calls)),
    )
