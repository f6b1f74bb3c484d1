"""The sequential rule: at how many pairs a case is looked at, and which cases are worth more pairs. Also many small slowdowns.

``ratchet check`` asks between rounds which cases are still `undecided`, which are `urgent` once the time is over, which
`look_changed` so that hosts are started anew, whose kernels need no more timing (`kernels_unchanged`), of which more processes
are looked at (`open_totals`), and which `suspects` to measure against the best commit. Pure: the caller measures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet import units
from ratchet.judge.outcome import (
    CHANGE_PAIRS,
    TOTAL_DOUBTFUL,
    CaseThresholds,
    Judgement,
    compared,
    decide,
    sessions_needed,
    sessions_of,
    thresholds_for,
    with_persistence,
)
from ratchet.records.baseline import BaselineEntry
from ratchet.records.run import FIRST_SESSION, CaseRun, Policy, Tree
from ratchet.records.verdict import Comparison, Outcome, Total
from ratchet.stats.comparison import compare_kernels

LOOKS = (6, FIRST_SESSION, 12, CHANGE_PAIRS, 28, 40, 64, 100)
"""Numbers of pairs at which every case is looked at: few looks, since false alarms are shared among them."""
MOST_URGENT = 3
"""Cases of each direction that are measured further when the time is over."""
PROCESSES = (40, 80, 160)
"""Numbers of processes of each side, light ones included, at which the total of an unchanged case is looked at: of code that is slow
in one process of ten, 40 hold none with a probability of 1.5 %, of one in five, 0.01 %."""
OPEN_LEVELS = (0.5, 0.3, 0.0)
"""p-values up to which a total that looks slower is looked at further."""
LATER = 1.4
"""Growth of the pairs from look to look beyond `LOOKS`."""


def looks(pairs: int) -> tuple[int, ...]:
    """Return the numbers of pairs at which a case is looked at, if at most ``pairs`` are taken: the last one is ``pairs``."""
    numbers = list(LOOKS)
    while numbers[-1] < pairs:
        numbers.append(2 * round(LATER * numbers[-1] / 2))
    return (*(number for number in numbers if number < pairs), pairs)


def looks_for_change(pairs: int) -> int:
    """Count the looks at which a case may be called changed: its false alarms are shared among them."""
    return max(1, sum(1 for number in looks(pairs) if number >= CHANGE_PAIRS))


def undecided(cases: Sequence[CaseRun], policy: Policy, pairs: int, drifts: Mapping[str, Drift] | None = None) -> set[str]:
    """Return the names of the cases that more pairs could still decide; a case without a reference is never among them.

    ``drifts`` has the cases whose reference is not the best commit of the baseline: there a small slowdown matters too.
    """
    comparisons = _comparisons(cases, policy)
    thresholds = thresholds_of_run(comparisons, policy, pairs)
    return {
        name
        for name, comparison in comparisons.items()
        if comparison is None or not is_decided(comparison, thresholds, (drifts or {}).get(name))
    }


def urgent(cases: Sequence[CaseRun], policy: Policy, pairs: int) -> list[str]:
    """Return the names of the few cases that look slowest, and of those that look fastest, and lack the pairs to prove it.

    A budget must not hide a regression, of which one makes the run red, nor keep the baseline where it is.
    """
    needed = sessions_needed(policy, sum(1 for case in cases if case.reference))
    enough = next((number for number in looks(pairs) if number >= CHANGE_PAIRS and sessions_of(number) >= needed), pairs)
    unproven = {name: one for name, one in _seem_changed(cases, policy).items() if one.pairs < enough}
    slower = sorted((name for name, one in unproven.items() if one.low > 1), key=lambda name: unproven[name].low, reverse=True)
    faster = sorted((name for name, one in unproven.items() if one.high < 1), key=lambda name: unproven[name].high)
    return [*slower[:MOST_URGENT], *faster[:MOST_URGENT]]


def kernels_unchanged(cases: Sequence[CaseRun], policy: Policy, pairs: int) -> set[str]:
    """Return the names of the cases whose kernels, timed alone, are known not to be slower past the gate.

    They are as sure of it as a case that is UNCHANGED, so timing them again would tell nothing new.
    """
    thresholds = thresholds_for(policy, len(cases), looks_for_change(pairs))
    kernels = {case.name: compare_kernels(case.head, case.reference, policy.confidence) for case in cases}
    enough = {name: one for name, one in kernels.items() if one and one.pairs >= LOOKS[0]}
    return {name for name, one in enough.items() if decide(one, thresholds)[0] is Outcome.UNCHANGED}


def likely_changed(cases: Sequence[CaseRun], policy: Policy) -> list[str]:
    """Return the names of the cases whose interval and estimate already speak of a change, the largest change first.

    This is no verdict, which takes more pairs; it says for which cases a profile is worth preparing.
    """
    changed = _seem_changed(cases, policy)
    return sorted(changed, key=lambda name: abs(math.log(changed[name].ratio)), reverse=True)


def look_changed(cases: Sequence[CaseRun], policy: Policy) -> list[str]:
    """Return the names of the cases whose estimate speaks of a change: only hosts that are started anew can prove it."""
    found = []
    for name, one in _comparisons(cases, policy).items():
        kernels = next(
            (compare_kernels(case.head, case.reference, policy.confidence) for case in cases if case.name == name), None
        )
        slower = max((each.ratio for each in (one, one and one.total, kernels) if each), default=1.0)
        if slower > 1 + policy.regression or (one and one.ratio <= 1 - policy.improvement):
            found.append(name)
    return found


def open_totals(cases: Sequence[CaseRun], policy: Policy, pairs: int, look: int) -> set[str]:
    """Return the names of the cases that need ``PROCESSES[look]`` processes: unchanged so far, and perhaps slow now and then."""
    comparisons = _comparisons(cases, policy)
    thresholds = thresholds_of_run(comparisons, policy, pairs)
    found = set()
    for name, comparison in comparisons.items():
        total = comparison.total if comparison else None
        if comparison is None or total is None or total.processes >= PROCESSES[look]:
            continue
        outcome, _ = decide(comparison, thresholds)
        is_open = look == 0 or (_looks_slow(total, policy) and total.chance <= OPEN_LEVELS[look - 1])
        if is_open and outcome in (Outcome.UNCHANGED, Outcome.INCONCLUSIVE) and comparison.surely_below < 1 + policy.regression:
            found.add(name)
    return found


def _looks_slow(total: Total, policy: Policy) -> bool:
    ours, theirs = total.slow_processes
    return total.ratio > 1 + policy.regression or ours > theirs


def _seem_changed(cases: Sequence[CaseRun], policy: Policy) -> dict[str, Comparison]:
    """Return the comparisons whose interval and estimate speak of a change that would matter, proven or not."""
    return {
        name: comparison
        for name, comparison in _comparisons(cases, policy).items()
        if comparison
        if any(one.low > 1 and one.ratio >= 1 + policy.regression for one in (comparison, comparison.total) if one)
        or (comparison.high < 1 and comparison.ratio <= 1 - policy.improvement)
    }


def _comparisons(cases: Sequence[CaseRun], policy: Policy) -> dict[str, Comparison | None]:
    """Compare each case that has a reference; None where there are too few pairs."""
    return {case.name: compared(case, policy.confidence) for case in cases if case.reference}


def thresholds_of_run(comparisons: Mapping[str, Comparison | None], policy: Policy, pairs: int) -> CaseThresholds:
    """Return the thresholds for each of these cases, if each may take up to ``pairs`` pairs."""
    return with_persistence(thresholds_for(policy, len(comparisons), looks_for_change(pairs)), comparisons.values())


def is_decided(comparison: Comparison, thresholds: CaseThresholds, drift: Drift | None) -> bool:
    """Return whether more pairs would be a waste."""
    outcome, _ = decide(comparison, thresholds)
    if outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        return True
    may_improve = comparison.ratio <= 1 - thresholds.policy.improvement
    total, past_gate = comparison.total, 1 + thresholds.policy.regression
    if total and total.ratio > past_gate and total.chance <= TOTAL_DOUBTFUL:
        return False  # calls that are slow now and then show in pairs as they are
    open_part = drift is not None and not is_own(comparison) and may_add_up(comparison, drift, thresholds.policy)
    return outcome is Outcome.UNCHANGED and not (may_improve or open_part)


def suspects(cases: Sequence[CaseRun], policy: Policy, pairs: int, drifts: Mapping[str, Drift]) -> dict[str, list[str]]:
    """Map each best commit to the cases to measure against it: this change and earlier ones may together be past the gate."""
    comparisons = {case.name: compared(case, policy.confidence) for case in cases if case.head and case.reference}
    thresholds = thresholds_of_run(comparisons, policy, pairs)
    listed: dict[str, list[str]] = {}
    for name, comparison in comparisons.items():
        drift = drifts.get(name)
        if drift is None or comparison is None or decide(comparison, thresholds)[0] is Outcome.REGRESSED:
            continue
        if is_own(comparison) and may_add_up(comparison, drift, policy):
            listed.setdefault(drift.best, []).append(name)
    return listed


# Many small slowdowns: a change is held to the best commit of the baseline too, but only for a part that is its own. ``ratchet
# check`` asks which cases may have drifted (`drifting`) and which best commits to measure (`by_commit`).

# All four are choices; what happens at half and at double of the first three stands in docs/decisions/0003-rule.md.
NEAR = 0.8
"""Share of the gate that the known drift and this change must reach, for the best commit to be worth measuring against."""
OWN_LEVEL = 0.005
"""p-value up to which a slowdown is attributed to this change, at each look."""
OWN_PAIRS = 40
"""Pairs after which no more are measured to find out whether a slowdown is this change's own."""
POOLED = 3
"""Latest measurements of main against its best commit that are pooled."""


