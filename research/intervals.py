"""Coverage of six kinds of 95 % intervals: ``python research/intervals.py`` prints a table of research/README.md.

Draws runs of 5, 8, 12 and 20 pairs from the pair ratios of unchanged code that were recorded on a real GPU (see
tests/data/README.md), smoothed a little because the pools are finite, and counts how often each nominal 95 % interval holds the
centre of its pool: the mean, the trimmed mean, or the mean without outliers, whichever it is an interval of.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from common import QUIET, Pools, paired, row, table, today, workers
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from ratchet.core import units
from ratchet.core.judge.estimate import estimate, student_interval

COUNTS = (5, 8, 12, 20)
RESAMPLES, SEED = 999, 3
CONFIDENCE = 0.95
SMOOTHING = 0.05
"""Share of a pool's standard deviation, added as normal noise."""
TRIM = 0.125
"""Share of the values that is cut off at each end."""
BATCH = 100
"""Runs that are resampled at once."""

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]
Bootstrap = Callable[[Floats, Floats], Bounds]


@dataclass(frozen=True)
class Method:
    """An interval for each row of a matrix of runs, and the centre that it is of."""

    bounds: Callable[[Floats, np.random.Generator], Bounds]
    centre: Callable[[Floats], float]


def in_use(runs: Floats, _: np.random.Generator) -> Bounds:
    """The studentised bootstrap as ratchet judges by it, without outliers: 10,000 resamples, always the same ones."""
    estimates = [estimate(run, CONFIDENCE) for run in runs.tolist()]
    return np.array([one.low for one in estimates]), np.array([one.high for one in estimates])


def student(runs: Floats, _: np.random.Generator) -> Bounds:
    """Student's t, without outliers: what ratchet shows of one side alone."""
    bounds = np.array([student_interval(run, CONFIDENCE)[1:] for run in runs.tolist()])
    return bounds[:, 0], bounds[:, 1]


def trimmed_t(runs: Floats, _: np.random.Generator) -> Bounds:
    """Student's t of the trimmed mean and the winsorized spread: Tukey & McLaughlin, Sankhyā A 25 (1963), 331."""
    count = runs.shape[1]
    cut = int(TRIM * count)
    ordered = np.sort(runs, axis=1)
    kept = ordered[:, cut : count - cut]
    winsorized = np.clip(ordered, kept[:, :1], kept[:, -1:])
    error = winsorized.std(axis=1, ddof=1) / ((1 - 2 * cut / count) * np.sqrt(count))
    half = stdtrit(kept.shape[1] - 1, (1 + CONFIDENCE) / 2) * error
    return kept.mean(axis=1) - half, kept.mean(axis=1) + half


def percentile(_: Floats, resampled: Floats) -> Bounds:
    means = resampled.mean(axis=2)
    low, high = np.quantile(means, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2), axis=1)
    return low, high


def accelerated(runs: Floats, resampled: Floats) -> Bounds:
    """BCa: B. Efron, J. Am. Stat. Assoc. 82 (1987), 171, with the acceleration of the jackknife."""
    means, centre, count = resampled.mean(axis=2), runs.mean(axis=1, keepdims=True), runs.shape[1]
    below = ((means < centre).sum(axis=1) + 0.5 * (means == centre).sum(axis=1)) / RESAMPLES
    bias = ndtri(np.clip(below, 1 / (2 * RESAMPLES), 1 - 1 / (2 * RESAMPLES)))
    left_out = (centre * count - runs) / (count - 1)
    apart = left_out.mean(axis=1, keepdims=True) - left_out
    acceleration = (apart**3).sum(axis=1) / (6 * (apart**2).sum(axis=1) ** 1.5)
    normal = ndtri((1 + CONFIDENCE) / 2)
    ends = []
    for end in (-normal, normal):
        moved = bias + (bias + end) / (1 - acceleration * (bias + end))
        ends.append(_quantiles(means, ndtr(moved)))
    return ends[0], ends[1]


def studentized(runs: Floats, resampled: Floats) -> Bounds:
    """Bootstrap-t: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 12.5, with outliers, drawn anew."""
    count, centre = runs.shape[1], runs.mean(axis=1, keepdims=True)
    errors = resampled.std(axis=2, ddof=1) / np.sqrt(count)
    errors = np.maximum(errors, 1e-12)  # of a resample of one value alone
    pivots = (resampled.mean(axis=2) - centre) / errors
    low, high = np.quantile(pivots, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2), axis=1)
    error = runs.std(axis=1, ddof=1) / np.sqrt(count)
    return centre[:, 0] - high * error, centre[:, 0] - low * error


