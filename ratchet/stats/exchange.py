"""The exact test for pairs: had the sides of some been exchanged, how often would the mean be as far off?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST = 40
"""Values beyond which Student's t needs no help: the mean of so many is normal enough."""

Floats = NDArray[np.float64]


def exchange_chance(values: Floats) -> float:
    """Share of the 2ⁿ ways to give each value a sign whose sum is at least as far in the direction of the values' own.

    Unchanged code gives a pair either sign with the same probability, whatever its noise is like, so this p-value needs
    no normal distribution: R. A. Fisher, The Design of Experiments (1935), section 21. It is never below 2⁻ⁿ. Halves are
    enumerated apart, so n = 40 takes 2²⁰ sums and not 2⁴⁰. Raises ValueError for more than that.
    """
    if values.size > MOST:
        raise ValueError(f"{values.size} values have too many exchanges to count: at most {MOST}")
    observed = abs(float(values.sum()))
    least = observed - 1e-9 * float(np.abs(values).sum())  # sums that are equal but for rounding are equal
    half = values.size // 2
    one, other = _signed_sums(values[:half]), np.sort(_signed_sums(values[half:]))
    at_least = other.size - np.searchsorted(other, least - one, side="left")
    return min(0.5, float(at_least.sum()) / 2.0**values.size)  # equal sums count for both directions


def _signed_sums(values: Floats) -> Floats:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums - value, sums + value))
    return sums
