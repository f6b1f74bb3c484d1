"""Recorded pairs, drawn again into pull requests that were never made: how often would they have been red?"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.judge.drift import Drift
from ratchet.judge.looks import bar_of_run, is_decided, looks, looks_for_change
from ratchet.judge.outcome import Bar, bar_for, decide
from ratchet.records.policy import Policy
from ratchet.records.verdict import Comparison, Outcome
from ratchet.stats.comparison import compare_pairs
from ratchet.stats.ratios import Pair

Pools = Mapping[str, Sequence[Pair]]
"""Case → the pairs that were recorded of it."""
Answers = dict[str, tuple[Outcome, Comparison]]
"""Case → what one pull request was told about it."""


@dataclass(frozen=True)
class Rates:
    """What became of the pull requests."""

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
    """Draw each case's pairs with replacement from its pool, look at them as a check does, and judge.

    ``planted`` multiplies the head's times of a case. Raises ValueError where a planted case is no case, a pool is empty, or
    there is nothing to draw.
    """
    if not pools or runs < 1:
        raise ValueError("a replay needs at least one case and one run")
    plants = dict(planted or {})
    if unknown := plants.keys() - pools.keys():
        raise ValueError(f"{sorted(unknown)[0]} is planted, but no such case is replayed")
    if empty := [name for name, pool in pools.items() if not pool]:
        raise ValueError(f"{empty[0]} has no pairs")
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
    """One pull request: the pairs of each case drawn from its pool, as many as a check would have taken, and its outcome.

    ``drifts`` has the cases whose reference is not the best commit of the baseline.
    """
    bar = bar_for(policy, len(pools), looks_for_change(pairs))
    seen = {name: _measure(rng.choices(pool, k=pairs), bar, pairs, (drifts or {}).get(name)) for name, pool in pools.items()}
    whole = bar_of_run(seen, policy, pairs)
    return {name: (decide(comparison, whole)[0], comparison) for name, comparison in seen.items()}


def slowed_by(factor: float, pool: Sequence[Pair]) -> list[Pair]:
    """The pairs of a head that takes ``factor`` times as long."""
    return [Pair(pair.log_ratio + math.log(factor), pair.head_ms * factor, pair.reference_ms) for pair in pool]


def _measure(drawn: Sequence[Pair], bar: Bar, pairs: int, drift: Drift | None) -> Comparison:
    """The comparison at the look at which a check would have stopped."""
    for count in looks(pairs):
        seen = compare_pairs(drawn[:count], bar.policy.confidence)
        if seen and (count == pairs or is_decided(seen, bar, drift)):
            return seen
    raise ValueError(f"{pairs} pairs are too few to compare: take 3 or more")
