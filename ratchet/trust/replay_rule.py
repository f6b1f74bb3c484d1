"""Recorded pairs, drawn into simulated pull requests, or to calibrate a machine.

``ratchet compare --replay`` calls `simulate`, ``ratchet doctor calibrate`` calls `calibrate`. Pure: the caller reads the
recordings, and every random draw comes from a seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ratchet.common.auto_gate import BEYOND, CAUGHT, smallest_gate
from ratchet.core.judge.comparison import Pair, compare_pairs, pairs_of
from ratchet.core.judge.drift import Drift
from ratchet.core.judge.estimate import estimate, quantile
from ratchet.core.judge.evidence import (
    CaseThresholds,
    session_of,
    smallest_slowdown,
    thresholds_for,
)
from ratchet.core.judge.outcome import decide
from ratchet.core.judge.rule import first_look_for_change, is_decided, looks, looks_for_change, thresholds_of_run
from ratchet.core.records.run import CaseRun, Plan, Policy, RunRecord
from ratchet.core.records.verdict import Comparison, Outcome
from ratchet.trust.records import Calibration, CaseCalibration

Pools = Mapping[str, Sequence[Pair]]
"""Case → the pairs that were recorded of it."""
Answers = dict[str, tuple[Outcome, Comparison]]
"""Case → its outcome in one pull request, and the comparison behind it."""


@dataclass(frozen=True)
class Rates:
    """Shares of the simulated pull requests, and of their cases, by how they ended."""

    any_red: float
    """Share of them with a red case among those that nothing was planted in."""
    caught: float | None
    """Share of the planted cases that were red; None where nothing was planted."""
    inconclusive: float
    """Share of the cases without an answer: inconclusive, or slower without proof."""
    pairs_mean: float
    """Pairs that a case took."""
    runs: int
    red: Mapping[str, float]
    """Case → share of the pull requests in which it was red."""


def simulate(
    pools: Pools, policy: Policy, *, pairs: int, runs: int, seed: int = 0, planted: Mapping[str, float] | None = None
) -> Rates:
    """Draw each case's pairs with replacement from its pool, look at them as a check does, and judge: ``runs`` times, 1 or more.

    ``planted`` multiplies the head's times of a case. Every pool has pairs. Raises ValueError for fewer than 3 ``pairs``.
    """
    plants = planted or {}
    slower = {name: slowed_by(plants.get(name, 1.0), pool) for name, pool in pools.items()}
    rng = random.Random(seed)  # noqa: S311  a simulation, not a secret
    red = dict.fromkeys(pools, 0)
    false, undecided, taken = 0, 0, 0
    for _ in range(runs):
        answers = draw(slower, policy, pairs, rng)
        reds = [name for name, (outcome, _) in answers.items() if outcome is Outcome.REGRESSED]
        for name in reds:
            red[name] += 1
        false += any(name not in plants for name in reds)
        undecided += sum(outcome in (Outcome.INCONCLUSIVE, Outcome.SLOWER) for outcome, _ in answers.values())
        taken += sum(seen.pairs for _, seen in answers.values())
    cases = runs * len(pools)
    caught = sum(red[name] for name in plants) / (runs * len(plants)) if plants else None
    shares = {name: count / runs for name, count in red.items()}
    return Rates(false / runs, caught, undecided / cases, taken / cases, runs, shares)


def draw(pools: Pools, policy: Policy, pairs: int, rng: random.Random, drifts: Mapping[str, Drift] | None = None) -> Answers:
    """Simulate one pull request: draw the pairs of each case from its pool, as many as a check would take, and judge them.

    ``drifts`` has the cases whose reference is not the best commit of the baseline. Raises ValueError for fewer than 3 pairs.
    """
    thresholds = thresholds_for(policy, len(pools), looks_for_change(pairs))
    comparisons = {
        name: _measure(rng.choices(pool, k=pairs), thresholds.of_case(name), pairs, (drifts or {}).get(name))
        for name, pool in pools.items()
    }
    return decided(comparisons, policy, pairs)


def decided(comparisons: Mapping[str, Comparison], policy: Policy, pairs: int) -> Answers:
    """Return the outcomes of the cases of one pull request that may take so many ``pairs`` of each."""
    whole = thresholds_of_run(comparisons, policy, pairs)
    return {name: (decide(comparison, whole.of_case(name))[0], comparison) for name, comparison in comparisons.items()}


def pool_of(case: CaseRun) -> list[Pair]:
    """Return the pairs of a case; none where its times do not compare or cannot be trusted."""
    sound = case.unfit is None and not case.failures and case.workload == case.reference_workload
    return pairs_of(case.head, case.reference) if sound else []


def slowed_by(factor: float, pool: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of a head that takes ``factor`` times as long."""
    return [replace(pair, log_ratio=pair.log_ratio + math.log(factor), head_ms=pair.head_ms * factor) for pair in pool]


