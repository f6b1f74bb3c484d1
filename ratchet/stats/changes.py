"""A series of log ratios to one anchor, a value for each run → the runs at which its level changed.

The reports of a history call `change_points`. Each value is clipped to the running median ± 3 standard deviations, so that an
outlier is no level of its own; then the cheapest cut into constant stretches is found, where each cut costs `PENALTY`, and more
where noise lasts from run to run: PELT, R. Killick, P. Fearnhead and I. Eckley, Journal of the American Statistical Association
107 (2012), 1590. The package ruptures gives the same cuts (a test compares them), but takes more than a second to load and knows
no weights. How often a change is found, how late, and how often there is none: research/change_points.py and docs/trust.md. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ratchet.stats.estimate import Floats

LEAST_STAY = 5
"""Runs that a level lasts at least: a point that may vanish with the next runs is not reported."""
FEWEST_RUNS = 2 * LEAST_STAY
"""A shorter series has no room for two levels."""
WINDOW = 11
"""Runs of the running median: after five runs at a new level, at the end of a series, the sixth is the majority."""
CLIP = 3.0
"""Standard deviations from the running median to which a value is clipped."""
PENALTY, UNSURE_RUNS = 18.0, 10
"""Squared standard deviations that a change has to explain. Three clipped outliers in five runs explain (3 × 3)² / 5 = 16.

In a series of n runs it is 1 + 10 / n times as much, since there the standard deviation is less well known.
"""
LASTING_WINDOW, MOST_LASTING = 21, 0.5
"""Runs about whose running median noise is taken to vary, and the largest share of it that is taken to stay for a run more."""
LEAST_SD = 5e-4
"""Smaller standard deviations count as this one: in a series of equal values, a step of 0.1 % is no news."""
PLACE = 2 * math.log(2 / 0.01)
"""A change may be wherever the cut explains less than this less than at its best place. True in 99 %, by Ville's inequality."""


@dataclass(frozen=True)
class ChangePoint:
    """A run from which on the level of a series is another one."""

    index: int
    """Place of the first run at the new level."""
    earliest: int
    latest: int
    """The first run at the new level is one of those from ``earliest`` to ``latest``, in 99 of 100 cases."""
    before: float
    after: float
    """Mean log ratio of the stretch up to this change, and of the one after it."""

    @property
    def ratio(self) -> float:
        """Time after the change / time before it."""
        return math.exp(self.after - self.before)


