"""Log ratios of pairs → an estimate with its interval and its p-value.

The interval is a studentised bootstrap over pairs, the p-value an exact randomisation test: had a coin chosen which side of each
pair is the head, how often would this come out?
What each figure decides stands in `ratchet.core.judge.outcome`; how often the interval holds the true value, in docs/trust.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np
from numpy.typing import NDArray

STEPS = 256
"""Scores are whole numbers up to this, so that all 2ⁿ outcomes can be counted."""
MOST = 200
"""Most pairs whose outcomes are counted; of more, the sum of scores is close enough to normal."""

Floats = NDArray[np.float64]


def randomisation_p(log_ratios: Floats, *, slower: bool, capped: bool = True) -> float:
    """Return the one-sided p-value of no difference between the sides, from pairs alone: no normal distribution is assumed.

    ``log_ratios`` has shape (pairs,); ``slower`` asks whether the head is slower, otherwise whether it is faster. The statistic
    is the sum of the signs, each weighted by the size of its pair. ``capped``: by no more than the median size, so that an
    outlier counts as one pair and no more. Where both sides run the same code, each pair has either sign with the same
    probability, whatever the others have, since a coin of its own drew its order. So every one of the 2ⁿ ways to set the signs is
    as likely, and the result is the share of them whose sum is at least as large. It is never below 2⁻ⁿ. R. A. Fisher, The Design
    of Experiments (1935), section 21; the sums are counted as in M. Pagano and D. Tritchler, Journal of the American Statistical
    Association 78 (1983), 435.
    """
    scores = _scores(log_ratios, capped=capped)
    towards = log_ratios > 0 if slower else log_ratios < 0
    observed = int(scores[towards].sum())
    if log_ratios.size > MOST:
        spread = math.sqrt(float((scores**2).sum()) / 4)
        return 0.5 * math.erfc((observed - scores.sum() / 2) / (spread * math.sqrt(2))) if spread else 1.0
    shares = np.ones(1)
    for score in scores:
        longer = np.zeros(shares.size + score)
        longer[: shares.size] = shares
        longer[score:] += shares
        shares = longer / 2
    return float(shares[observed:].sum())


def _scores(log_ratios: Floats, *, capped: bool) -> NDArray[np.int64]:
    """Return the size of each pair in steps of a 256th of the median size, at most 256; a pair without a difference scores 0.

    Not ``capped``: in steps of a 256th of the largest one.
    """
    sizes = np.abs(log_ratios)
    cap = float(np.median(sizes) if capped else sizes.max())
    if cap == 0:  # most pairs show no difference at all: those that do count by their sign
        return (sizes > 0).astype(np.int64)
    scores: NDArray[np.int64] = np.ceil(np.minimum(sizes, cap) / cap * STEPS).astype(np.int64)
    return scores


OUTLIER_SPREADS, OUTLIER_LEAST = 10, math.log(1.05)
"""An outlier lies more than this many robust spreads and more than 5 % from the median."""
MANY = 20
PAIRS_PER_OUTLIER, PAIRS_PER_OUTLIER_OF_FEW = 4, 12
"""At most one pair in four is left out as an outlier, of fewer than 20 pairs one in twelve: more are part of how the code is.
In six pairs of a coin one often lies alone, and the other five agree by chance."""
DOUBTFUL_OUTLIERS = 8
"""If more than one pair in so many is left out, or if outliers are too many to be left out, both readings count for the bound."""
VALUES_PER_EXCEPTION = 10
"""Out of this many values, one may lie outside `Estimate.decile_bounds`."""
FEWEST_EFFECTIVE = 1.5
"""An interval is never wider than if so many values were independent: of six values no autocorrelation is known well."""
ERRORS_OF_CORRELATION, QUIET, NOISY = 1.8, 0.005, 0.01
"""Standard errors by which an autocorrelation may be larger than it seems, where values spread by 1 % or more; none where they
spread by less than 0.5 %: then it cannot move a mean by as much as any gate."""
BOUND = 0.14
"""`Estimate.bound` is too low this often for each time that the upper end of the interval is too low."""
RESAMPLES = 10_000
"""Bootstrap resamples of one interval; the same ones at every call, so that a verdict can be reproduced."""
PARTS = 20
"""Parts in which the resamples are computed."""
FEWEST_RESAMPLED, MOST_RESAMPLED = 5, 200
"""With fewer values a resample often holds one value alone; with more, Student's t is the same."""
LEAST_RESAMPLED = 0.05
"""A resample has at least so much of the values' own spread: where times tie, one of equal values would have none, and an
interval without an end.
"""
_SEED = 2025
LEAST_SPREAD = 1e-6
"""Least standard deviation of values: equal values would otherwise be infinite evidence."""


