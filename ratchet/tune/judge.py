"""The result of a search: which configurations are fastest, how it got there, and whether one should replace the default.

``ratchet tune`` asks for a recommendation, the station for the thresholds of finalists, and the reports and figures of a search
for ranks and effects. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from ratchet.core import units
from ratchet.core.judge.comparison import compare_workers
from ratchet.core.judge.evidence import CaseThresholds
from ratchet.core.judge.outcome import decide
from ratchet.core.judge.rule import Rule
from ratchet.core.records.run import CaseRun, Policy
from ratchet.core.records.verdict import Comparison, Outcome
from ratchet.core.workload import Parameter
from ratchet.tune.records import Configuration, Confirmation, Evaluation, TuningRecord


@dataclass(frozen=True)
class Ranked:
    """One evaluation that was timed."""

    number: int
    """Counted from 1, in the order in which they ended."""
    evaluation: Evaluation
    cost: float
    """Its time / the default's time; / the fastest one's, where the default gives no time."""


def ranked(record: TuningRecord) -> tuple[Ranked, ...]:
    """Return the evaluations that were timed, fastest first; dropped ones come after those that were timed in full."""
    has_default = compares_with_default(record)
    times = [(number, one, one.normalised if has_default else one.median_ms) for number, one in enumerate(record.evaluations, 1)]
    timed = [(number, one, time) for number, one, time in times if time is not None]
    unit = 1.0 if has_default else min(time for *_, time in timed)
    ranking = [Ranked(number, one, time / unit) for number, one, time in timed]
    return tuple(sorted(ranking, key=lambda entry: (entry.evaluation.outcome == "dropped", entry.cost, entry.number)))


def compares_with_default(record: TuningRecord) -> bool:
    """Return whether the evaluations are normalised by the default's time."""
    return all(evaluation.normalised is not None for evaluation in record.evaluations if evaluation.timed)


def best_so_far(record: TuningRecord) -> list[float | None]:
    """Return the smallest cost up to each evaluation; None before anything was timed."""
    costs = {entry.number: entry.cost for entry in ranked(record) if entry.evaluation.outcome == "correct"}
    curve: list[float | None] = []
    best: float | None = None
    for number in range(1, len(record.evaluations) + 1):
        cost = costs.get(number)
        best = cost if best is None else best if cost is None else min(best, cost)
        curve.append(best)
    return curve


def fastest_confirmed(record: TuningRecord) -> Configuration | None:
    """Return the fastest configuration of those that were compared with the default in pairs; None where none was."""
    compared = [(one.comparison.ratio, one.configuration) for one in record.confirmations if one.comparison is not None]
    return min(compared, key=itemgetter(0))[1] if compared else None


@dataclass(frozen=True)
class Recommendation:
    """The configuration to use, and why."""

    best: Configuration | None
    """None: no change."""
    verdict: str
    """One sentence."""


def recommend(confirmations: Sequence[Confirmation], policy: Policy) -> Recommendation:
    """Recommend the fastest of the finalists, if it is an improvement by the rule of a check.

    Each finalist was chosen for being fast, so the level of a false alarm is shared among them (Bonferroni).
    """
    rule = thresholds_of_finals(policy, len(confirmations))
    compared = [
        (confirmation.comparison, confirmation.configuration)
        for confirmation in confirmations
        if confirmation.comparison is not None
    ]
    improved = [pair for pair in compared if decide(pair[0], rule)[0] is Outcome.IMPROVED]
    if improved:
        comparison, configuration = min(improved, key=lambda pair: pair[0].ratio)
        return Recommendation(configuration, f"{speedup(comparison)}.")
    return Recommendation(None, f"No change recommended: {_why_none([comparison for comparison, _ in compared], policy)}.")


FINAL_LEVEL = 0.05
"""p-value for a suggestion, which a person looks at and a check holds to its own bar: a suggestion fails no build."""
FINAL_PAIRS = 6
"""Fewest pairs behind a suggestion, also where there is one finalist, whom the lowest p-value of five pairs, 2⁻⁵, would prove."""


USUAL = 10
"""Pairs after which a winner gets no more."""


def thresholds_of_finals(policy: Policy, finalists: int) -> CaseThresholds:
    """Return what a finalist must pass: fewer pairs than a change in a check, since both sides come from one host of one tree.

    The lowest p-value of n pairs is 2⁻ⁿ, so the level that four finalists share takes seven pairs. At such a level noise that
    lasts for some pairs may be taken for a change now and then, so noisy pairs count in full.
    """
    level = FINAL_LEVEL / max(1, finalists)
    return CaseThresholds(policy, level, fewest=max(FINAL_PAIRS, math.ceil(-math.log2(level))), fewest_effective_pairs=0)


