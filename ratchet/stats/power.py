"""What a measurement could have found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from ratchet.stats.interval import TRIM

POWER = 0.8


def detectable_effect(log_ratios: Sequence[float], confidence: float) -> float:
    """The smallest slowdown, as a fraction, that these pairs would have shown to differ from 0 four times in five (MDE).

    From the standard error of the trimmed mean (Tukey and McLaughlin 1963: the winsorised variance) and Student's t.
    Infinite evidence is never claimed: fewer than two pairs give 1.0, that is 100 %.
    """
    data = np.sort(np.asarray(log_ratios, dtype=np.float64))
    count = data.size
    cut = int(TRIM * count)
    freedom = count - 2 * cut - 1
    if freedom < 1:
        return 1.0
    winsorised = np.clip(data, data[cut], data[count - cut - 1])
    error = float(np.std(winsorised, ddof=1)) / ((1 - 2 * cut / count) * math.sqrt(count))
    need = float(stats.t.ppf((1 + confidence) / 2, freedom) + stats.t.ppf(POWER, freedom)) * error
    return max(1e-6, min(1.0, math.expm1(min(need, 0.7))))