@dataclass(frozen=True)
class Estimate:
    """A mean of logs with what is known about it."""

    centre: float
    error: float
    """Standard error of the centre; infinite from a single value."""
    dof: float
    """Degrees of freedom of Student's t; 0 from a single value."""
    low: float
    high: float
    """The interval at the confidence that was asked for."""
    bound: float = math.inf
    """An upper end that is seven times less often too low than ``high``: with it, looking several times stays honest."""
    p_value: float = 1.0
    """One-sided, in the direction of the centre."""
    outliers: int = 0
    """Values left out because something else happened in them."""
    correlation: float = 0.0
    """Autocorrelation of each value with the one before it, corrected for bias; 0 where there are too few to say."""
    effective_pairs: float = 0.0
    """Effective number of independent values: `independent_values`."""
    decile_bounds: tuple[float, float] = (0.0, 0.0)
    """What nine values in ten, or more, exceed; and what nine in ten, or more, stay below."""
    unpaired_sd: float | None = None
    """Standard deviation of the difference, for sides that were not paired."""

    @property
    def spread(self) -> float:
        """Standard deviation of one pair; of sides that were not paired, what a pair of them would have."""
        if self.unpaired_sd is not None:
            return self.unpaired_sd
        return self.error * math.sqrt(self.dof + 1) if self.dof > 0 else 0.0


def estimate(values: Sequence[float], confidence: float) -> Estimate:
    """Estimate the mean of the values without outliers. Raises ValueError on no values and on values that are not finite."""
    data = _finite(values)
    kept = without_outliers(data)
    centre, error = _mean(kept)
    independent = independent_values(data)
    # The mean of n values that are like their neighbours is as uncertain as that of so many independent ones.
    wider = math.sqrt(data.size / max(min(FEWEST_EFFECTIVE, data.size), independent))
    low, high, bound = (centre + wider * (end - centre) for end in bootstrap_interval(kept, confidence))
    left_out = data.size - kept.size
    # What lies far from the median of all is never half of them.
    other = data if left_out > data.size / DOUBTFUL_OUTLIERS else without_outliers(data, data.size)
    if other.size != kept.size:
        bound = max(bound, bootstrap_interval(other, confidence)[2])
    ordered, apart = np.sort(data), data.size // VALUES_PER_EXCEPTION
    return Estimate(
        centre,
        error,
        kept.size - 1,
        low,
        high,
        bound,
        p_value=randomisation_p(data, slower=centre >= 0),
        outliers=left_out,
        correlation=_correlation(kept),
        effective_pairs=independent,
        decile_bounds=(float(ordered[apart]), float(ordered[-1 - apart])),
    )


