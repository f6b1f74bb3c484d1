"""Robust centre and bootstrap confidence interval. Resamples what repeats: pairs, or processes, never samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESAMPLES = 9999
TRIM = 0.25
"""Share cut from each end: a pair in which the host stalled may be off by tens of percent."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A centre between its bounds, in the units of the values."""

    centre: float
    low: float
    high: float


def centre(values: Sequence[float]) -> float:
    """The mean of the middle half (interquartile mean)."""
    return float(stats.trim_mean(np.asarray(values, dtype=np.float64), TRIM))


def bootstrap_interval(values: Sequence[float], confidence: float, seed: int = 0) -> Interval:
    """Percentile bootstrap of the trimmed mean (Wilcox, Introduction to Robust Estimation, 4.4.3).

    ``values`` holds one number for each pair. One value gives an interval of that value alone: the caller decides
    how many are enough. The seed makes the same samples give the same verdict. Raises ValueError on no values.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0 or not np.isfinite(data).all():
        raise ValueError(f"an interval needs finite values, not {list(values)[:5]}")
    middle = centre(values)
    if data.size == 1 or np.ptp(data) == 0:
        return Interval(middle, middle, middle)
    done = stats.bootstrap(
        (data,),
        lambda sample, axis=-1: stats.trim_mean(sample, TRIM, axis=axis),
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    bounds = done.confidence_interval
    return Interval(middle, min(float(bounds.low), middle), max(float(bounds.high), middle))


def bootstrap_difference(head: Sequence[float], reference: Sequence[float], confidence: float, seed: int = 0) -> Interval:
    """Interval of the difference of two trimmed means, for sides that were not measured in pairs."""
    a, b = np.asarray(head, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if a.size == 0 or b.size == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("an interval needs finite values on both sides")
    rng = np.random.default_rng(seed)
    differences = _resampled_centres(a, rng) - _resampled_centres(b, rng)
    tail = (1 - confidence) / 2
    middle = centre(head) - centre(reference)
    low, high = (float(q) for q in np.quantile(differences, [tail, 1 - tail]))
    return Interval(middle, min(low, middle), max(high, middle))


def _resampled_centres(values: Floats, rng: np.random.Generator) -> Floats:
    draws = rng.choice(values, size=(RESAMPLES, values.size))
    return np.asarray(stats.trim_mean(draws, TRIM, axis=-1), dtype=np.float64)
