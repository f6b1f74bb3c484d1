"""Cliff's delta: how often one side beats the other. An effect size to read, never the gate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def cliffs_delta(head: Sequence[float], reference: Sequence[float]) -> float:
    """P(head > reference) − P(head < reference) over all pairs of values, in O(n log n).

    −1: every head time is below every reference time; +1: above; 0: no tendency. Source: N. Cliff, Psychological
    Bulletin 114 (1993), 494. Raises ValueError where a side is empty or holds NaN.
    """
    a, b = np.asarray(head, dtype=np.float64), np.sort(np.asarray(reference, dtype=np.float64))
    if a.size == 0 or b.size == 0 or np.isnan(a).any() or np.isnan(b).any():
        raise ValueError("Cliff's delta needs values on both sides, none of them NaN")
    above = np.searchsorted(b, a, side="left").sum()
    below = (b.size - np.searchsorted(b, a, side="right")).sum()
    return float((int(above) - int(below)) / (a.size * b.size))