def change_points(log_ratios: Sequence[float], errors: Sequence[float] | None = None) -> list[ChangePoint]:
    """Return the changes of level of an unbroken series, in its order; none of fewer than 10 runs.

    ``errors`` are the standard errors of the values: a run whose error is above the median error counts less.
    Raises ValueError for values that are not finite, negative errors, and lengths that differ.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    own = np.zeros(values.size) if errors is None else np.asarray(errors, dtype=np.float64)
    if own.shape != values.shape or not np.isfinite([values, own]).all() or (own < 0).any():
        raise ValueError("change points need finite values, and as many standard errors as values")
    if values.size < FEWEST_RUNS:
        return []
    sd = max(LEAST_SD, spread_of_runs(values))
    excess = np.maximum(0.0, own**2 - np.median(own) ** 2) / sd**2
    costs = _Costs(_clipped(values, sd * np.sqrt(1 + excess)), 1 / (sd**2 * (1 + excess)))
    penalty = PENALTY * (1 + UNSURE_RUNS / values.size) * lasting_noise(values)
    cuts = [0, *_cuts(costs, penalty), values.size]
    for number in range(1, len(cuts) - 1):  # at the end of a series, `LEAST_STAY` may have moved one away from its best place
        cuts[number] = costs.best_place(cuts[number - 1], cuts[number + 1])
    levels = [costs.level(start, end) for start, end in pairwise(cuts)]
    return [
        ChangePoint(cut, *costs.places(before, cut, after), level, following)
        for before, cut, after, level, following in zip(cuts, cuts[1:], cuts[2:], levels, levels[1:], strict=False)
    ]


def spread_of_runs(values: Floats) -> float:
    """Return the standard deviation of a run, from the differences of neighbours: steps and outliers hardly enter."""
    return float(1.4826 * np.median(np.abs(np.diff(values))) / math.sqrt(2))


def lasting_noise(values: Floats) -> float:
    """Return how many times the squares that chance explains grow because a run's noise stays in the next ones; 1: not at all.

    For noise of which each run keeps ρ of the last one's, the mean of many varies (1 + ρ) / (1 - ρ) times as much as that of
    independent runs, and `spread_of_runs` is too small by √(1 - ρ). ρ is taken about the running median, which no change of level
    enters but within half a window of the ends; half its standard error is taken off, so that independent noise costs nothing.
    """
    if values.size < 2 * LASTING_WINDOW:
        return 1.0
    medians = np.median(sliding_window_view(values, LASTING_WINDOW), axis=1)
    rest = values[LASTING_WINDOW // 2 :][: medians.size] - medians
    limit = 2.5 * 1.4826 * float(np.median(np.abs(rest)))
    rest = np.clip(rest, -limit, limit)
    if not rest.any():
        return 1.0
    kept = float(rest[1:] @ rest[:-1] / (rest @ rest)) + 1 / LASTING_WINDOW  # the median follows the runs a little
    rho = min(max(0.0, kept - 0.5 / math.sqrt(rest.size)), MOST_LASTING)
    return (1 + rho) / (1 - rho) ** 2


def _clipped(values: Floats, sds: Floats) -> Floats:
    """Clip each value to the running median; the first and the last runs share the median of the first and the last window."""
    width = min(WINDOW, values.size)
    medians = np.median(sliding_window_view(values, width), axis=1)
    running = np.pad(medians, (width // 2, values.size - medians.size - width // 2), mode="edge")
    return cast(Floats, np.clip(values, running - CLIP * sds, running + CLIP * sds))


class _Costs:
    """Weighted squares about the mean of any stretch, in variances, from sums up to each place."""

    def __init__(self, values: Floats, weights: Floats) -> None:
        self._shift = float(np.median(values))  # so that squares keep their digits
        moments = np.stack([weights, weights * (values - self._shift), weights * (values - self._shift) ** 2])
        self._sums = np.concatenate([np.zeros((1, 3)), np.cumsum(moments.T, axis=0)])
        self.runs = values.size

    def of(self, start: NDArray[np.int64] | int, end: NDArray[np.int64] | int) -> Floats:
        """Return the cost of the runs from ``start`` up to, not including, ``end``."""
        weight, total, squares = (self._sums[end] - self._sums[start]).T
        return cast(Floats, squares - total**2 / weight)

    def level(self, start: int, end: int) -> float:
        weight, total, _ = self._sums[end] - self._sums[start]
        return float(total / weight) + self._shift

    def best_place(self, start: int, end: int) -> int:
        """Return the place of the cheapest cut in between."""
        candidates = np.arange(start + 1, end)
        return int(candidates[np.argmin(self.of(start, candidates) + self.of(candidates, end))])

    def places(self, start: int, cut: int, end: int) -> tuple[int, int]:
        """Return the first and the last place at which this cut may belong."""
        candidates = np.arange(start + 1, end)
        costs = self.of(start, candidates) + self.of(candidates, end)
        possible = candidates[costs <= costs[cut - start - 1] + PLACE]
        return int(possible[0]), int(possible[-1])


def _cuts(costs: _Costs, penalty: float) -> list[int]:
    """Return the places that cut a series at the least cost, each with `LEAST_STAY` runs at both sides, by PELT."""
    least, last = np.full(costs.runs + 1, np.inf), np.zeros(costs.runs + 1, dtype=np.int64)
    least[0] = -penalty
    starts = np.zeros(0, dtype=np.int64)
    beaten: deque[NDArray[np.int64]] = deque()
    for end in range(LEAST_STAY, costs.runs + 1):
        if np.isfinite(least[end - LEAST_STAY]):
            starts = np.append(starts, end - LEAST_STAY)
        totals = least[starts] + costs.of(starts, end)
        best = int(np.argmin(totals))
        least[end], last[end] = totals[best] + penalty, starts[best]
        beaten.append(starts[totals > least[end]])  # no later end makes them the best again, once a stretch can start here
        if len(beaten) == LEAST_STAY and (gone := beaten.popleft()).size:
            starts = starts[~np.isin(starts, gone)]
    cuts: list[int] = []
    place = int(last[costs.runs])
    while place > 0:
        cuts.append(place)
        place = int(last[place])
    return cuts[::-1]
