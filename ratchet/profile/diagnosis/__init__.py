"""What a profile shows, or what differs between two: sentences for people. Pure."""

from __future__ import annotations

from ratchet.judge.matching import matched
from ratchet.profile.diagnosis.activity import trace_findings
from ratchet.profile.diagnosis.launches import launches_changed, seconds, short_kernels
from ratchet.profile.diagnosis.rule import Pair, changed, standing
from ratchet.profile.diagnosis.table import CHANGES, STATES, SUBSUMED
from ratchet.records.profile import Finding, KernelProfile, Profile

SMALLEST_SHARE = 0.05
"""A kernel with less of the call's time, or of its change, is not worth a sentence."""


def diagnose(head: Profile, reference: Profile | None = None) -> tuple[Finding, ...]:
    """Findings, the weightiest first: what changed has weights from 1 to 2, what only stands out in the head less than 1.

    Launches are matched by name and order. A figure that a profile does not have triggers nothing.
    """
    found = _changes(head, reference) if reference is not None else []
    found += _standing(head)
    if head.activity is not None:
        found += trace_findings(head.activity, reference.activity if reference is not None else None)
    found.sort(key=lambda finding: -finding.weight)
    return tuple(_without_repeats(found))


def _changes(head: Profile, reference: Profile) -> list[Finding]:
    pairs = [(one, other) for one, other in matched(head, reference) if one is not None and other is not None]
    launched = launches_changed(head, reference)
    found = [launched] if launched else []
    for one, other in pairs:
        share = _share_of_change(one, other, head, reference)
        if share >= SMALLEST_SHARE:
            seen = (changed(rule, Pair(one, other, share)) for rule in CHANGES)
            found += [finding for finding in seen if finding]
    return found


def _share_of_change(one: KernelProfile, other: KernelProfile, head: Profile, reference: Profile) -> float:
    """Of the change of all launches together, 0 to 1; 1 where times are not known."""
    after, before = seconds(head), seconds(reference)
    if after is None or before is None or one.duration_s is None or other.duration_s is None:
        return 1.0
    if len(head.kernels) == len(reference.kernels) == 1:
        return 1.0
    if abs(after - before) <= 0.01 * before:  # nothing to share out: by the time of the launch
        return one.duration_s / after
    return min(1.0, max(0.0, (one.duration_s - other.duration_s) / (after - before)))


def _standing(head: Profile) -> list[Finding]:
    total = seconds(head)
    launched = short_kernels(head)
    found = [launched] if launched else []
    for kernel in head.kernels:
        share = kernel.duration_s / total if total and kernel.duration_s else 1 / len(head.kernels)
        if share >= SMALLEST_SHARE:
            seen = (standing(rule, kernel, share) for rule in STATES)
            found += [finding for finding in seen if finding]
    return found


def _without_repeats(found: list[Finding]) -> list[Finding]:
    """Each key once (the weightiest), and nothing that follows from a weightier finding of the same kernel."""
    kept: list[Finding] = []
    for finding in found:
        said = any(finding.key == other.key for other in kept)
        follows = any(finding.key in SUBSUMED.get(other.key, ()) and other.kernel in (finding.kernel, None) for other in kept)
        if not (said or follows):
            kept.append(finding)
    return kept
