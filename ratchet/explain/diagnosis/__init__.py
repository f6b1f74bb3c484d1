"""Find what a profile shows, or what differs between two, as sentences for people. Pure.

`ratchet.explain` calls `diagnose`, which applies the rules of all themes (`throughput`, `occupancy`, `traced`),
ranks what they found and drops what only follows from something else. docs/profiling.md explains the method.
"""

from __future__ import annotations

from collections.abc import Callable

from ratchet.common.launch_pairs import matched
from ratchet.core.records.profile import Finding, KernelProfile, Profile
from ratchet.explain.diagnosis import occupancy, throughput
from ratchet.explain.diagnosis.rule import Cause, Change, Difference, LaunchPair, State, changed, direction_of, judged, standing
from ratchet.explain.diagnosis.traced import (
    Timed,
    call_seconds,
    costs_changed,
    kernel_seconds,
    launches_changed,
    on_cpu,
    short_kernels,
    standing_costs,
)

CHANGES: tuple[Callable[[LaunchPair], Change | None], ...] = (*throughput.CHANGES, *occupancy.CHANGES)
STATES: tuple[Callable[[KernelProfile], State | None], ...] = (*throughput.STATES, *occupancy.STATES)
HIDES: dict[str, tuple[str, ...]] = {
    cause.key: cause.hides for theme in (throughput, occupancy) for cause in vars(theme).values() if isinstance(cause, Cause)
}
"""Key → keys that follow from it."""
SMALLEST_SHARE = 0.05
"""A kernel with a smaller share of the call's time, or of its change, is not worth a sentence."""
SAME_CALL = 0.01
"""Without a benchmark's ratio, calls whose profiled times differ by a smaller part have no direction."""


def diagnose(
    head: Profile, reference: Profile | None = None, ratio: float | None = None, timed: Timed = (None, None)
) -> tuple[Finding, ...]:
    """Return findings: what explains the change of the case, the weightiest first; what stands out in the head; then the rest.

    ``ratio`` is head time / reference time as the benchmark measured it; without one, the profiles themselves say which way
    the head went. ``timed``, where it is known: a time on the CPU under the profiler that it contradicts is named for nothing.
    Launches are matched by name and order. A figure that a profile does not have triggers nothing.
    """
    findings = _standing(head)
    if reference is not None:
        ratio = ratio or _own_ratio(head, reference)
        direction = direction_of(ratio)
        findings += [judged(difference, direction) for difference in _differences(head, reference, ratio, timed)]
    findings.sort(key=lambda finding: (_is_against(finding), -finding.weight))
    return tuple(_without_repeats(findings))


def _is_against(finding: Finding) -> bool:
    return finding.effect is not None and finding.weight < 1


def _own_ratio(head: Profile, reference: Profile) -> float | None:
    """Return head time / reference time of the launches, else of the traced calls; None where they are about equal."""
    after, before = call_seconds(head), call_seconds(reference)
    if (after is None or before is None) and head.activity and reference.activity:
        one, other = head.activity, reference.activity
        after, before = one.wall_s / max(1, one.calls), other.wall_s / max(1, other.calls)
    if not after or not before or abs(after / before - 1) <= SAME_CALL:
        return None
    return after / before


def _differences(head: Profile, reference: Profile, ratio: float | None, timed: Timed) -> list[Difference]:
    differences: list[Difference] = []
    for one, other in matched(head, reference):
        if one is not None and other is not None and (share := _share_of_change(one, other, head, reference)) >= SMALLEST_SHARE:
            pair = LaunchPair(one, other, share)
            differences += [difference for find in CHANGES if (difference := changed(find(pair), pair))]
    explained = {difference.kernel for difference in differences if difference.kernel}
    ours, theirs = head.activity, reference.activity
    if (ours and theirs) or (head.kernels and reference.kernels):
        differences += launches_changed(head, reference, ratio, timed, explained)
    if ours and theirs and not (on_cpu(ours) and on_cpu(theirs)):
        differences += costs_changed(ours, theirs, ratio)
    return differences


def _share_of_change(one: KernelProfile, other: KernelProfile, head: Profile, reference: Profile) -> float:
    """Return this launch's part of the change of all launches in its direction: 0 to 1; 1 where times are not known."""
    after, before = kernel_seconds(head), kernel_seconds(reference)
    if after is None or before is None or one.duration_s is None or other.duration_s is None:
        return 1.0
    if len(head.kernels) == len(reference.kernels) == 1:
        return 1.0
    move, change = one.duration_s - other.duration_s, after - before
    if abs(change) <= SAME_CALL * before:  # no change to share out: by the time of the launch
        return one.duration_s / after
    if move * change >= 0:
        return min(1.0, move / change)
    return min(1.0, abs(move) / (abs(change) + abs(move)))


def _standing(head: Profile) -> list[Finding]:
    total = kernel_seconds(head)
    findings = list(short_kernels(head))
    for kernel in head.kernels:
        share = kernel.duration_s / total if total and kernel.duration_s else 1 / len(head.kernels)
        if share >= SMALLEST_SHARE:
            findings += [standing(state, share, kernel.function) for find in STATES if (state := find(kernel))]
    return findings + (list(standing_costs(head.activity)) if head.activity is not None else [])


def _without_repeats(findings: list[Finding]) -> list[Finding]:
    """Keep each key once for each effect (the weightiest), and nothing that follows from a kept finding of the same kernel."""
    kept: list[Finding] = []
    for finding in findings:
        repeated = any(finding.key == other.key and finding.effect in (None, other.effect) for other in kept)
        follows = any(
            finding.key in HIDES.get(other.key, ()) and other.kernel in (finding.kernel, None) for other in kept
        ) and not _is_against(finding)
        if not (repeated or follows):
            kept.append(finding)
    return kept
