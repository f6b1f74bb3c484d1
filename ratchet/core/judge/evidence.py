"""The evidence that makes a change of a case believable: p-values, pairs, sessions of hosts, a margin in noise that lasts.

The reasons stand in docs/decisions/0003-rule.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ratchet.core.judge.comparison import LARGEST_LOG
from ratchet.core.judge.estimate import ERRORS_OF_CORRELATION, LEAST_SPREAD, NOISY, VALUES_PER_EXCEPTION, quantile
from ratchet.core.records.run import FIRST_SESSION, SESSION_PAIRS, Policy
from ratchet.core.records.verdict import Comparison, Total

CHANGE_PAIRS = 20
"""Pairs without which no change is believed: 2⁻²⁰ is what a randomisation test needs for 200 cases."""
FEWEST_SESSIONS = 4
"""Sessions without which no change is believed, in a run of any number of cases (`sessions_needed`)."""
LUCKY_HOSTS = 4
"""Of so many pairs of hosts of the same code, one at most has a slow head and a fast reference, if hosts run in two modes."""
TOTAL_SHARE = 0.1
"""Share of the false alarms that the total may cause; the typical time has the rest."""
PERSISTENT = 2.0
"""Standard errors beyond which an autocorrelation counts as real."""
CLEAR = 3.0
"""Spreads of a pair by which a change must be past its threshold, if noise persists from pair to pair."""


@dataclass(frozen=True)
class CaseThresholds:
    """The evidence needed to believe a change of one case, among several in a run, at one of several looks."""

    policy: Policy
    level: float
    """The p-value must not be above this: the policy's false alarms, shared among cases and looks (Bonferroni)."""
    fewest: int = CHANGE_PAIRS
    """Fewest pairs that can prove a change."""
    fewest_effective_pairs: int = CHANGE_PAIRS
    """Smallest effective number of independent pairs that can prove a change of a noisy case."""
    sessions: int = 1
    """Fewest sessions that can prove a change; 1: all pairs may come from the same hosts."""
    persistent: float = 0.0
    """Spread of a pair in a run whose noise persists from pair to pair, all cases together; 0 where it does not."""

    def of_case(self, name: str) -> CaseThresholds:
        return replace(self, policy=self.policy.of_case(name))

    @property
    def pairs_needed(self) -> int:
        """Return the fewest pairs that can prove a change, of a case that looked changed from the first session on."""
        return max(self.fewest, FIRST_SESSION + (self.sessions - 2) * SESSION_PAIRS + 1 if self.sessions > 1 else 0)

    def allows(self, comparison: Comparison, threshold: float) -> bool:
        """Return whether the evidence suffices for a change past ``threshold``, a ratio."""
        if comparison.p_value > self.level:
            return False
        if not comparison.is_paired:
            return True
        margin = abs(math.log(comparison.ratio) - math.log(threshold))
        sessions = self.sessions if threshold > 1 else min(self.sessions, FEWEST_SESSIONS)  # nobody is blamed for a gain
        agree = self.has_sessions(comparison, comparison.sessions_p_value, self.level, sessions)
        return self.has_pairs(comparison, threshold) and agree and margin >= self.margin(comparison)

    def has_sessions(self, comparison: Comparison, chance: float | None, level: float, fewest: int) -> bool:
        """Return whether there are enough sessions, and they agree: what hosts have of their own is a chance like any other."""
        if fewest <= 1:
            return True
        return len(comparison.sessions) >= fewest and chance is not None and chance <= level

    def allows_total(self, comparison: Comparison, total: Total) -> bool:
        """Return whether the evidence suffices to call the total slower. It comes from the same pairs, with their noise."""
        level, past_gate = self.level * TOTAL_SHARE / (1 - TOTAL_SHARE), 1 + self.policy.regression
        return (
            total.low > 1
            and total.p_value <= level
            and self.has_pairs(comparison, past_gate)
            and self.has_sessions(comparison, total.sessions_p_value, level, self.sessions)
            and math.log(total.ratio / past_gate) >= self.margin(comparison)
        )

    def has_pairs(self, comparison: Comparison, threshold: float) -> bool:
        """Return whether there are enough pairs to believe a change past ``threshold``, a ratio.

        In a noisy case pairs that are like the pair before them count as fewer, unless nine in ten are past the threshold.
        """
        if comparison.pairs < self.fewest:
            return False
        quiet = comparison.spread <= NOISY and not comparison.outliers
        if quiet or comparison.effective_pairs is None or comparison.decile_bounds is None:
            return True
        exceeded, undercut = comparison.decile_bounds
        clear = exceeded > threshold if threshold > 1 else undercut < threshold
        return clear or comparison.effective_pairs >= self.fewest_effective_pairs

    def margin(self, comparison: Comparison) -> float:
        """Return by how much, as a log, a change must be past its threshold: 0 unless noise persists from pair to pair."""
        kept = comparison.pairs - comparison.outliers
        own = comparison.spread if _persists(comparison.correlation, kept) and comparison.spread > NOISY else 0.0
        return CLEAR * max(own, self.persistent)


