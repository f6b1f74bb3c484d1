"""A series of log ratios to one anchor, a value for each run → the runs at which its level changed.

The reports of a history call `change_points`. Each value is clipped to the running median ± 3 standard deviations, so that an
outlier is no level of its own; then the cheapest cut into constant stretches is found, where each cut costs `PENALTY`, and more
where noise lasts from run to run: PELT, R. Killick, P. Fearnhead and I. Eckley, Journal of the American Statistical Association
107 (2012), 1590. The package ruptures gives the same cuts (a test compares them), but knows no weights: decision 0024. Levels,
and which run beside a cut is the first, come from the values themselves: the running median does not know the last few runs.
How often a change is found, how late, and how often there is none: change_points.py and README.md in research/. Pure.
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

from ratchet.core.judge.estimate import Floats

LEAST_STAY = 5
"""Runs that a level lasts at least: a point that may vanish with the next runs is not reported."""
FEWEST_RUNS = 2 * LEAST_STAY
"""A shorter series has no room for two levels."""
WINDOW = 11
"""Runs of the running median: after five runs at a new level, at the end of a series, the sixth is the majority."""
CLIP = 3.0
"""Standard deviations from the running median to which a value is clipped."""
PENALTY = 18.5
"""Squared standard deviations that a change has to explain. Three clipped outliers in five runs explain (3 × 3)² / 5 = 16."""
LARGEST_DIFFERENCE = 3.0
"""Neighbours that differ by more robust standard deviations do not enter the standard deviation of a run."""
LASTING_WINDOW, MOST_LASTING = 21, 0.7
"""Runs about whose running median noise is taken to vary, and the largest share of it that is taken to stay for a run more."""
SET_ASIDE = 6
"""Runs in a row that show most noise that stays, and do not count: else a level that lasts 6 to 15 runs would hide itself."""
ASSUMED_LASTING, ASSUMED_RUNS = 0.5, 12
"""The share of noise that is taken to stay before anything was seen, and the number of runs that this counts for."""
SURE, CAUTIOUS = 1.1, 0.8
"""Standard errors of that share: below so many it counts as none, else so many are added to it."""
LEAST_SD = 5e-4
"""Smaller standard deviations count as this one: in a series of equal values, a step of 0.1 % is no news."""
NORMAL = 1.96
"""Standard errors from the middle of a 95 % interval to its ends."""
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
    """Mean log ratio of the stretch up to this change, and of the one after it, outliers clipped to ±3 standard deviations."""
    error: float
    """Standard error of their difference."""

    @property
    def ratio(self) -> float:
        """Time after the change / time before it."""
        return math.exp(self.after - self.before)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the ratio."""
        low, high = (math.exp(self.after - self.before + sign * NORMAL * self.error) for sign in (-1, 1))
        return low, high


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
    sd = max(LEAST_SD, sd_of_runs(values))
    excess = np.maximum(0.0, own**2 - np.median(own) ** 2) / sd**2
    sds, weights, lasting = sd * np.sqrt(1 + excess), 1 / (sd**2 * (1 + excess)), lasting_noise(values, sd)
    cuts = [0, *_cuts(_Costs(_clipped(values, sds), weights), PENALTY * lasting), values.size]
    costs = _Costs(_near_levels(values, sds, cuts), weights)
    for number in range(1, len(cuts) - 1):  # at the end of a series, `LEAST_STAY` may have moved one away from its best place
        cuts[number] = costs.best_place(cuts[number - 1], cuts[number + 1])
    stretches = [np.s_[start:end] for start, end in pairwise(cuts)]
    levels = [float(np.average(_about_median(values[each], sds[each]), weights=weights[each])) for each in stretches]
    variances = [lasting / float(weights[each].sum()) for each in stretches]
    return [
        ChangePoint(
            cut,
            *costs.places(before, cut, after),
            before=levels[number],
            after=levels[number + 1],
            error=math.sqrt(variances[number] + variances[number + 1]),
        )
        for number, (before, cut, after) in enumerate(zip(cuts, cuts[1:], cuts[2:], strict=False))
    ]


def level_of(log_ratios: Sequence[float]) -> float:
    """Return the level of a series without a change, of two runs or more."""
    values = np.asarray(log_ratios, dtype=np.float64)
    return float(np.mean(_about_median(values, max(LEAST_SD, sd_of_runs(values)))))


def spread_of_runs(values: Floats) -> float:
    """Return the standard deviation of a run, from the differences of neighbours: steps and outliers hardly enter."""
    return float(1.4826 * np.median(np.abs(np.diff(values))) / math.sqrt(2))


def sd_of_runs(values: Floats) -> float:
    """Return the standard deviation of a run, from the differences of neighbours that a step or an outlier does not reach.

    Of 60 runs it is off by 12 %, `spread_of_runs` by 17 %: the price of a change goes with its square.
    """
    differences = np.abs(np.diff(values))
    near = differences[differences <= LARGEST_DIFFERENCE * math.sqrt(2) * spread_of_runs(values)]
    z = LARGEST_DIFFERENCE
    cut_off = 2 * z * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / math.erf(z / math.sqrt(2))  # of a normal variance
    return math.sqrt(float(near @ near) / near.size / 2 / (1 - cut_off))


