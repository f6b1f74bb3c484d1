"""Unchanged code against itself → what this machine can tell apart, and the gate that it can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.judge.looks import looks_for_change
from ratchet.judge.outcome import CHANGE_PAIRS, bar_for, both_past, smallest_slowdown
from ratchet.judge.replay import Rates, simulate
from ratchet.records.calibration import CaseCalibration
from ratchet.records.policy import Policy
from ratchet.records.run import RunRecord
from ratchet.stats.estimate import estimate, quantile
from ratchet.stats.ratios import Pair, pairs_of

FEWEST = 12
"""Pairs without which nothing is said about a case."""
CHECKS = 3000
"""Drawn from the pairs to count the red ones."""
CAUGHT = 0.95
"""Share of slowdowns a sixth beyond a gate (3.5 % for a gate of 3 %) that must be caught to hold it."""
BEYOND = 7 / 6
_STEP = 0.001
"""Suggested gates are multiples of this."""


@dataclass(frozen=True)
class Found:
    """What a run of unchanged code against itself says."""

    cases: tuple[CaseCalibration, ...]
    any_red: float
    biased: tuple[str, ...]
    unmeasured: tuple[str, ...]

    @property
    def gate(self) -> float:
        """The smallest gate that every case can hold."""
        return max(case.gate for case in self.cases)

    @property
    def holds(self) -> bool:
        """Whether every case holds the configured gate; one that was not measured does not."""
        return bool(self.cases) and not self.unmeasured and not self.biased and all(case.holds for case in self.cases)


def calibrate(run: RunRecord, policy: Policy, pairs: int) -> Found:
    """Judge a run of unchanged code against itself; ``pairs`` is the most that a case of a check takes."""
    pools = {case.name: pairs_of(case.head, case.reference) for case in run.cases if case.skipped is None}
    enough = {name: pool for name, pool in pools.items() if len(pool) >= FEWEST}
    unmeasured = tuple(name for name in pools if name not in enough)
    if not enough:
        return Found((), 0.0, (), unmeasured)
    unchanged = simulate(enough, policy, pairs=pairs, runs=CHECKS, seed=run.plan.seed)
    slower = dict.fromkeys(enough, 1 + policy.regression * BEYOND)
    slowed = simulate(enough, policy, pairs=pairs, runs=CHECKS // 10, seed=run.plan.seed + 1, planted=slower)
    cases = tuple(_case(name, pool, policy, pairs, len(enough), unchanged, slowed) for name, pool in enough.items())
    biased = tuple(case.name for case in cases if _is_biased(case, policy, len(cases)))
    return Found(cases, unchanged.any_red, biased, unmeasured)


def _case(
    name: str, pool: Sequence[Pair], policy: Policy, pairs: int, cases: int, unchanged: Rates, slowed: Rates
) -> CaseCalibration:
    pooled = estimate([pair.log_ratio for pair in pool], policy.confidence)
    bar = bar_for(policy, cases, looks_for_change(pairs))
    rates: Mapping[str, float] = slowed.red
    return CaseCalibration(
        name=name,
        pairs=len(pool),
        spread=pooled.spread,
        bias=pooled.centre,
        bias_error=pooled.error,
        detectable_first=smallest_slowdown(pooled.spread, bar, min(pairs, CHANGE_PAIRS)),
        detectable_most=smallest_slowdown(pooled.spread, bar, pairs),
        red=unchanged.red[name],
        caught=rates[name],
        gate=smallest_gate(pooled.spread, pairs, bar.level),
        holds=unchanged.red[name] <= policy.false_alarm and rates[name] >= CAUGHT,
    )


def smallest_gate(spread: float, pairs: int, level: float) -> float:
    """The gate at which a slowdown a sixth beyond it is red in 95 of 100 checks of ``pairs`` pairs.

    ``spread`` is of one pair, ``level`` what the p-value of a case must stay under; a multiple of 0.1 %.
    """
    past_the_gate = both_past(max(CHANGE_PAIRS, pairs), CAUGHT) * spread / (BEYOND - 1)
    past_chance = (quantile(1 - level, pairs - 1) + quantile(CAUGHT, pairs - 1)) * spread / math.sqrt(pairs) / BEYOND
    return max(1, math.ceil(max(past_the_gate, past_chance) / _STEP)) * _STEP


def _is_biased(case: CaseCalibration, policy: Policy, cases: int) -> bool:
    """Whether a side is favoured: by more than chance, and by enough to matter to the gate."""
    certain = abs(case.bias) > quantile(1 - 0.01 / (2 * cases), case.pairs - 1) * case.bias_error
    return certain and abs(case.bias) > policy.regression / 10