def thresholds_for(policy: Policy, cases: int, looks: int) -> CaseThresholds:
    """Share the policy's false alarms among ``cases``, each of which may be called changed at each of ``looks``."""
    level = policy.false_alarm * (1 - TOTAL_SHARE) / max(1, cases) / max(1, looks)
    return CaseThresholds(policy, level, sessions=sessions_needed(policy, cases))


def sessions_needed(policy: Policy, cases: int) -> int:
    """Return the sessions without which no change of one of ``cases`` is believed.

    Student's t over sessions keeps its level where what hosts have of their own is normal. Where it is one of two modes, sessions
    may agree by chance, and then without any scatter; one session does so with a probability of at most 1/4: the largest value
    of p (1 − p). So it takes as many sessions as make all of them agree no more often than the policy allows.
    """
    return max(FEWEST_SESSIONS, math.ceil(math.log(max(1, cases) / policy.false_alarm, LUCKY_HOSTS)))


def with_persistence(thresholds: CaseThresholds, comparisons: Iterable[Comparison | None]) -> CaseThresholds:
    """Raise the thresholds where noise persists: the autocorrelations of all cases together show what a single one cannot."""
    noisy = [case for case in comparisons if case and case.source == "paired" and case.spread > NOISY / 2]
    if len(noisy) < 2:
        return thresholds
    kept = sum(case.pairs - case.outliers for case in noisy)
    correlation = sum((case.pairs - case.outliers) * case.correlation for case in noisy) / kept
    if not _persists(correlation, kept):
        return thresholds
    spread = math.sqrt(statistics.fmean(case.spread**2 for case in noisy))
    return replace(thresholds, persistent=spread) if spread > NOISY else thresholds


def _persists(correlation: float, pairs: int) -> bool:
    """Return whether an autocorrelation is too large to be chance: that of independent pairs has a standard error of 1/√n."""
    return correlation * math.sqrt(pairs) > PERSISTENT


def session_of(pair: int) -> int:
    """Return the session of a pair, by its number, in a case that looked changed from the first session on."""
    return max(0, 1 + (pair - FIRST_SESSION) // SESSION_PAIRS)


def sessions_of(pairs: int) -> int:
    """Return how many sessions a case of so many pairs comes from, if it looked changed from the first session on."""
    return 1 + session_of(pairs - 1)


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
    fewest, clear = thresholds.fewest_effective_pairs, gate
    enough = normal.cdf(math.sqrt(pairs) * (pairs - fewest) / (pairs + fewest) - ERRORS_OF_CORRELATION)
    if spread > NOISY and enough < math.sqrt(power):
        otherwise = (math.sqrt(power) - enough) / (1 - enough)
        clear = gate - normal.inv_cdf(float(bdtri(pairs // VALUES_PER_EXCEPTION, pairs, otherwise))) * spread
    if thresholds.sessions <= 1:
        return max(estimate, test, clear)
    scatter = math.sqrt(float(chdtri(sessions - 1, 1 - power)) / (sessions - 1))
    agree = quantile(1 - thresholds.level, sessions - 1) * scatter * MEDIAN_OF_SESSION * spread / math.sqrt(sessions)
    return max(estimate, test, clear, agree)