def lasting_noise(values: Floats, sd: float) -> float:
    """Return how many times the squares that chance explains grow because a run's noise stays in the next ones; 1: not at all.

    For noise of which each run keeps ρ of the last one's, the mean of many varies (1 + ρ) / (1 - ρ) times as much as that of
    independent runs, and ``sd``, from `sd_of_runs`, is too small by √(1 - ρ); by more where most neighbours share an offset, and
    the steps between offsets look like outliers. A short series does not show ρ, and most false points appeared
    there: so `ASSUMED_LASTING` counts like some more runs. A ρ that is not clearly above zero counts as zero, so that a change in
    independent noise is not found later.
    """
    rest = _about_running_median(values)
    squares, products = rest**2, np.append(0.0, rest[1:] * rest[:-1])
    correction = 1 / LASTING_WINDOW  # the median follows the runs a little
    if rest.size > 2 * SET_ASIDE:  # a level of a few runs is a change that may be there, and not noise that stays
        start = int(np.argmax(sliding_window_view(products, SET_ASIDE).sum(axis=1)))
        products[start : start + SET_ASIDE + 1] = 0.0
        squares = np.delete(squares, np.s_[start : start + SET_ASIDE])
        correction += 3 / squares.size  # as simulated: what independent noise loses by that
    seen = float(products.sum() / squares.sum()) + correction if squares.any() else 0.0
    rho = (squares.size * seen + ASSUMED_RUNS * ASSUMED_LASTING) / (squares.size + ASSUMED_RUNS)
    error = math.sqrt(squares.size) / (squares.size + ASSUMED_RUNS)
    if rho < SURE * error:
        return 1.0
    rho = min(rho + CAUTIOUS * error, MOST_LASTING)
    spread = float(squares.mean()) / sd**2 if squares.size else 0.0
    return (1 + rho) / (1 - rho) * max(spread, 1 / (1 - rho))


def _about_running_median(values: Floats) -> Floats:
    """Return the noise of the runs up to half a window before the last, clipped; none where a series is no longer than a window.

    No change of level enters, not even one in the last runs. The first half of a window shares its median.
    """
    half = LASTING_WINDOW // 2
    if values.size <= LASTING_WINDOW:
        return np.zeros(0)
    medians = np.median(sliding_window_view(values, LASTING_WINDOW), axis=1)
    rest = values[: medians.size + half] - np.pad(medians, (half, 0), mode="edge")
    limit = 2.5 * 1.4826 * float(np.median(np.abs(rest)))
    return cast(Floats, np.clip(rest, -limit, limit))


def _clipped(values: Floats, sds: Floats) -> Floats:
    """Clip each value to the running median; the first and the last runs share the median of the first and the last window."""
    width = min(WINDOW, values.size)
    medians = np.median(sliding_window_view(values, width), axis=1)
    running = np.pad(medians, (width // 2, values.size - medians.size - width // 2), mode="edge")
    return cast(Floats, np.clip(values, running - CLIP * sds, running + CLIP * sds))


def _about_median(values: Floats, sds: Floats | float) -> Floats:
    """Clip the values of one stretch to its own median."""
    return cast(Floats, np.clip(values, np.median(values) - CLIP * sds, np.median(values) + CLIP * sds))


def _near_levels(values: Floats, sds: Floats, cuts: Sequence[int]) -> Floats:
    """Clip each value to the nearest of the levels of its own stretch and of those beside it.

    So a step is as large as it is when its place is sought, however few runs it is old.
    """
    stretches = [np.s_[start:end] for start, end in pairwise(cuts)]
    medians = np.array([np.median(values[each]) for each in stretches])
    near = np.empty_like(values)
    for number, each in enumerate(stretches):
        own = medians[max(0, number - 1) : number + 2]
        nearest = own[np.abs(values[each, None] - own).argmin(axis=1)]
        near[each] = np.clip(values[each], nearest - CLIP * sds[each], nearest + CLIP * sds[each])
    return near


class _Costs:
    """Weighted squares about the mean of any stretch, in variances, less those about zero, which are in all cuts alike."""

    def __init__(self, values: Floats, weights: Floats) -> None:
        moments = np.stack([weights, weights * (values - np.median(values))])  # so that squares keep their digits
        self._sums = np.concatenate([np.zeros((1, 2)), np.cumsum(moments.T, axis=0)])
        self.runs = values.size

    def of(self, start: NDArray[np.int64] | int, end: NDArray[np.int64] | int) -> Floats:
        """Return the cost of the runs from ``start`` up to, not including, ``end``."""
        weight, total = (self._sums[end] - self._sums[start]).T
        return cast(Floats, -(total**2) / weight)

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
