"""The exact test that decides: had a coin chosen which side of each pair is the head, how often would this come out?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

STEPS = 256
"""Scores are whole numbers up to this, so that all 2ⁿ outcomes can be counted."""
MOST = 200
"""Beyond so many pairs the sum of scores is normal enough to skip the counting."""

Floats = NDArray[np.float64]


def randomisation_p(log_ratios: Floats, *, slower: bool) -> float:
    """One-sided p-value of no difference between the sides, from pairs alone: no normal distribution is assumed.

    ``log_ratios`` has shape (pairs,); ``slower`` asks whether the head is slower, otherwise whether it is faster. The statistic
    is the sum of the signs, each weighted by the size of its pair, but by no more than the median size: an outlier counts as
    one pair and no more. Where both sides run the same code, each pair has either sign with the same probability, so every one
    of the 2ⁿ ways to set the signs is as likely, and the result is the share of them whose sum is at least as large. It is
    never below 2⁻ⁿ. R. A. Fisher, The Design of Experiments (1935), section 21; the sums are counted as in M. Pagano and
    D. Tritchler, Journal of the American Statistical Association 78 (1983), 435.
    """
    scores = _scores(log_ratios)
    towards = log_ratios > 0 if slower else log_ratios < 0
    observed = int(scores[towards].sum())
    if log_ratios.size > MOST:
        spread = math.sqrt(float((scores.astype(float) ** 2).sum()) / 4)
        return 0.5 * math.erfc((observed - scores.sum() / 2) / (spread * math.sqrt(2))) if spread else 1.0
    shares = np.ones(1)
    for score in scores:
        longer = np.zeros(shares.size + score)
        longer[: shares.size] = shares
        longer[score:] += shares
        shares = longer / 2
    return float(shares[observed:].sum())


def _scores(log_ratios: Floats) -> NDArray[np.int64]:
    """The size of each pair in steps of a 256th of the median size, at most 256; a pair without a difference has none."""
    sizes = np.abs(log_ratios)
    cap = float(np.median(sizes))
    if cap == 0:  # most pairs show no difference at all: those that do count by their sign
        return (sizes > 0).astype(np.int64)
    scores: NDArray[np.int64] = np.ceil(np.minimum(sizes / cap, 1.0) * STEPS).astype(np.int64)
    return scores