@dataclass(frozen=True)
class Drift:
    """The distance of main from the best commit of a case, as far as the baseline file knows it."""

    best: str
    """The best commit."""
    ratio: float | None
    """Time of main / time of the best commit, pooled over the latest merges; None where no merge was measured against it."""


def drifting(stored: Mapping[str, BaselineEntry], reference: Tree, head: Tree) -> dict[str, Drift]:
    """Return the cases whose best commit is neither side of this run: slowdowns since then may have added up."""
    sides = (reference.commit, head.commit)
    return {name: Drift(entry.git_commit, pooled(entry)) for name, entry in stored.items() if entry.git_commit not in sides}


def pooled(entry: BaselineEntry) -> float | None:
    """Return time of main / time of the best commit: of the newest merge, or the mean of the newest three if that is higher."""
    logs = [math.log(merge.measurement.ratio) for merge in entry.merges[-POOLED:]]
    return math.exp(max(logs[-1], statistics.fmean(logs))) if logs else None


def may_add_up(own: Comparison, drift: Drift, policy: Policy) -> bool:
    """Return whether a case should be held to the best commit: this change slows it, and that may make it past the gate in all.

    Where nothing is known of the drift, a quarter of the gate from this change is what makes it worth looking.
    """
    if drift.ratio is None:
        near = own.ratio >= 1 + policy.part
    else:
        near = own.ratio > 1 and drift.ratio * own.ratio >= 1 + NEAR * policy.regression
    return near and (own.chance <= OWN_LEVEL or (own.chance < 0.5 and own.pairs < OWN_PAIRS))


