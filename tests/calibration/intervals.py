"""Which interval covers what it says? ``python tests/calibration/intervals.py`` prints the table of docs/trust.md.

Draws runs of 5, 8, 12 and 20 pairs from the pair ratios of unchanged code that were recorded on a real GPU (see
tests/data/README.md), smoothed a little because the pools are finite, and counts how often each interval holds the
centre of its pool.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ratchet.stats import interval

CHECKS = Path(__file__).parents[1] / "data" / "h200_checks.json.gz"
RUNS, RESAMPLES, SEED = 300, 999, 3
SMOOTHING = 0.05
"""Of a pool's standard deviation, added as normal noise."""

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]


def pools() -> dict[str, Floats]:
    """Case → the log ratios of all its pairs."""
    found: dict[str, list[float]] = {}
    for check in json.loads(gzip.decompress(CHECKS.read_bytes())):
        for name, case in check["cases"].items():
            found.setdefault(name, []).extend(pair["log_ratio"] for pair in case["pairs"])
    return {name: np.array(values) for name, values in found.items()}


def trimmed(share: float) -> Callable[..., Floats]:
    return lambda values, axis=-1: np.asarray(stats.trim_mean(values, share, axis=axis))


def bootstrap(share: float, method: str, rng: np.random.Generator) -> Callable[[Floats], Bounds]:
    def bounds(runs: Floats) -> Bounds:
        done = stats.bootstrap(
            (runs,), trimmed(share), axis=-1, n_resamples=RESAMPLES, method=method, rng=rng, vectorized=True, batch=50
        )
        return done.confidence_interval.low, done.confidence_interval.high

    return bounds


def student(runs: Floats) -> Bounds:
    half = stats.t.ppf(0.975, runs.shape[1] - 1) * runs.std(axis=1, ddof=1) / np.sqrt(runs.shape[1])
    return runs.mean(axis=1) - half, runs.mean(axis=1) + half


def main() -> None:
    rng = np.random.default_rng(SEED)
    candidates = {
        "percentile bootstrap, mean": (0.0, bootstrap(0.0, "percentile", rng)),
        "percentile bootstrap, middle half": (0.25, bootstrap(0.25, "percentile", rng)),
        f"percentile bootstrap, {1 - 2 * interval.TRIM:.0%} in the middle (in use)": (
            interval.TRIM,
            bootstrap(interval.TRIM, "percentile", rng),
        ),
        "BCa bootstrap, middle half": (0.25, bootstrap(0.25, "BCa", rng)),
        "Student's t, mean": (0.0, student),
    }
    print(f"{'':52}  " + "  ".join(f"{count:>2} pairs" for count in (5, 8, 12, 20)))
    for name, (share, bounds) in candidates.items():
        figures = []
        for count in (5, 8, 12, 20):
            held = []
            for pool in pools().values():
                runs = rng.choice(pool, (RUNS, count)) + rng.normal(0, SMOOTHING * pool.std(), (RUNS, count))
                low, high = bounds(runs)
                target = float(trimmed(share)(pool))
                held.append(float(np.mean((low <= target) & (target <= high))))
            figures.append(f"{statistics.fmean(held):8.1%}")
        print(f"{name:52}  {'  '.join(figures)}")


if __name__ == "__main__":
    main()
