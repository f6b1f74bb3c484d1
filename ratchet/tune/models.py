"""The models that guide a search: trees and a Gaussian process, and the history that they learn from.

`ratchet.tune.strategies` asks them what to try next. Pure: random draws come from the generator that they are given.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratchet.tune.space import Candidates, Codes, Places, Value


class SearchHistory:
    """The candidates and the answers so far."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.taken = np.zeros(candidates.count, dtype=np.bool_)
        """Candidates that were handed out or answered: not to be proposed again."""
        self.left = candidates.count
        self.values: dict[int, float | None] = {}
        """Candidate → its milliseconds, or None where it failed; in the order of the answers."""
        self.pending: dict[int, None] = {}
        """Candidates handed out, in order, and not answered yet."""

    def take(self, place: int) -> None:
        """Hand a candidate out."""
        if self.taken[place]:
            raise ValueError(f"candidate {place} was handed out before")
        self.pending[place] = None
        self._mark(place)

    def know(self, place: int, value: float | None) -> None:
        """Take in an answer. A later one for the same candidate replaces the first."""
        self.pending.pop(place, None)
        self.values[place] = value
        if not self.taken[place]:
            self._mark(place)

    def _mark(self, place: int) -> None:
        self.taken[place] = True
        self.left -= 1

    def untaken(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.flatnonzero(~self.taken)

    @property
    def best(self) -> int | None:
        """The fastest candidate so far."""
        timed = ((value, place) for place, value in self.values.items() if value is not None)
        return min(timed, default=(0.0, None))[1]


Floats32 = NDArray[np.float32]

MOST_PAIRS = 28
"""Most pairs of parameters whose product and ratio become columns: all pairs of eight parameters."""
SMALLEST = 0.5
"""Stands for 0 where a logarithm is taken."""


class Features:
    """Candidates as points: numbers by their rank, from 0 to 1; other values each in a column of its own.

    Further columns are the logarithms of the product and the ratio of two parameters: the threads of a block, for example, are a
    product. Which pairs mean something is not known, so all pairs of parameters with three or more numbers, none below 0, are
    used, or `MOST_PAIRS` random ones of them. Parameters with one value have no column.
    """

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._codes = candidates.codes
        options = list(candidates.space.parameters.values())
        self._own = {column: _table(values) for column, values in enumerate(options) if len(values) > 1}
        self._logs = {
            column: np.log2(np.maximum(np.array(values, dtype=np.float32), SMALLEST))
            for column, values in enumerate(options)
            if len(values) > 2 and all(isinstance(value, int | float) and value >= 0 for value in values)
        }
        pairs = list(itertools.combinations(range(len(self._logs)), 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[at] for at in sorted(rng.choice(len(pairs), MOST_PAIRS, replace=False))]
        self._first = [first for first, _ in pairs]
        self._second = [second for _, second in pairs]

    def of(self, places: Places) -> Floats32:
        """Return the points of these candidates, shape (places, columns)."""
        codes = self._codes[places]
        parts = [np.zeros((len(places), 0), dtype=np.float32)]
        parts += [table[codes[:, column]] for column, table in self._own.items()]
        if self._first:
            logs = np.stack([table[codes[:, column]] for column, table in self._logs.items()], axis=1)
            first, second = logs[:, self._first], logs[:, self._second]
            parts += [first + second, first - second]
        return np.concatenate(parts, axis=1)


def _table(values: Sequence[Value]) -> Floats32:
    """Return the coordinates of each value of one parameter, shape (values, columns)."""
    if all(isinstance(value, int | float) for value in values) or len(values) == 2:
        order = np.argsort(values) if not isinstance(values[0], str) else np.arange(2)
        return (np.argsort(order) / (len(values) - 1)).astype(np.float32)[:, None]
    return np.eye(len(values), dtype=np.float32)


# The model: extremely randomised trees over the speed (Geurts, Ernst and Wehenkel, Machine Learning 63 (2006)).
#
# Where the trees disagree, the prediction is uncertain: Hutter, Hoos and Leyton-Brown, Learning and Intelligent Optimization
# (2011).


Floats = NDArray[np.float64]

SAME = 1e-6
"""The least deviation: trees can agree to the last digit."""


class Forest:
    """Trees that learn the speed, the best being 1: slow configurations differ little in it, so few splits are spent on them.

    A failure counts as the slowest that was seen, and what is under way as the median, so that no two stations try the same spot.
    """

    trees = 20
    rows = 600
    """Most configurations that the trees learn from: with all 3,000 of a long search, proposing takes about twice as long."""
    doubt = 2.0
    """Factor for the deviation among the trees: they agree too soon on spaces with several good spots."""
    share = 0.12
    """Share of the columns considered at a split: so few that trees disagree where they have no data."""

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._rng = rng
        self._features = Features(candidates, rng)
        self._sklearn: Any = importlib.import_module("sklearn")
        self._tree: Any = importlib.import_module("sklearn.tree").ExtraTreeRegressor
        self._grown: list[Any] = []

    def learn(self, seen: SearchHistory) -> None:
        """Predict from this history from now on. At least one of its configurations must have a time."""
        times = np.array([np.nan if value is None else value for value in seen.values.values()])
        speeds = np.nanmin(times) / np.where(np.isnan(times), np.nanmax(times), times)
        speeds = np.append(speeds, np.full(len(seen.pending), np.median(speeds)))
        places = np.array([*seen.values, *seen.pending], dtype=np.intp)
        if len(places) > self.rows:
            learned = _rows_to_learn(speeds, self.rows, self._rng)
            places, speeds = places[learned], speeds[learned]
        at = self._features.of(places)
        state = np.random.RandomState(self._rng.integers(2**31))  # one for all: to make one takes as long as to grow a tree
        # A tree at a time, and what it takes checked here: the forest of scikit-learn takes twice as long, most of it to begin.
        with self._sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
            grown = [self._tree(max_features=self.share, random_state=state) for _ in range(self.trees)]
            self._grown = [tree.fit(at, speeds, check_input=False).tree_ for tree in grown]

    def speed(self, places: Places) -> Floats:
        """Return the expected speed of each, shape (n,)."""
        return np.asarray(self._predictions(places).mean(axis=0))

    def gain(self, places: Places) -> Floats:
        """Return the expected improvement of each on the best, shape (n,)."""
        predicted = self._predictions(places)
        return improvement(predicted.mean(axis=0), np.maximum(self.doubt * predicted.std(axis=0), SAME), 1.0)

    def _predictions(self, places: Places) -> Floats:
        """Return the prediction of each tree, shape (trees, places)."""
        at = self._features.of(places)
        return np.array([tree.predict(at).ravel() for tree in self._grown])


def _rows_to_learn(speeds: Floats, rows: int, rng: np.random.Generator) -> Places:
    """Choose so many of the known configurations: one half are the fastest, the others random."""
    order = np.argsort(-speeds, kind="stable")
    half = rows // 2
    return np.concatenate([order[:half], rng.choice(order[half:], rows - half, replace=False)])


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the expected improvement on ``best``, higher being better, shape (n,).

    Jones, Schonlau and Welch, Efficient Global Optimization (1998).
    """
    from scipy.special import ndtr  # scipy takes a quarter of a second to load, which `ratchet tune --help` should not

    z = (mean - best) / deviation
    return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))


# The second model: a Gaussian process over the logarithm of the time (Rasmussen and Williams, chapter 2).


class Process:
    """A process in which configurations are the more alike, the more of their values are the same or close.

    Its kernel is a product over parameters, each factor (1 + a k) / (1 + a): so every parameter, pair, triple … of them may have
    an effect of its own, and a large ``a`` gives the larger groups more weight. What is e³ times as slow as the best, or failed,
    counts as equally slow. What is under way counts as the median.
    """

    reaches = (1.5, 4.0)
    """How fast two values of a parameter cease to be alike: over its whole range by a factor of exp(-reach)."""
    mixes = (1.0, 4.0, 20.0)
    """Values of ``a``."""
    noise = 0.003
    """Variance of a measurement, of the spread of all."""
    again = 8
    """Answers after which reach and mix are chosen anew, by their marginal likelihood."""
    slowest = 3.0
    rows = 250
    """Most configurations that it learns from: what a proposal takes grows with their square."""

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._rng = rng
        options = list(candidates.space.parameters.values())
        columns = [column for column, values in enumerate(options) if len(values) > 1]
        self._codes = candidates.codes[:, columns]
        self._alike = {reach: [_alike(options[column], reach) for column in columns] for reach in self.reaches}
        self._chosen = (self.reaches[0], self.mixes[0])
        self._choose_at = 0

    def learn(self, seen: SearchHistory) -> None:
        """Predict from this history from now on. At least one of its configurations must have a time."""
        times = np.array([np.nan if value is None else value for value in seen.values.values()])
        speeds = -np.log(np.where(np.isnan(times), np.nanmax(times), times) / np.nanmin(times))
        speeds = np.maximum(speeds, -self.slowest)
        speeds = np.append(speeds, np.full(len(seen.pending), np.median(speeds)))
        places = np.array([*seen.values, *seen.pending], dtype=np.intp)
        if len(places) > self.rows:
            learned = _rows_to_learn(speeds, self.rows, self._rng)
            places, speeds = places[learned], speeds[learned]
        self._known = self._codes[places]
        spread = speeds.std() + SAME
        answers, self._best = (speeds - speeds.mean()) / spread, -speeds.mean() / spread
        if len(seen.values) >= self._choose_at:
            self._choose_at = len(seen.values) + self.again
            choices = list(itertools.product(self.reaches, self.mixes))
            self._chosen = max(choices, key=lambda choice: self._fit(answers, *choice))
        self._fit(answers, *self._chosen)

    def _fit(self, answers: Floats, reach: float, mix: float) -> float:
        """Solve for one kernel; return the logarithm of its marginal likelihood, but for a constant."""
        count = len(answers)
        covariance = self._kernel(self._known, reach, mix) + self.noise * np.eye(count)
        self._root = np.linalg.cholesky(covariance)
        half = np.linalg.solve(self._root, answers)
        self._weights = np.linalg.solve(self._root.T, half)
        self._variance = max(float(half @ half) / count, SAME**2)  # 0 where all are as fast
        return float(-0.5 * count * np.log(self._variance) - np.log(np.diag(self._root)).sum())

    def _kernel(self, codes: Codes, reach: float, mix: float) -> Floats:
        """Return how alike these rows and the known ones are, shape (rows, known)."""
        product = np.ones((len(codes), len(self._known)))
        for column, table in enumerate(self._alike[reach]):
            factors = ((1 + mix * table) / (1 + mix))[:, self._known[:, column]]
            product *= factors[codes[:, column]]
        return product

    def gain(self, places: Places) -> Floats:
        """Return the expected improvement of each on the best, shape (n,)."""
        alike = self._kernel(self._codes[places], *self._chosen)
        left = 1 - (np.linalg.solve(self._root, alike.T) ** 2).sum(axis=0)
        return improvement(alike @ self._weights, np.sqrt(np.maximum(left * self._variance, SAME**2)), self._best)


def _alike(values: Sequence[Value], reach: float) -> Floats:
    """Return how alike two values of a parameter are, from 0 to 1, shape (values, values): numbers by their ranks."""
    if len(values) > 2 and all(isinstance(value, int | float) for value in values):
        ranks = np.argsort(np.argsort(np.array(values, dtype=float))) / (len(values) - 1)
        return np.exp(-reach * np.abs(ranks[:, None] - ranks[None, :]))
    same = np.eye(len(values))
    return np.asarray(same + (1 - same) * np.exp(-reach))
