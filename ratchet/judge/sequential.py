"""The sequential rule: at how many pairs a case is looked at, and which cases are worth more pairs.

``ratchet check`` asks between rounds which cases are still `undecided`, which are `urgent` once the time is over, and which
`suspects` to measure against the best commit. Pure: the caller measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet.judge.drift import Drift, is_own, may_add_up
from ratchet.judge.outcome import CHANGE_PAIRS, CaseThresholds, compared, decide, thresholds_for, with_persistence
from ratchet.records.run import SESSION_PAIRS, CaseRun, Policy
from ratchet.records.verdict import Comparison, Outcome

LOOKS = (6, SESSION_PAIRS, 12, CHANGE_PAIRS, 28, 40, 64, 100)
"""Numbers of pairs at which every case is looked at: few looks, since false alarms are shared among them."""
MOST_URGENT = 3
"""Cases that are measured further when the time is over: one of them is enough to make the run red."""
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
    """Return the names of the few cases that look slowest and lack the pairs to prove it: a budget must not hide a regression.

    One of them suffices to make the run red, so the others may end without proof.
    """
    comparisons = _comparisons(cases, policy)
    suspects = {
        name: comparison.low
        for name, comparison in comparisons.items()
        if comparison and comparison.pairs < min(CHANGE_PAIRS, pairs)
        if comparison.low > 1 and comparison.ratio > 1 + policy.regression
    }
    return sorted(suspects, key=lambda name: suspects[name], reverse=True)[:MOST_URGENT]


def _comparisons(cases: Sequence[CaseRun], policy: Policy) -> dict[str, Comparison | None]:
    """Compare each case that has a reference; None where there are too few pairs."""
    return {case.name: compared(case, policy.confidence) for case in cases if case.reference}


def thresholds_of_run(comparisons: Mapping[str, Comparison | None], policy: Policy, pairs: int) -> CaseThresholds:
    """Return the thresholds for each of these cases, if each may take up to ``pairs`` pairs."""
    return with_persistence(thresholds_for(policy, len(comparisons), looks_for_change(pairs)), comparisons.values())


def is_decided(comparison: Comparison, thresholds: CaseThresholds, drift: Drift | None = None) -> bool:
    """Return whether more pairs would be a waste."""
    outcome, _ = decide(comparison, thresholds)
    if outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        return True
    may_improve = comparison.ratio <= 1 - thresholds.policy.improvement
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
