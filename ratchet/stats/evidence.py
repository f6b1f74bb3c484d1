"""Could chance alone have moved the pairs this far?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROGUE_SPREADS, ROGUE_LEAST = 10, math.log(1.05)
"""A rogue pair lies this many robust spreads and at least 5 % from the median; at most one in eight is left out."""


def chance(log_ratios: Sequence[float]) -> float:
    """One-sided p-value of Student's t in the direction of the mean: how often unchanged code would look at least so far off.

    Pairs of unchanged code are near to normal (docs/trust.md: a t-interval of recorded pairs covers 94 to 96 % at 5 to 20
    pairs). Equal pairs are taken to differ by a nanosecond's worth, not to be infinite evidence. Fewer than two give 1.
    """
    from scipy import stats  # takes most of a second, which commands that judge nothing should not pay

    data = _without_rogues(np.asarray(log_ratios, dtype=np.float64))
    if data.size < 2:
        return 1.0
    error = max(float(data.std(ddof=1)), 1e-6) / math.sqrt(data.size)
    return float(stats.t.sf(abs(float(data.mean())) / error, data.size - 1))


def chance_apart(head: Sequence[float], reference: Sequence[float]) -> float:
    """The same for the logs of two sides that were not measured in pairs: Welch's t."""
    from scipy import stats  # as above

    a, b = np.asarray(head, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if min(a.size, b.size) < 2:
        return 1.0
    parts = [max(float(side.var(ddof=1)), 1e-12) / side.size for side in (a, b)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (a.size - 1) + parts[1] ** 2 / (b.size - 1))
    return float(stats.t.sf(abs(float(a.mean() - b.mean())) / math.sqrt(sum(parts)), freedom))


def _without_rogues(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without the pairs in which something else happened; with all of them where these are too many to be exceptions."""
    distance = np.abs(values - np.median(values))
    spread = 1.4826 * float(np.median(distance))
    rogue = (distance > ROGUE_SPREADS * spread) & (distance > ROGUE_LEAST)
    return values[~rogue] if rogue.sum() <= values.size // 8 else values
