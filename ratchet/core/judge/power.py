"""How small a slowdown a check can prove, and how many pairs would decide a case."""

from __future__ import annotations

import math
import statistics

from ratchet.core.judge.comparison import LARGEST_LOG
from ratchet.core.judge.estimate import ERRORS_OF_CORRELATION, LEAST_SPREAD, NOISY, VALUES_PER_EXCEPTION, quantile
from ratchet.core.judge.evidence import CHANGE_PAIRS, CaseThresholds, sessions_of
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Comparison

POWER = 0.8
"""Probability with which a slowdown of the size of the MDE is red."""
MEDIAN_OF_SESSION = 0.67
"""Spread of the median of three pairs, in spreads of one: of normal noise."""
EFFICIENCY = 0.9
"""Share of the pairs that the capped randomisation test uses effectively on normal noise (research/adversary.py)."""
MOST_SUGGESTED = 400
"""If more pairs than this would be needed, the advice is a quieter machine instead."""
RESERVE = 1.3
"""Factor on the pairs that should settle a case, since its centre moves as well. A choice."""


def pairs_to_settle(comparison: Comparison, policy: Policy, reserve: float = RESERVE) -> int | None:
    """Return the pairs that should decide an inconclusive case, if the interval narrows with their square root.

    None where more pairs are no help: too many would be needed, or nothing was paired.
    """
    centre, gate = math.log(comparison.ratio), math.log1p(policy.regression)
    reach = math.log(comparison.upper_bound) - centre if centre <= gate else centre - math.log(comparison.low)
    reach, away = (distance - comparison.resolution for distance in (reach, abs(centre - gate)))
    pairs = reserve * comparison.pairs * (reach / away) ** 2 if away > 0 else math.inf
    if not comparison.is_paired or pairs > MOST_SUGGESTED:
        return None
    enough = max(math.ceil(pairs), comparison.pairs + 2)
    return max(CHANGE_PAIRS, enough) if comparison.ratio > 1 + policy.regression else enough


def with_smallest_slowdown(comparison: Comparison, thresholds: CaseThresholds, pairs: int) -> Comparison:
    """Return the comparison with its MDE, in a check that takes up to ``pairs`` pairs of a case."""
    if comparison.source != "paired":
        return comparison
    margin = thresholds.margin(comparison)
    smallest = smallest_slowdown(comparison.spread, thresholds, pairs, margin, comparison.resolution)
    return comparison.model_copy(update={"detectable": smallest})


def smallest_slowdown(
    spread: float, thresholds: CaseThresholds, pairs: int, margin: float = 0.0, resolution: float = 0.0
) -> float | None:
    """Return the smallest slowdown, as a fraction, that the rule would call a regression four times in five (MDE).

    ``spread`` is the standard deviation of one pair's log ratio; all ``pairs`` pairs are measured. None where these are too few
    to prove any change.
    """
    if pairs < thresholds.pairs_needed:
        return None
    gate = math.log1p(thresholds.policy.regression) + margin + resolution
    return math.expm1(min(needed_change(gate, spread, thresholds, pairs, POWER), LARGEST_LOG))


def needed_change(gate: float, spread: float, thresholds: CaseThresholds, pairs: int, power: float) -> float:
    """Return how large a true change must be to be red with the probability ``power``; it and ``gate`` are logs.

    The largest of what the estimate, the randomisation test, the sessions and the count of noisy pairs need, all but the sessions
    with the root of ``power``, since they may bind together. For Student's t with a true difference: N. L. Johnson and
    B. L. Welch, Biometrika 31 (1940), 362.
    """
    from scipy.special import bdtri, chdtri  # loads for a quarter of a second, which commands that judge nothing should not pay

    spread, sessions, normal = max(spread, LEAST_SPREAD), sessions_of(pairs), statistics.NormalDist()
    surely = normal.inv_cdf(math.sqrt(power))
    estimate = gate + surely * spread / math.sqrt(pairs)
    test = (quantile(1 - thresholds.level, pairs - 1) + surely) * spread / math.sqrt(EFFICIENCY * pairs)
    # Independent pairs may look alike by chance, and count as too few; then nine in ten of them must be past the gate.
    fewest, clear = thresholds.fewest_independent, gate
    enough = normal.cdf(math.sqrt(pairs) * (pairs - fewest) / (pairs + fewest) - ERRORS_OF_CORRELATION)
    if spread > NOISY and enough < math.sqrt(power):
        otherwise = (math.sqrt(power) - enough) / (1 - enough)
        clear = gate - normal.inv_cdf(float(bdtri(pairs // VALUES_PER_EXCEPTION, pairs, otherwise))) * spread
    if thresholds.sessions <= 1:
        return max(estimate, test, clear)
    scatter = math.sqrt(float(chdtri(sessions - 1, 1 - power)) / (sessions - 1))
    agree = quantile(1 - thresholds.level, sessions - 1) * scatter * MEDIAN_OF_SESSION * spread / math.sqrt(sessions)
    return max(estimate, test, clear, agree)