def _measure(drawn: Sequence[Pair], thresholds: CaseThresholds, pairs: int, drift: Drift | None) -> Comparison:
    """Return the comparison at the look at which a check would have stopped; its sessions are those of a check."""
    taken = [replace(pair, session=session_of(number)) for number, pair in enumerate(drawn)]
    for count in looks(pairs):
        comparison = compare_pairs(taken[:count], thresholds.policy.confidence)
        if comparison and (count == pairs or is_decided(comparison, thresholds, drift)):
            return comparison
    raise ValueError(f"{pairs} pairs are too few to compare: take 3 or more")


# Calibration: unchanged code against itself → the changes that this machine can detect, and the gate that it can hold.


FEWEST = 12
"""Fewest pairs of a case that is calibrated; one with fewer counts as unmeasured."""
CHECKS = 3000
"""Simulated checks of unchanged code, of which the red ones are counted."""


def calibrate(run: RunRecord, plan: Plan, policy: Policy, checks: int = CHECKS) -> Calibration | None:
    """Judge a run of unchanged code against itself, for checks by ``plan``; None where no case has enough pairs."""
    pools = {case.name: pool_of(case) for case in run.cases if case.skipped is None}
    enough = {name: pool for name, pool in pools.items() if len(pool) >= FEWEST}
    unmeasured = tuple(name for name in pools if name not in enough)
    if not enough:
        return None
    pairs = plan.pairs
    unchanged = simulate(enough, policy, pairs=pairs, runs=checks, seed=run.plan.seed)
    slower = dict.fromkeys(enough, 1 + policy.regression * BEYOND)
    slowed = simulate(enough, policy, pairs=pairs, runs=checks // 10, seed=run.plan.seed + 1, planted=slower)
    cases = tuple(_case(name, pool, policy, pairs, len(enough), unchanged, slowed) for name, pool in enough.items())
    biased = tuple(case.name for case in cases if _is_biased(case, policy, len(cases)))
    return Calibration(
        holds=not unmeasured and not biased and all(case.holds for case in cases),
        gate=max(case.gate for case in cases),
        any_red=unchanged.any_red,
        checks=checks,
        biased=biased,
        unmeasured=unmeasured,
        cases=cases,
        policy=policy,
        plan=plan,
        environment=run.environment,
        code=run.head,
        started_at=run.started_at,
        wall_s=run.wall_s,
        command=run.command,
        warnings=run.warnings,
    )


def _case(
    name: str, pool: Sequence[Pair], policy: Policy, pairs: int, cases: int, unchanged: Rates, slowed: Rates
) -> CaseCalibration:
    pooled = estimate([pair.log_ratio for pair in pool], policy.confidence)
    thresholds = thresholds_for(policy, cases, looks_for_change(pairs))
    return CaseCalibration(
        name=name,
        pairs=len(pool),
        spread=pooled.spread,
        bias=pooled.centre,
        bias_error=pooled.error,
        detectable_first=smallest_slowdown(pooled.spread, thresholds, first_look_for_change(thresholds, pairs)),
        detectable_most=smallest_slowdown(pooled.spread, thresholds, pairs),
        red=unchanged.red[name],
        caught=slowed.red[name],
        gate=smallest_gate(pooled.spread, pairs, thresholds),
        holds=unchanged.red[name] <= policy.false_alarm and slowed.red[name] >= CAUGHT,
    )


def _is_biased(case: CaseCalibration, policy: Policy, cases: int) -> bool:
    """Return whether a side is favoured: by more than chance, and by enough to matter to the gate."""
    certain = abs(case.bias) > quantile(1 - 0.01 / (2 * cases), case.pairs - 1) * case.bias_error
    return certain and abs(case.bias) > policy.regression / 10
