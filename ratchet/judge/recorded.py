"""Recorded pairs, judged as they are."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ratchet.errors import Exit
from ratchet.judge.looks import bar_of_run
from ratchet.judge.outcome import Bar, decide, with_smallest_slowdown
from ratchet.judge.replay import Pools
from ratchet.judge.verdict import exit_code, headline
from ratchet.records.policy import Policy
from ratchet.records.run import CaseRun
from ratchet.records.verdict import CaseVerdict, Comparison, Outcome, SideSummary
from ratchet.stats.comparison import FEWEST_PAIRS, compare_pairs
from ratchet.stats.ratios import Pair, pairs_of


@dataclass(frozen=True)
class Judged:
    """What recorded pairs mean."""

    cases: tuple[CaseVerdict, ...]
    headline: str
    exit_code: int


def pool_of(case: CaseRun) -> list[Pair]:
    """The pairs of a case; none where its times do not compare or cannot be trusted."""
    sound = case.unfit is None and not case.failures and case.workload == case.reference_workload
    return pairs_of(case.head, case.reference) if sound else []


def judge_pairs(pools: Pools, policy: Policy) -> Judged:
    """Judge every case by all its pairs, at the levels of a check that may take as many."""
    comparisons = {name: compare_pairs(pairs, policy.confidence) for name, pairs in pools.items()}
    most = max(map(len, pools.values()), default=0)
    bar = bar_of_run(comparisons, policy, most)
    cases = tuple(_verdict(name, pairs, comparisons[name], bar, most) for name, pairs in pools.items())
    code = exit_code(Counter(case.outcome for case in cases), policy) if cases else Exit.NOT_MEASURED
    return Judged(cases, headline(cases, policy, code), int(code))


def worst_code(judged: Iterable[Judged]) -> int:
    """The exit code of several together: red wins, then not measured."""
    codes = {each.exit_code for each in judged}
    return next((int(code) for code in (Exit.REGRESSION, Exit.NOT_MEASURED) if code in codes), int(Exit.PASS))


def _verdict(name: str, pairs: Sequence[Pair], comparison: Comparison | None, bar: Bar, most: int) -> CaseVerdict:
    head, reference = _summary([pair.head_ms for pair in pairs]), _summary([pair.reference_ms for pair in pairs])
    if comparison is None:
        reason = f"Fewer than {FEWEST_PAIRS} pairs were recorded, too few for an interval."
        return CaseVerdict(name=name, outcome=Outcome.INCONCLUSIVE, reason=reason, head=head, reference=reference)
    outcome, reason = decide(comparison, bar)
    shown = with_smallest_slowdown(comparison, bar, most)
    return CaseVerdict(name=name, outcome=outcome, reason=reason, comparison=shown, head=head, reference=reference)


def _summary(medians_ms: Sequence[float]) -> SideSummary:
    """Nothing is known of the work, so there are times but no rates."""
    return SideSummary(median_ms=statistics.median(medians_ms), gflops=0, gb_s=0, peak_memory_bytes=0)