def is_own(own: Comparison) -> bool:
    """Return whether this change is slower by itself, by however little."""
    return own.ratio > 1 and own.chance <= OWN_LEVEL


def by_commit(names: Sequence[str], stored: Mapping[str, BaselineEntry]) -> dict[str, list[str]]:
    """Map each baseline commit to its cases among ``names``, the commit of most cases first.

    Cases without a baseline commit join the first group. Empty where no case has one.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        if name in stored:
            groups.setdefault(stored[name].git_commit, []).append(name)
    ordered = dict(sorted(groups.items(), key=lambda item: -len(item[1])))
    for first in list(ordered.values())[:1]:
        first += [name for name in names if name not in stored]
    return ordered


def held_to_best(finding: Judgement, best: Comparison, tree: Tree, thresholds: CaseThresholds) -> Judgement:
    """Return the finding, turned red where the head is past the gate against the best commit and this change has a part in it."""
    outcome, _, own = finding
    if own is None or outcome not in (Outcome.UNCHANGED, Outcome.INCONCLUSIVE):
        return finding
    if not is_own(own) or decide(best, thresholds)[0] is not Outcome.REGRESSED:
        return finding
    here, whole = units.percent(own.ratio - 1, 2), units.percent(best.ratio - 1, 2)
    gate = units.threshold(thresholds.policy.regression)
    reason = (
        f"Slower by {here} here, which makes it {whole} slower than the best commit {tree.commit[:10]}: past the gate of {gate}."
    )
    return Outcome.REGRESSED, reason, own
