"""The search strategies but `auto`: exhaustive, random, hill-climbing, trees and Optuna, and what all of them share.

`ratchet.tune.search` keeps the history and asks the strategy for the next candidate. Pure: random draws come from the generator
that it is given.
"""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ratchet.tune.space import Candidates, Places, Value

if TYPE_CHECKING:
    import optuna


class History:
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


class Strategy(ABC):
    """A choice of the next candidate from the history. It never marks one as handed out: the search does."""

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    """The package, if any, that must be installed for it; the extra ``tune`` has all of them."""

    def __init__(self, seen: History, rng: np.random.Generator, budget: int | None) -> None:
        """Begin with a budget of about so many evaluations; None where it is not known."""
        self.seen, self.rng, self.budget = seen, rng, budget
        self.to_come = budget
        """About how many evaluations are still to come; the search keeps it right."""

    @abstractmethod
    def next(self) -> int:
        """Return a candidate that is not taken. Called only while there is one."""

    def drawn(self) -> int:
        """Return a random candidate that is not taken."""
        count = self.seen.candidates.count
        for _ in range(20):
            place = int(self.rng.integers(count))
            if not self.seen.taken[place]:
                return place
        return int(self.rng.choice(self.seen.untaken()))


# Strategies that learn nothing.


class Exhaustive(Strategy):
    """Every candidate, in the order of the space."""

    name = "exhaustive"

    def next(self) -> int:
        return int(np.argmin(self.seen.taken))


class Random(Strategy):
    """Random candidates, each with the same probability."""

    name = "random"

    def next(self) -> int:
        return self.drawn()


# Hill-climbing.


