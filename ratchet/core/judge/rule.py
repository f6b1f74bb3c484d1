"""When a measurement is over: what the one loop asks after each look, about all cases as they were measured so far. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ratchet.core.judge.comparison import compare_kernels
from ratchet.core.judge.drift import Drift, is_significant_alone, needs_best_comparison
from ratchet.core.judge.estimate import share_bounds
from ratchet.core.judge.evidence import CHANGE_PAIRS, CaseThresholds, thresholds_for, with_persistence
from ratchet.core.judge.outcome import TOTAL_DOUBTFUL, compared, decide, over_limit
from ratchet.core.records.run import FIRST_SESSION, CaseRun, Policy
from ratchet.core.records.verdict import SLOWDOWNS, Comparison, Outcome


class Rule:
    """Take ``looks[0]`` pairs of every case and no more. Subclasses go on while they have a reason."""

    processes: tuple[int, ...] = ()
    """Numbers of processes of each side at which the totals of unchanged cases are looked at."""

    def __init__(self, looks: tuple[int, ...], policy: Policy | None = None) -> None:
        """``looks``: numbers of pairs after which the rule is asked; the last one is the most that are measured.

        ``policy``: the limits of which a case beyond one is not timed.
        """
        self.looks, self.limits = looks, policy

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the names of the cases that more pairs could still decide."""
        return ()

    def urgent(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the undecided cases that go on although the budget is spent."""
        return ()

    def changed(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the cases that look changed: only processes of other hosts can prove it."""
        return ()

    def kernels_settled(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the host-bound cases whose kernels need not be timed alone any more."""
        return ()

    def totals(self, cases: Sequence[CaseRun], look: int) -> Collection[str]:
        """Return the cases that need ``processes[look]`` processes."""
        return ()

    def is_known(self, case: CaseRun) -> bool:
        """Return whether a case need not be timed, because its code is known or it has failed already."""
        return self.limits is not None and over_limit(case, self.limits) is not None


class EveryPair(Rule):
    """Take every pair of every case that has a reference, until the time is over."""

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return [case.name for case in cases if case.reference]


LOOKS = (6, FIRST_SESSION, 12, CHANGE_PAIRS, 26, 40, 64, 100)
"""Numbers of pairs at which every case is looked at: few looks, since false alarms are shared among them."""
MOST_URGENT = 3
"""Cases of each direction that are measured further when the time is over."""
PROCESSES = (60, 120, 180, 240)
"""Numbers of processes of each side, light ones included, at which the total of an unchanged case is looked at.

Of code that is slow in one process of ten, 60 hold none with a probability of 0.2 %."""
OPEN_LEVELS = (0.5, 0.3, 0.1)
"""p-values up to which a total that looks slower is looked at at the second of these numbers, at the third and at the fourth."""
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


def first_look_for_change(thresholds: CaseThresholds, pairs: int) -> int:
    """Return the number of pairs at which a case may first be called changed; ``pairs`` where that would take more."""
    return next((number for number in looks(pairs) if number >= thresholds.pairs_needed), pairs)


def likely_changed(cases: Sequence[CaseRun], policy: Policy) -> list[str]:
    """Return the names of the cases whose interval and estimate already speak of a change, the largest change first.

    This is no verdict, which takes more pairs; it says for which cases a profile is worth preparing.
    """
    changed = _seem_changed(_comparisons(cases, policy), policy)
    return sorted(changed, key=lambda name: abs(math.log(changed[name].ratio)), reverse=True)


def is_total_open(comparison: Comparison, thresholds: CaseThresholds, look: int) -> bool:
    """Return whether a case that is not slower needs ``PROCESSES[look]`` processes to be called that: the first number always."""
    total, past_gate = comparison.total, 1 + thresholds.policy.regression
    if total is None or total.processes >= PROCESSES[look] or comparison.upper_bound >= past_gate:
        return False
    slow = share_bounds(total.slow_processes[0], total.processes)[1]  # of the head's processes, at most
    can_reach_gate = slow * (total.process_factor - 1) > thresholds.policy.regression
    looks_slow = (total.ratio > past_gate or can_reach_gate) and total.p_value <= OPEN_LEVELS[look - 1]
    return (look == 0 or looks_slow) and decide(comparison, thresholds)[0] not in SLOWDOWNS


def _seem_changed(comparisons: Mapping[str, Comparison | None], policy: Policy) -> dict[str, Comparison]:
    """Return the comparisons whose interval and estimate speak of a change that would matter, proven or not."""
    return {
        name: comparison
        for name, comparison in comparisons.items()
        if comparison
        if any(one.low > 1 and one.ratio >= 1 + policy.of_case(name).regression for one in (comparison, comparison.total) if one)
        or (comparison.high < 1 and comparison.ratio <= 1 - policy.improvement)
    }


def _comparisons(cases: Sequence[CaseRun], policy: Policy) -> dict[str, Comparison | None]:
    """Compare each case that has a reference; None where there are too few pairs."""
    return {case.name: compared(case, policy.confidence) for case in cases if case.reference}


def thresholds_of_run(
    comparisons: Mapping[str, Comparison | None], policy: Policy, pairs: int, fewest: int = 0
) -> CaseThresholds:
    """Return the thresholds for each of these cases, or of ``fewest`` where that is more, if each may take ``pairs`` pairs."""
    cases = max(fewest, len(comparisons))
    return with_persistence(thresholds_for(policy, cases, looks_for_change(pairs)), comparisons.values())


def is_decided(comparison: Comparison, thresholds: CaseThresholds, drift: Drift | None) -> bool:
    """Return whether more pairs would be a waste."""
    outcome, _ = decide(comparison, thresholds)
    if outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        return True
    may_improve = comparison.ratio <= 1 - thresholds.policy.improvement
    total, past_gate = comparison.total, 1 + thresholds.policy.regression
    if total and total.ratio > past_gate and total.p_value <= TOTAL_DOUBTFUL:
        return False  # calls that are slow now and then show in pairs as they are
    open_part = (
        drift is not None and not is_significant_alone(comparison) and needs_best_comparison(comparison, drift, thresholds.policy)
    )
    return outcome is Outcome.UNCHANGED and not (may_improve or open_part)


def suspects(cases: Sequence[CaseRun], policy: Policy, pairs: int, drifts: Mapping[str, Drift]) -> dict[str, list[str]]:
    """Map each best commit to the cases to measure against it: this change and earlier ones may together be past the gate."""
    comparisons = {case.name: compared(case, policy.confidence) for case in cases if case.head and case.reference}
    thresholds = thresholds_of_run(comparisons, policy, pairs)
    listed: dict[str, list[str]] = {}
    for name, comparison in comparisons.items():
        drift, own = drifts.get(name), thresholds.of_case(name)
        if drift is None or comparison is None or decide(comparison, own)[0] is Outcome.REGRESSED:
            continue
        if is_significant_alone(comparison) and needs_best_comparison(comparison, drift, own.policy):
            listed.setdefault(drift.best, []).append(name)
    return listed


class GateRule(Rule):
    """The rule of a check: measure while a case is undecided at the gates of a policy."""

    processes: tuple[int, ...] = PROCESSES

    def __init__(self, policy: Policy, pairs: int, drifts: Mapping[str, Drift], *, is_part: bool = False) -> None:
        """Take at most ``pairs`` pairs of a case.

        ``drifts`` has the cases whose reference is not the best commit of the baseline: there a small slowdown matters too.
        ``is_part``: the cases are judged together with those of other parts, of which nobody knows here how many are timed.
        """
        super().__init__(looks(pairs), policy)
        self.policy, self.pairs, self._drifts, self._is_part = policy, pairs, drifts, is_part

    def _compared(self, cases: Sequence[CaseRun]) -> tuple[dict[str, Comparison | None], CaseThresholds]:
        comparisons = _comparisons(cases, self.policy)
        fewest = len(cases) + 1 if self._is_part else 0  # as if all were timed, in each part; another may have one case more
        return comparisons, thresholds_of_run(comparisons, self.policy, self.pairs, fewest)

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        comparisons, thresholds = self._compared(cases)
        return {
            name
            for name, one in comparisons.items()
            if one is None or not is_decided(one, thresholds.of_case(name), self._drifts.get(name))
        }

    def urgent(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the names of the few cases that look slowest, and of those that look fastest, and lack the pairs to prove it.

        A budget must not hide a regression, of which one makes the run red, nor keep the baseline where it is.
        """
        comparisons, thresholds = self._compared(cases)
        enough = first_look_for_change(thresholds, self.pairs)
        unproven = {name: one for name, one in _seem_changed(comparisons, self.policy).items() if one.pairs < enough}
        low = {name: one.total.low if one.total and one.low <= 1 else one.low for name, one in unproven.items()}
        slower = sorted((name for name in unproven if low[name] > 1), key=lambda name: low[name], reverse=True)
        faster = sorted((name for name, one in unproven.items() if one.high < 1), key=lambda name: unproven[name].high)
        return [*slower[:MOST_URGENT], *faster[:MOST_URGENT]]

    def changed(self, cases: Sequence[CaseRun]) -> Collection[str]:
        found = []
        for case in cases:
            one = compared(case, self.policy.confidence)
            kernels = compare_kernels(case.head, case.reference, self.policy.confidence)
            slower = max((each.ratio for each in (one, one and one.total, kernels) if each), default=1.0)
            if slower > 1 + self.policy.of_case(case.name).regression or (one and one.ratio <= 1 - self.policy.improvement):
                found.append(case.name)
        return found

    def kernels_settled(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the names of the cases whose kernels are as surely not slower as those of a case that is UNCHANGED."""
        thresholds = thresholds_for(self.policy, len(cases), looks_for_change(self.pairs))
        kernels = {case.name: compare_kernels(case.head, case.reference, self.policy.confidence) for case in cases}
        enough = {name: one for name, one in kernels.items() if one and one.pairs >= LOOKS[0]}
        return {name for name, one in enough.items() if decide(one, thresholds.of_case(name))[0] is Outcome.UNCHANGED}

    def totals(self, cases: Sequence[CaseRun], look: int) -> Collection[str]:
        comparisons, thresholds = self._compared(cases)
        return {name for name, one in comparisons.items() if one and is_total_open(one, thresholds.of_case(name), look)}
