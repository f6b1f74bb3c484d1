"""How well changes of level are found in a history: ``python research/change_points.py`` prints the tables of research/README.md.

Draws histories of one case, plants steps, and asks `ratchet.history.changes` for them: which share is found within five runs of
its place, how many of the points are false, how many runs after a step its point appears, and how often one appears in a
history without any; and which share of levels that end again is found. The constants of that file were chosen on the histories
of development; those kept aside were only drawn afterwards, for a first version of the rule and for the present one. ``--otava
PYTHON`` asks Apache Otava too, which that interpreter has (``pip install apache-otava==0.8.0``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from common import QUIET, checks, paired, row, table
from numpy.typing import NDArray

from ratchet.core.judge.comparison import Pair
from ratchet.core.judge.estimate import without_outliers
from ratchet.history.changes import change_points

RUNS, LEAST_GAP, MEAN_GAP = 500, 20, 100
"""Runs of a history, and between its steps."""
BEFORE, AFTER = 60, 15
"""Runs before and after the step of a history whose last run is looked at again and again."""
NEAR = 5
"""A point this many runs from a step is that step's."""
PAIRS = 6
"""Pairs of a run that is drawn from recorded ones."""
OUTLIERS, OUTLIER_SIZES = 0.01, (0.03, 0.3)
"""Share of runs that are off, and by what."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesNoise:
    """Log ratios of runs of unchanged code, with their standard errors where they are known."""

    values: Floats
    errors: Floats | None = None


Draw = Callable[[np.random.Generator, int], SeriesNoise]


def normal(sd: float) -> Draw:
    """Normal noise, with outliers."""
    return lambda rng, runs: SeriesNoise(with_outliers(rng, rng.normal(0, sd, runs)))


def with_outliers(rng: np.random.Generator, values: Floats, length: int = 1) -> Floats:
    """Move one run in a hundred by 3 % to 30 %; with a ``length``, that many neighbours at a time."""
    starts = rng.random(values.size) < OUTLIERS / length
    hit = np.convolve(starts, np.ones(length))[: values.size] > 0
    sizes = rng.uniform(*OUTLIER_SIZES, values.size) * rng.choice([-1, 1, 1, 1], values.size)
    return np.where(hit, values + sizes, values)


def recorded(cases: Sequence[Sequence[Pair]]) -> Draw:
    """Runs of pairs that an H200 measured of unchanged code: each history is of one of these cases."""
    pools = [np.array([pair.log_ratio for pair in pairs]) for pairs in cases]

    def draw(rng: np.random.Generator, runs: int) -> SeriesNoise:
        pool = pools[rng.integers(len(pools))]
        drawn = rng.choice(pool, (runs, PAIRS)) * rng.choice([-1, 1], (runs, 1))
        kept = [without_outliers(run) for run in drawn]
        values, spreads = (np.array([figure(run) for run in kept]) for figure in (np.mean, partial(np.std, ddof=1)))
        return SeriesNoise(with_outliers(rng, values), spreads / np.sqrt([run.size for run in kept]))

    return draw


def heavy_tails(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Student's t with three degrees of freedom, as wide in the middle as normal noise of 0.2 %."""
    return SeriesNoise(with_outliers(rng, 0.002 * rng.standard_t(3, runs)))