def _quantiles(values: Floats, shares: Floats) -> Floats:
    """Return a quantile of each row, with its own share."""
    places = shares * (values.shape[1] - 1)
    ordered, whole = np.sort(values, axis=1), np.floor(places).astype(int)
    rows, above = np.arange(len(values)), np.minimum(whole + 1, values.shape[1] - 1)
    part = places - whole
    return np.asarray(ordered[rows, whole] * (1 - part) + ordered[rows, above] * part)


def resampling(bootstrap: Bootstrap) -> Callable[[Floats, np.random.Generator], Bounds]:
    def bounds(runs: Floats, rng: np.random.Generator) -> Bounds:
        parts = []
        for batch in np.array_split(runs, max(1, len(runs) // BATCH)):
            drawn = rng.integers(0, batch.shape[1], (len(batch), RESAMPLES, batch.shape[1]))
            parts.append(bootstrap(batch, np.take_along_axis(batch[:, None, :], drawn, axis=2)))
        return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])

    return bounds


def _mean(pool: Floats) -> float:
    return float(pool.mean())


def _kept(pool: Floats) -> float:
    return student_interval(pool.tolist(), CONFIDENCE)[0]


def _trimmed(pool: Floats) -> float:
    cut = int(TRIM * len(pool))
    return float(np.sort(pool)[cut : len(pool) - cut].mean())


METHODS = {
    "**bootstrap-t, without outliers (in use)**": Method(in_use, _kept),
    "Student's t, without outliers": Method(student, _kept),
    f"trimmed t, {units.threshold(TRIM)} at each end": Method(trimmed_t, _trimmed),
    "percentile bootstrap": Method(resampling(percentile), _mean),
    "BCa bootstrap": Method(resampling(accelerated), _mean),
    "bootstrap-t": Method(resampling(studentized), _mean),
}


def logs(pools: Pools) -> dict[str, Floats]:
    return {name: np.array([pair.log_ratio for pair in pairs]) for name, pairs in pools.items()}


def together(pools: dict[str, Floats]) -> dict[str, Floats]:
    """One pool of all, each case centred and scaled to a spread of 0.3 %: six values alone are a coarse noise."""
    scaled = [(pool - pool.mean()) / pool.std(ddof=1) * 0.003 for pool in pools.values()]
    return {"all": np.concatenate(scaled)}


SOURCES: dict[str, Callable[[], dict[str, Floats]]] = {
    "h200_checks, 144 pairs of each of 10 cases, and 64 of rows_8k of h200_graph": lambda: logs(today()),
    "h200_paired, 48 pairs of 8 cases together, each case centred and scaled": lambda: together(logs(paired(*QUIET))),
}


def coverage(source: str, method: str, count: int, runs: int) -> list[float]:
    """Return for each case the share of its runs whose interval holds the centre. All methods get the same runs."""
    pools = SOURCES[source]()
    rng = np.random.default_rng((SEED, count))
    held = []
    for pool in pools.values():
        drawn = rng.choice(pool, (max(1, runs // len(pools)), count))
        drawn += rng.normal(0, SMOOTHING * pool.std(), drawn.shape)
        low, high = METHODS[method].bounds(drawn, np.random.default_rng((SEED, count, 1)))
        centre = METHODS[method].centre(pool)
        held.append(float(np.mean((low <= centre) & (centre <= high))))
    return held


def shown(held: list[float]) -> str:
    mean = units.percent(statistics.fmean(held), 1)
    return f"{mean} ({100 * min(held):.1f} to {100 * max(held):.1f})" if len(held) > 1 else mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8000, help="runs to draw for each figure, of all cases together")
    runs = parser.parse_args().runs
    started = time.perf_counter()
    with workers() as pool:
        for source in SOURCES:
            print(f"{source}: mean coverage of a nominal 95 % interval (of the worst and the best case), {runs:,} runs\n")
            table("interval", *(f"{count} pairs" for count in COUNTS))
            held = {method: [pool.submit(coverage, source, method, count, runs) for count in COUNTS] for method in METHODS}
            for method, of_counts in held.items():
                row(method, *(shown(share.result()) for share in of_counts))
            print()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