def student_interval(values: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """Return the mean without outliers and its interval by Student's t: for one side alone, which decides nothing."""
    centre, error = _mean(kept := without_outliers(_finite(values)))
    half = quantile((1 + confidence) / 2, kept.size - 1) * error if kept.size > 1 else 0.0
    return centre, centre - half, centre + half


def estimate_apart(head: Sequence[float], others: Sequence[float], confidence: float, *, are_days: bool = False) -> Estimate:
    """Estimate the difference of the means of two sides that were not measured in pairs: Welch, Biometrika 34 (1947), 28.

    ``are_days``: ``others`` are the centres of earlier days. A new day differs from their mean by their spread, √(1 + 1/n) times.
    More days make the spread between them better known, not smaller: `Estimate.spread` is that of one day from the others.
    """
    from scipy.special import stdtr  # loads for a quarter of a second, which commands that judge nothing should not pay

    a, b = _finite(head), _finite(others)
    (mean_a, error_a), (mean_b, error_b) = _mean(a), _mean(b)
    centre = mean_a - mean_b
    if min(a.size, b.size) < 2:
        return Estimate(centre, math.inf, 0, -math.inf, math.inf)
    if are_days:
        error_b *= math.sqrt(b.size + 1)
    error = math.hypot(error_a, error_b)
    # Degrees of freedom of two errors together: those of the side that is less certain count most.
    dof = (error_a**2 + error_b**2) ** 2 / (error_a**4 / (a.size - 1) + error_b**4 / (b.size - 1))
    p_value = float(stdtr(dof, -abs(centre) / error))
    sd = error if are_days else math.hypot(error_a * math.sqrt(a.size), error_b * math.sqrt(b.size))
    return Estimate(centre, error, dof, *_student(centre, error, dof, confidence), p_value, unpaired_sd=sd)


def _student(centre: float, error: float, dof: float, confidence: float) -> tuple[float, float, float]:
    tail = (1 - confidence) / 2
    half = quantile(1 - tail, dof) * error
    return centre - half, centre + half, centre + quantile(1 - BOUND * tail, dof) * error


def without_outliers(values: Floats, most: float | None = None) -> Floats:
    """Return the values without outliers; all of them where there are more than ``most``, and so too many to be exceptions."""
    most = values.size / (PAIRS_PER_OUTLIER if values.size >= MANY else PAIRS_PER_OUTLIER_OF_FEW) if most is None else most
    distance = np.abs(values - median(values.tolist()))  # numpy's takes ten times as long on so few
    spread = 1.4826 * median(distance.tolist())  # the median distance, scaled to the standard deviation of normal values
    outlier = (distance > OUTLIER_SPREADS * spread) & (distance > OUTLIER_LEAST)
    return values[~outlier] if outlier.sum() <= most else values


def bootstrap_interval(values: Floats, confidence: float) -> tuple[float, float, float]:
    """Return the studentised bootstrap interval of a mean, and its `Estimate.bound`.

    Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 12.5; `scipy.stats.bootstrap` has no studentised
    one. With fewer than 5 values, or more than 200, it is Student's t.
    """
    centre, error = _mean(values)
    if values.size < 2:
        return -math.inf, math.inf, math.inf
    if not FEWEST_RESAMPLED <= values.size <= MOST_RESAMPLED:
        return _student(centre, error, values.size - 1, confidence)
    count = values.size
    way = math.copysign(1.0, math.fsum((values - centre) ** 3))
    away = np.sort(way * (values - centre))  # so that their order does not matter, and swapped sides give the mirror image
    powers = np.stack((away, away**2), axis=1)
    # In parts: of one large product NumPy's library shares the work among threads, and waking them takes longer than it saves.
    moments = np.concatenate([part @ powers for part in np.split(_draws(count), PARTS)]) / count
    means = moments[:, 0]
    floor = max(LEAST_SPREAD, LEAST_RESAMPLED * error * math.sqrt(count))
    variances = np.maximum((moments[:, 1] - means**2) * count / (count - 1), floor**2)
    pivots = way * means / np.sqrt(variances / count)
    tail = (1 - confidence) / 2
    ranks = [round(share * (RESAMPLES - 1)) for share in (1 - tail, tail, BOUND * tail)]
    most, least, bound = (float(pivot) for pivot in np.partition(pivots, ranks)[ranks])
    return centre - most * error, centre - least * error, centre - bound * error


@lru_cache(maxsize=64)
def _draws(count: int) -> Floats:
    """Count how often each of ``count`` values is drawn in each resample; shape (RESAMPLES, count)."""
    drawn = np.random.default_rng((_SEED, count)).integers(0, count, (RESAMPLES, count))
    cells = (drawn + np.arange(RESAMPLES)[:, None] * count).ravel()
    return np.bincount(cells, minlength=RESAMPLES * count).reshape(RESAMPLES, count).astype(np.float64)


def _correlation(values: Floats) -> float:
    """Return the lag-one autocorrelation, corrected for its bias of −1/n (M. G. Kendall, Biometrika 41 (1954), 403)."""
    away = values - values.mean()
    total = float(away @ away)
    if values.size < FEWEST_RESAMPLED or total < values.size * LEAST_SPREAD**2:
        return 0.0
    return float(away[1:] @ away[:-1]) / total + 1 / values.size


def independent_values(values: Floats) -> float:
    """Return the effective number of independent values, on the safe side: n · (1 − ρ) / (1 + ρ).

    ρ is their lag-one autocorrelation, and up to 1.8 of its standard errors of 1/√n more, outliers included: of noise that stays
    in one of two modes, the less frequent mode looks like outliers. H. J. Thiébaux and F. W. Zwiers, Journal of Climate and
    Applied Meteorology 23 (1984), 800.
    """
    noisy = min(1.0, max(0.0, (float(np.std(values)) - QUIET) / (NOISY - QUIET)))
    rho = min(0.99, max(0.0, _correlation(values) + noisy * ERRORS_OF_CORRELATION / math.sqrt(values.size)))
    return values.size * (1 - rho) / (1 + rho)


def _mean(data: Floats) -> tuple[float, float]:
    """Return the mean and its standard error; the order of values does not matter, to the last digit."""
    mean = math.fsum(data) / data.size
    if data.size < 2:
        return mean, math.inf
    spread = math.sqrt(math.fsum((data - mean) ** 2) / (data.size - 1))
    return mean, max(spread, LEAST_SPREAD) / math.sqrt(data.size)


def _finite(values: Sequence[float]) -> Floats:
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0 or not np.isfinite(data).all():
        raise ValueError(f"an estimate needs finite values, not {list(values)[:5]}")
    return data


def student_p(values: Sequence[float], *, slower: bool) -> float | None:
    """Return the one-sided p-value of a mean of 0 by Student's t; None for one value, which says nothing of its spread."""
    from scipy.special import stdtr  # as above

    data = _finite(values)
    if data.size < 2:
        return None
    centre, error = _mean(data)
    return float(stdtr(data.size - 1, -centre / error if slower else centre / error))


def session_medians(logs: Sequence[float], sessions: Sequence[int]) -> list[float]:
    """Return the median log ratio of each session: forks of one host may have something in common that those of others lack."""
    by_session: dict[int, list[float]] = {}
    for log, session in zip(logs, sessions, strict=True):
        by_session.setdefault(session, []).append(log)
    return [median(by_session[session]) for session in sorted(by_session)]


def quantile(share: float, dof: float) -> float:
    """Return the value below which ``share`` of Student's t distribution lies."""
    from scipy.special import stdtrit  # as above

    return float(stdtrit(dof, share))


def fisher_p(ours: int, theirs: int, of: int) -> float:
    """Return how often chance would put so many of all exceptions on our side, each side having ``of`` members.

    R. A. Fisher, Statistical Methods for Research Workers (5th ed., 1934), section 21.02; one-sided.
    """
    both = ours + theirs
    ways = sum(math.comb(of, count) * math.comb(of, both - count) for count in range(ours, min(of, both) + 1))
    return ways / math.comb(2 * of, both)


def share_bounds(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return exact bounds of a share that was seen ``count`` times in ``of`` independent trials, each one-sided.

    The true share is above the first with this confidence, and below the second with this confidence. C. J. Clopper and
    E. S. Pearson, Biometrika 26 (1934), 404. 0 and 1 where nothing was tried.
    """
    from scipy.special import betaincinv  # as above

    low = float(betaincinv(count, of - count + 1, 1 - confidence)) if count else 0.0
    high = float(betaincinv(count + 1, of - count, confidence)) if count < of else 1.0
    return low, high
