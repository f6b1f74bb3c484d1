"""The search strategies but `auto`: exhaustive, random, hill-climbing, a portfolio and Optuna, and what all of them share.

`ratchet.tune.search` keeps the history and asks the strategy for the next candidate. Pure: random draws come from the generator
that it is given.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ratchet.tune.models import Forest, Process, SearchHistory
from ratchet.tune.space import Places

if TYPE_CHECKING:
    import optuna


class Strategy(ABC):
    """A choice of the next candidate from the history. It never marks one as handed out: the search does."""

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    """The package, if any, that must be installed for it; the extra ``tune`` has all of them."""

    def __init__(self, seen: SearchHistory, rng: np.random.Generator, budget: int | None) -> None:
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


# The search that two models guide.


class Portfolio(Strategy):
    """Some random configurations; then in turn what a Gaussian process finds most promising, what trees do, and a climb.

    Where one of the three stays on a plateau, the others go on, and each learns from all answers. The constants were chosen on
    recorded and made-up spaces: docs/decisions/0011-search.md.
    """

    name = "portfolio"
    needs = "sklearn"
    first = 15
    """Random configurations before a model is asked; of a small budget no more than a third."""
    fewest = 3
    """Fewest known times with which a model is asked."""
    centres = 5
    """Best configurations whose neighbours are always considered."""
    pool = 3000
    """Random candidates that are considered where more are free."""
    patience = 6
    """Neighbours that are no better, after which a climb begins again elsewhere."""

    def __init__(self, seen: SearchHistory, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        self._process, self._forest = Process(seen.candidates, rng), Forest(seen.candidates, rng)
        self._random = self.first if budget is None else min(self.first, budget // 3)
        self._start: int | None = None
        """Where the climb begins next, while its time is not known."""
        self._here: int | None = None
        self._in_vain = 0

    def next(self) -> int:
        handed_out = len(self.seen.values) + len(self.seen.pending)
        timed = {place: value for place, value in self.seen.values.items() if value is not None}
        if handed_out < self._random or len(timed) < self.fewest:
            return self.drawn()
        if handed_out % 3 == 2 and self._start not in self.seen.pending:
            return self._climbed(timed)
        model = self._forest if handed_out % 3 else self._process
        model.learn(self.seen)
        places = self._considered(timed)
        return int(places[np.argmax(model.gain(places))])

    def _climbed(self, timed: dict[int, float]) -> int:
        """Return the neighbour that trees expect to be fastest, of where the climb stands; a random start where it ends."""
        if self._start is not None:
            self._here, self._in_vain = (self._start if self._start in timed else None), 0
            self._start = None
        if self._here is not None:
            near, before = self.seen.candidates.neighbours(self._here), self._here
            while (best := min(near.tolist(), key=lambda place: timed.get(place, math.inf), default=before)) in timed:
                if timed[best] >= timed[self._here]:
                    break
                self._here, near = best, self.seen.candidates.neighbours(best)
            self._in_vain = self._in_vain + 1 if self._here == before else 0
            free = near[~self.seen.taken[near]]
            if len(free) and self._in_vain <= self.patience:
                self._forest.learn(self.seen)
                return int(free[np.argmax(self._forest.speed(free))])
        self._here, self._start = None, self.drawn()
        return self._start

    def _considered(self, timed: dict[int, float]) -> Places:
        """Return the candidates to choose from: all that are free, or `pool` random ones and the neighbours of the best few."""
        if self.seen.left <= self.pool:
            return self.seen.untaken()
        best = sorted(timed, key=timed.__getitem__)[: self.centres]
        drawn = self.rng.integers(self.seen.candidates.count, size=self.pool)
        places = np.unique(np.concatenate([drawn, *(self.seen.candidates.neighbours(place) for place in best)]))
        places = places[~self.seen.taken[places]]
        return np.asarray(places) if len(places) else self.seen.untaken()[: self.pool]


# Optuna's tree-structured Parzen estimator, for comparison; `auto` never uses it.


TRIES = 20
"""Suggestions of Optuna's that are not free candidates, after which one is drawn at random instead."""


class Tpe(Strategy):
    """Optuna's sampler over the place of each parameter's value, an integer; a suggestion that is not valid counts as failed."""

    name = "tpe"
    needs = "optuna"

    def __init__(self, seen: SearchHistory, rng: np.random.Generator, budget: int | None) -> None:
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