class Climb(Strategy):
    """Neighbours of the best, until none is better; then again from a new random start. A neighbour differs in one parameter."""

    name = "climb"
    _here: int | None = None
    _start: int | None = None

    def next(self) -> int:
        values = self.seen.values
        if self._start is not None and self._start not in values:  # its answer is not here yet
            return self.drawn()
        self._here = self._moved()
        if self._here is not None:
            near = self.seen.candidates.neighbours(self._here)
            free = near[~self.seen.taken[near]]
            if len(free):
                return int(self.rng.choice(free))
        self._here, self._start = None, self.drawn()
        return self._start

    def _moved(self) -> int | None:
        """Return where the climb stands now: at the best known neighbour, as long as one is better."""
        values = self.seen.values
        here = self._here if self._here is not None else self._start
        if here is None or values.get(here) is None:
            return None
        while True:
            near = self.seen.candidates.neighbours(here).tolist()
            better = min(near, key=lambda place: values.get(place) or math.inf, default=here)
            if (values.get(better) or math.inf) >= (values[here] or math.inf):
                return here
            here = better


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
    share = 0.12
    """Share of the columns considered at a split: so few that trees disagree where they have no data."""

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._rng = rng
        self._features = Features(candidates, rng)
        self._sklearn: Any = importlib.import_module("sklearn")
        self._tree: Any = importlib.import_module("sklearn.tree").ExtraTreeRegressor
        self._grown: list[Any] = []

    def learn(self, seen: History) -> None:
        """Predict from this history from now on. At least one of its configurations must have a time."""
        times = np.array([np.nan if value is None else value for value in seen.values.values()])
        speeds = np.nanmin(times) / np.where(np.isnan(times), np.nanmax(times), times)
        speeds = np.append(speeds, np.full(len(seen.pending), np.median(speeds)))
        places = np.array([*seen.values, *seen.pending], dtype=np.intp)
        if len(places) > self.rows:
            learned = self._rows_to_learn(speeds)
            places, speeds = places[learned], speeds[learned]
        at = self._features.of(places)
        state = np.random.RandomState(self._rng.integers(2**31))  # one for all: to make one takes as long as to grow a tree
        # A tree at a time, and what it takes checked here: the forest of scikit-learn takes twice as long, most of it to begin.
        with self._sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
            grown = [self._tree(max_features=self.share, random_state=state) for _ in range(self.trees)]
            self._grown = [tree.fit(at, speeds, check_input=False).tree_ for tree in grown]

    def _rows_to_learn(self, speeds: Floats) -> Places:
        """Choose `rows` of the known configurations: one half are the fastest, the others random."""
        order = np.argsort(-speeds, kind="stable")
        half = self.rows // 2
        return np.concatenate([order[:half], self._rng.choice(order[half:], self.rows - half, replace=False)])

    def speed(self, places: Places) -> Floats:
        """Return the expected speed of each, shape (n,)."""
        return np.asarray(self._predictions(places).mean(axis=0))

    def gain(self, places: Places) -> Floats:
        """Return the expected improvement of each on the best, shape (n,)."""
        predicted = self._predictions(places)
        return improvement(predicted.mean(axis=0), np.maximum(predicted.std(axis=0), SAME), 1.0)

    def _predictions(self, places: Places) -> Floats:
        """Return the prediction of each tree, shape (trees, places)."""
        at = self._features.of(places)
        return np.array([tree.predict(at).ravel() for tree in self._grown])


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the expected improvement on ``best``, higher being better, shape (n,).

    Jones, Schonlau and Welch, Efficient Global Optimization (1998).
    """
    from scipy.special import ndtr  # scipy takes a quarter of a second to load, which `ratchet tune --help` should not

    z = (mean - best) / deviation
    return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))


# The search that the trees guide.


class TreeSearch(Strategy):
    """Some random configurations, then in turn the most promising of all and the most promising neighbour of the best.

    The constants were chosen on parts of recorded spaces and on made-up ones: docs/decisions/0011-search.md.
    """

    name = "trees"
    needs = "sklearn"
    first = 15
    """Random configurations before the forest is asked; of a small budget no more than a third."""
    fewest = 3
    """Fewest known times with which the forest is asked."""
    local = 3
    """Every third proposal is a neighbour of the best few: a narrow optimum lies there more often than elsewhere."""
    centres = 5
    """Best configurations whose neighbours are considered."""
    pool = 3000
    """Random candidates that are considered where more are free; the neighbours of the best few are added."""

    def __init__(self, seen: History, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        self._forest = Forest(seen.candidates, rng)
        self._random = self.first if budget is None else min(self.first, budget // 3)

    def next(self) -> int:
        handed_out = len(self.seen.values) + len(self.seen.pending)
        timed = {place: value for place, value in self.seen.values.items() if value is not None}
        if handed_out < self._random or len(timed) < self.fewest:
            return self.drawn()
        self._forest.learn(self.seen)
        beside = self._beside(timed)
        if handed_out % self.local == self.local - 1 and len(beside):
            return int(beside[np.argmax(self._forest.speed(beside))])
        places = self._free(beside)
        return int(places[np.argmax(self._forest.gain(places))])

    def _beside(self, timed: dict[int, float]) -> Places:
        """Return the neighbours of the best few that are free."""
        best = sorted(timed, key=timed.__getitem__)[: self.centres]
        near = np.unique(np.concatenate([self.seen.candidates.neighbours(place) for place in best]))
        return np.asarray(near[~self.seen.taken[near]])

    def _free(self, beside: Places) -> Places:
        """Return the candidates to choose from: all that are free, or `pool` random ones and ``beside``."""
        if self.seen.left <= self.pool:
            return self.seen.untaken()
        drawn = self.rng.integers(self.seen.candidates.count, size=self.pool)
        places = np.unique(np.concatenate([drawn, beside]))
        places = places[~self.seen.taken[places]]
        return np.asarray(places) if len(places) else self.seen.untaken()[: self.pool]


# Optuna's tree-structured Parzen estimator, for comparison; `auto` never uses it.


TRIES = 20
"""Suggestions of Optuna's that are not free candidates, after which one is drawn at random instead."""


class Tpe(Strategy):
    """Optuna's sampler over the place of each parameter's value, an integer; a suggestion that is not valid counts as failed."""

    name = "tpe"
    needs = "optuna"

    def __init__(self, seen: History, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        import optuna

        self._optuna = optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)), multivariate=True)
        self._study = optuna.create_study(sampler=sampler)
        self._trials: dict[int, optuna.trial.Trial] = {}

    def next(self) -> int:
        self._tell()
        space = self.seen.candidates.space
        for _ in range(TRIES):
            trial = self._study.ask()
            codes = [trial.suggest_int(str(column), 0, size - 1) for column, size in enumerate(space.sizes)]
            options = zip(space.parameters.items(), codes, strict=True)
            place = self.seen.candidates.index({name: values[code] for (name, values), code in options})
            if place is not None and not self.seen.taken[place]:
                self._trials[place] = trial
                return place
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return self.drawn()

    def _tell(self) -> None:
        """Report the results of Optuna's suggestions since the last call."""
        for place in [known for known in self._trials if known in self.seen.values]:
            value, trial = self.seen.values[place], self._trials.pop(place)
            if value is None:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(trial, value)