class FinalsRule(Rule):
    """Measure the configurations that may still be the best and are not settled; all of them before there are `FINAL_PAIRS`."""

    def __init__(self, policy: Policy, pairs: int) -> None:
        super().__init__(tuple(range(1, pairs + 1)))
        self.policy = policy

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        compared = {case.name: compare_workers(case.head, case.reference, self.policy.confidence) for case in cases}
        found = {name: comparison for name, comparison in compared.items() if comparison}
        if not found or max(len(case.head) for case in cases) < FINAL_PAIRS:
            return list(compared)
        best = min(found.values(), key=lambda comparison: comparison.ratio)
        return [name for name, one in found.items() if one.low <= best.high and not self._is_settled(one, len(cases))]

    def _is_settled(self, found: Comparison, finalists: int) -> bool:
        """Return whether more pairs would hardly help: it cannot win, or it wins and has as many pairs as usual."""
        improved = decide(found, thresholds_of_finals(self.policy, finalists))[0] is Outcome.IMPROVED
        return found.low > 1 - self.policy.improvement or (improved and found.pairs >= USUAL)


def speedup(comparison: Comparison) -> str:
    """Say how much faster: ``1.230 times as fast as the default (95 % interval 1.215 to 1.246, 12 pairs)``."""
    interval = f"{units.threshold(comparison.confidence)} interval {1 / comparison.high:.3f} to {1 / comparison.low:.3f}"
    return f"{1 / comparison.ratio:.3f} times as fast as the default ({interval}, {comparison.pairs} pairs)"


def _why_none(compared: Sequence[Comparison], rule: Policy) -> str:
    if not compared:
        return "nothing faster than the default was confirmed"
    best = min(compared, key=lambda comparison: comparison.ratio)
    if best.ratio >= 1:
        return "in interleaved pairs nothing was faster than the default"
    less = f"the best takes {units.percent(1 - best.ratio, 2)} less time in {best.pairs} pairs"
    if best.ratio > 1 - rule.improvement:
        return f"{less}, under the {units.threshold(rule.improvement)} that makes a change worth while"
    return f"{less}, which may be chance (interval {units.change(best.low)} to {units.change(best.high)})"


# The effect of each parameter: the best and the median time of each of its values, and how much of the spread it explains.


@dataclass(frozen=True)
class ValueEffect:
    """One value of a parameter, over all configurations that were tried with it."""

    value: Parameter
    tried: int
    timed: int
    best: float | None
    """Smallest cost (see `ratchet.tune.judge.Ranked`); None where nothing was timed."""
    median: float | None


@dataclass(frozen=True)
class ParameterEffect:
    """One parameter, with the effect of each of its values."""

    name: str
    values: tuple[ValueEffect, ...]
    explains: float | None
    """Share, 0 to 1, of the spread of log times that its values alone explain; None where too little was timed to say."""


def effects(record: TuningRecord) -> tuple[ParameterEffect, ...]:
    """Return each parameter that was tried with more than one value, the one that explains most first.

    A search looks longest where it is fast, so these describe what was tried and not the whole space.
    """
    per_parameter = [_effect(name, values, record) for name, values in record.space.items()]
    several = [effect for effect in per_parameter if sum(value.tried > 0 for value in effect.values) > 1]
    return tuple(sorted(several, key=lambda effect: -(effect.explains or 0.0)))


def _effect(name: str, values: Sequence[Parameter], record: TuningRecord) -> ParameterEffect:
    costs: dict[Parameter, list[float]] = {value: [] for value in values}
    tried = dict.fromkeys(values, 0)
    for evaluation in record.evaluations:
        tried[evaluation.configuration[name]] += 1
    for entry in ranked(record):
        costs[entry.evaluation.configuration[name]].append(entry.cost)
    shown = [
        ValueEffect(value, tried[value], len(times), min(times, default=None), statistics.median(times) if times else None)
        for value, times in costs.items()
    ]
    return ParameterEffect(name, tuple(shown), variance_explained({value: times for value, times in costs.items() if times}))


def variance_explained(costs: Mapping[Parameter, Sequence[float]]) -> float | None:
    """Return the share of the variance of log costs that lies between the groups, less what chance would put there.

    This is ε² of Kelley (1935), "An unbiased correlation ratio measure". None for one group, or one cost in each.
    """
    logs = [[math.log(cost) for cost in group] for group in costs.values()]
    every = [value for group in logs for value in group]
    if len(logs) < 2 or len(every) <= len(logs):
        return None
    total, within = _squares(every), sum(_squares(group) for group in logs)
    if total <= 0:
        return 0.0
    return max(0.0, 1 - within / (len(every) - len(logs)) * (len(every) - 1) / total)


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squared differences from the mean."""
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)