def in_bursts(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Outliers come two at a time, as on a machine that something else keeps busy."""
    return SeriesNoise(with_outliers(rng, rng.normal(0, 0.003, runs), length=2))


def in_threes(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Outliers come three at a time."""
    return SeriesNoise(with_outliers(rng, rng.normal(0, 0.002, runs), length=3))


def persistent(kept: float) -> Draw:
    """Each run's noise holds so much of that of the run before; 0.3 % in all."""

    def draw(rng: np.random.Generator, runs: int) -> SeriesNoise:
        fresh, values = rng.normal(0, 0.003 * np.sqrt(1 - kept**2), runs), np.zeros(runs)
        for run in range(1, runs):
            values[run] = kept * values[run - 1] + fresh[run]
        return SeriesNoise(with_outliers(rng, values))

    return draw


def modes(stays: float) -> Draw:
    """Runs in two modes 0.6 % apart, beside noise of 0.2 %; one stays in that of the run before, else a coin chooses."""

    def draw(rng: np.random.Generator, runs: int) -> SeriesNoise:
        mode = rng.random(runs) < 0.5
        stay = rng.random(runs) < stays
        for run in range(1, runs):
            mode[run] = mode[run - 1] if stay[run] else mode[run]
        return SeriesNoise(with_outliers(rng, rng.normal(0, 0.002, runs) + 0.006 * mode))

    return draw


def means_of(count: int) -> Draw:
    """Each run's noise is the mean of what so many runs in a row bring; 0.3 % in all."""

    def draw(rng: np.random.Generator, runs: int) -> SeriesNoise:
        fresh = rng.normal(0, 0.003 * np.sqrt(count), runs + count - 1)
        return SeriesNoise(with_outliers(rng, np.convolve(fresh, np.ones(count) / count, "valid")))

    return draw


def heavy_and_persistent(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Each run keeps 0.35 of the noise of the one before, and what it brings is Student's t with three degrees of freedom."""
    fresh, values = 0.002 * rng.standard_t(3, runs), np.zeros(runs)
    for run in range(1, runs):
        values[run] = 0.35 * values[run - 1] + fresh[run]
    return SeriesNoise(with_outliers(rng, values))


def half_persistent(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Half of the variance is independent, of the other half each run keeps 0.7; 0.3 % in all."""
    slow, fresh = np.zeros(runs), rng.normal(0, 0.003 * np.sqrt(0.5 * (1 - 0.7**2)), runs)
    for run in range(1, runs):
        slow[run] = 0.7 * slow[run - 1] + fresh[run]
    return SeriesNoise(with_outliers(rng, slow + rng.normal(0, 0.003 * np.sqrt(0.5), runs)))


def three_modes(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Runs in one of three modes 0.4 % apart, beside noise of 0.2 %; half of them stay in that of the run before."""
    mode = rng.integers(3, size=runs)
    stay = rng.random(runs) < 0.5
    for run in range(1, runs):
        mode[run] = mode[run - 1] if stay[run] else mode[run]
    return SeriesNoise(with_outliers(rng, rng.normal(0, 0.002, runs) + 0.004 * mode))


def sessions(inner: Draw, offset: float, begin: float = 0.5) -> Draw:
    """Noise with an offset for all runs of a session; this share of runs begins another one."""

    def draw(rng: np.random.Generator, runs: int) -> SeriesNoise:
        noise = inner(rng, runs)
        number = np.cumsum(rng.random(runs) < begin)
        return SeriesNoise(noise.values + rng.normal(0, offset, runs + 1)[number], noise.errors)

    return draw


def day_and_night(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """A wave of ±0.2 % in 24 runs, beside noise of 0.2 %."""
    wave = 0.002 * np.sin(2 * np.pi * (np.arange(runs) / 24 + rng.random()))
    return SeriesNoise(with_outliers(rng, rng.normal(0, 0.002, runs) + wave))


def four_machines(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """Each run is on any of four machines, each with an offset of its own (0.3 %), beside noise of 0.2 %."""
    offsets = rng.normal(0, 0.003, 4)
    return SeriesNoise(with_outliers(rng, rng.normal(0, 0.002, runs) + offsets[rng.integers(4, size=runs)]))


def of_unlike_runs(rng: np.random.Generator, runs: int) -> SeriesNoise:
    """One run in five has few pairs, and three times the noise of the others; its standard error says so."""
    errors = np.where(rng.random(runs) < 0.2, 0.009, 0.003)
    return SeriesNoise(with_outliers(rng, rng.normal(0, errors)), errors)


DEVELOPMENT: dict[str, Draw] = {f"normal, {sd:.1%}": normal(sd) for sd in (0.001, 0.002, 0.004)} | {
    "normal, 0.3 %": normal(0.003),
    "H200": recorded(list(checks().values())[::2]),
    "H200, prototype": recorded(list(paired(*QUIET).values())),
    "heavy tails": heavy_tails,
    "bursts": in_bursts,
    "keeps 0.3": persistent(0.3),
    "keeps 0.5": persistent(0.5),
    "modes, stay 0.6": modes(0.6),
    "unlike runs": of_unlike_runs,
    "normal, 0.25 %": normal(0.0025),
    "H200, other cases": recorded(list(checks().values())[1::2]),
    "bursts of three": in_threes,
    "keeps 0.2": persistent(0.2),
    "keeps 0.4": persistent(0.4),
    "modes, stay 0.4": modes(0.4),
    "means of four": means_of(4),
}
"""Those that the constants were chosen with, or that had been looked at before."""
ASIDE_AT_FIRST: dict[str, Draw] = {
    "normal, 0.35 %": normal(0.0035),
    "H200, sessions": sessions(recorded(list(checks().values())), 0.0015),
    "sessions": sessions(normal(0.002), 0.002),
    "four machines": four_machines,
    "keeps 0.35, heavy tails": heavy_and_persistent,
    "half keeps 0.7": half_persistent,
    "three modes, stay 0.5": three_modes,
    "means of two": means_of(2),
    "means of three": means_of(3),
    "day and night": day_and_night,
}
"""Drawn after the constants were chosen; the spread about the running median came in because of "H200, sessions"."""
KEPT_ASIDE: dict[str, Draw] = {
    "H200, prototype, sessions of three": sessions(recorded(list(paired(*QUIET).values())), 0.002, 1 / 3),
    "sessions of four": sessions(normal(0.001), 0.0025, 1 / 4),
    "keeps 0.6": persistent(0.6),
}
"""Drawn once, with the code as it is."""


Finder = Callable[[Sequence[SeriesNoise]], list[list[int]]]


def ratchet(histories: Sequence[SeriesNoise]) -> list[list[int]]:
    """Return the points that ratchet finds in each history."""
    return [[point.index for point in change_points(one.values.tolist(), errors_of(one))] for one in histories]


def errors_of(one: SeriesNoise) -> list[float] | None:
    return None if one.errors is None else one.errors.tolist()


def otava(python: Path) -> Finder:
    """Return a finder that asks Apache Otava with its own settings, in another interpreter."""
    program = (
        "import json, sys; from otava.analysis import compute_change_points as find\n"
        "print(json.dumps([[int(p.index) for p in find(s, window_len=50, max_pvalue=0.001)[0]] for s in json.load(sys.stdin)]))"
    )

    def find(histories: Sequence[SeriesNoise]) -> list[list[int]]:
        text = json.dumps([np.exp(one.values).tolist() for one in histories])
        done = subprocess.run([python, "-c", program], input=text, capture_output=True, text=True, check=True)
        points: list[list[int]] = json.loads(done.stdout)
        return points

    return find


def planted(rng: np.random.Generator, draw: Draw, size: float) -> tuple[SeriesNoise, list[int]]:
    """Return a history with steps of this size, up and down, and their places."""
    gaps = LEAST_GAP + rng.exponential(MEAN_GAP - LEAST_GAP, RUNS // LEAST_GAP)
    places = [int(place) for place in np.cumsum(gaps) if place < RUNS - LEAST_GAP]
    noise = draw(rng, RUNS)
    level = sum((np.log1p(size) * rng.choice([-1, 1]) * (np.arange(RUNS) >= place) for place in places), np.zeros(RUNS))
    return SeriesNoise(noise.values + level, noise.errors), places


def f1(found: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> float:
    """Return the harmonic mean of the shares of steps that were found and of points that are true."""
    hits = sum(matches(points, places) for points, places in zip(found, true, strict=True))
    return 2 * hits / max(1, sum(map(len, found)) + sum(map(len, true)))


def matches(points: Sequence[int], places: Sequence[int]) -> int:
    """Count the steps that have a point of their own near them."""
    left = list(points)
    for place in places:
        near = min(left, key=lambda point: abs(point - place), default=None)
        if near is not None and abs(near - place) <= NEAR:
            left.remove(near)
    return len(points) - len(left)


def delays(find: Finder, rng: np.random.Generator, draw: Draw, size: float, count: int) -> list[int]:
    """Return how many runs after each step its point appears; `AFTER` + 1 where none does."""
    found = []
    for _ in range(count):
        noise = draw(rng, BEFORE + AFTER)
        values = noise.values + np.log1p(size) * (np.arange(BEFORE + AFTER) >= BEFORE)
        ends = range(BEFORE + 1, BEFORE + AFTER + 1)
        points = find([SeriesNoise(values[:end], None if noise.errors is None else noise.errors[:end]) for end in ends])
        seen = [number for number, one in enumerate(points, 1) if any(abs(point - BEFORE) <= NEAR for point in one)]
        found.append(seen[0] if seen else AFTER + 1)
    return found


def short_levels(find: Finder, rng: np.random.Generator, size: float, length: int, count: int) -> float:
    """Return the share of levels of so many runs in normal noise of 0.2 % whose begin and end are found, in 80 runs."""
    level = np.log1p(size) * ((np.arange(80) >= 40) & (np.arange(80) < 40 + length))
    return float(
        np.mean([len(points) == 2 for points in find([SeriesNoise(rng.normal(0, 0.002, 80) + level) for _ in range(count)])])
    )


def false_alarms(find: Finder, rng: np.random.Generator, draw: Draw, runs: int) -> float:
    """Return how many points appear in 1,000 runs without a step, if somebody looks after each run."""
    length, alarms = 200, 0
    for _ in range(max(1, runs // length)):
        noise = draw(rng, length)
        known: set[int] = set()
        for points in find(
            [SeriesNoise(noise.values[:end], None if noise.errors is None else noise.errors[:end]) for end in range(8, length)]
        ):
            alarms += sum(all(abs(point - other) > NEAR for other in known) for point in points)
            known.update(points)
    return 1000 * alarms / (max(1, runs // length) * length)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the histories to draw")
    parser.add_argument("--otava", type=Path, metavar="PYTHON", help="interpreter that has Apache Otava")
    parser.add_argument("--only", choices=["development", "first", "aside"])
    options = parser.parse_args()
    finders: dict[str, Finder] = {"ratchet": ratchet} | ({"Otava": otava(options.otava)} if options.otava else {})
    count = max(1, round(100 * options.scale))
    groups = ((1, "development", DEVELOPMENT), (2, "first", ASIDE_AT_FIRST), (4, "aside", KEPT_ASIDE))
    for seed, name, families in groups:
        if options.only not in (None, name):
            continue
        print(f"\n{name}: {count} histories of {RUNS} runs each\n")
        table("noise", "by", "F1, 2 %", "F1, 1 %", "false in 1,000", "while it grows", "delay, 2 %", "delay, 1 %", "90 % at 1 %")
        for family, draw in families.items():
            for label, find in finders.items():
                rng = np.random.default_rng((seed, len(family)))
                scores = []
                for size in (0.02, 0.01):
                    histories = [planted(rng, draw, size) for _ in range(count)]
                    scores.append(f1(find([one for one, _ in histories]), [places for _, places in histories]))
                still = find([draw(rng, RUNS) for _ in range(4 * count)])
                steady = sum(map(len, still)) / (4 * count * RUNS) * 1000
                cells = [f"{score:.3f}" for score in scores] + [f"{steady:.2f}"]
                if label == "ratchet":  # the others would start a process for each of thousands of histories
                    late = [delays(find, rng, draw, size, count) for size in (0.02, 0.01)]
                    cells += [f"{false_alarms(find, rng, draw, 100 * count):.2f}", *(f"{np.median(one):g}" for one in late)]
                    cells += [f"{np.quantile(late[1], 0.9):g}"]
                row(family, label, *cells, *["–"] * (7 - len(cells)))
    lengths = (6, 8, 10, 12, 15)
    print("\nlevels that last so many runs of 80, and end: share of which both changes are found\n")
    table("size", "by", *map(str, lengths))
    for size in (0.006, 0.01, 0.02):
        for label, find in finders.items():
            shares = (short_levels(find, np.random.default_rng((3, length)), size, length, 3 * count) for length in lengths)
            row(f"{size:.1%}", label, *(f"{share:.0%}" for share in shares))


if __name__ == "__main__":
    main()
