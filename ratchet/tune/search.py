"""The search: a space and what is known of it → which configurations to try next, by a strategy of this file.

``ratchet tune`` asks a `Search` for configurations and reports their times. A `Strategy` chooses
the next candidate: exhaustive, random, hill-climbing, guided by a model, or Optuna. `Auto` tries every configuration if the
budget allows it; else it uses what did best on recorded and made-up spaces. Pure: no clock, no files, and random draws come
from the generator that a strategy is given.
"""

from __future__ import annotations

import heapq
import importlib.util
import math
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ratchet.core.errors import UsageError
from ratchet.tune.models import Floats, Process, SearchHistory, improvement
from ratchet.tune.space import Candidates, Configuration, Places, Value

if TYPE_CHECKING:
    import optuna


class Search:
    """A search, which hands out configurations, each once, and takes in their times.

    The same space, strategy, seed, answers and corrections of the budget in the same order give the same configurations.
    """

    def __init__(self, candidates: Candidates, strategy: str = "auto", seed: int = 0, budget: int | None = None) -> None:
        """Begin a search of about ``budget`` evaluations (None: unknown). Raises UsageError as `strategy_called` does."""
        chosen = strategy_called(strategy)
        self._seen = SearchHistory(candidates)
        self._strategy = chosen(self._seen, np.random.default_rng(seed), budget)
        default = candidates.space.default
        self._first = candidates.index(default) if default is not None else None

    @property
    def strategy(self) -> str:
        """The strategies that `auto` used, or the strategy that was asked for."""
        return self._strategy.chosen if isinstance(self._strategy, Auto) else self._strategy.name

    def ask(self, count: int = 1) -> list[dict[str, Value]]:
        """Return the next configurations, the default first; fewer than ``count``, or none, where the space is exhausted."""
        proposed: list[dict[str, Value]] = []
        while len(proposed) < count and self._seen.left:
            first = self._first if self._first is not None and not self._seen.taken[self._first] else None
            place = first if first is not None else self._strategy.next()
            self._seen.take(place)
            if self._strategy.to_come is not None:
                self._strategy.to_come -= 1
            proposed.append(self._seen.candidates.configuration(place))
        return proposed

    def expect(self, evaluations: int) -> None:
        """Correct the budget: ``evaluations`` more are now expected."""
        self._strategy.to_come = evaluations

    def tell(self, configuration: Configuration, value: float | None) -> None:
        """Take in the time of a configuration in milliseconds, or None where it failed; also of one that was not handed out.

        One that is not among the candidates is ignored. Raises ValueError for a time that is not above 0.
        """
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"a time is a number above 0, not {value}")
        place = self._seen.candidates.index(configuration)
        if place is not None:
            self._seen.know(place, value)


def strategy_called(name: str) -> type[Strategy]:
    """Return the strategy of this name. Raises UsageError where there is none, or what it needs is not installed."""
    if name not in STRATEGIES:
        raise UsageError(f"There is no strategy called {name}.", f"There are {', '.join(STRATEGIES)}.")
    needs = STRATEGIES[name].needs
    if needs and importlib.util.find_spec(needs) is None:
        hint = "Install it with pip install 'gpu-ratchet[tune]', or use auto, which needs nothing more."
        raise UsageError(f"The strategy {name} needs {needs}, which is not installed.", hint)
    return STRATEGIES[name]


# The strategies. Each chooses the next candidate.


class Strategy(ABC):
    """A choice of the next candidate from the history. It never marks one as handed out: the search does."""

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    """The package, if any, that must be installed for it; the extra ``tune`` has it."""

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


# The search that a model guides.


class Bayes(Strategy):
    """Some random configurations; then always the one that promises most: the expected improvement times the chance to work.

    One Gaussian process learns the times of what worked, another what works. The constants were chosen on recorded and made-up
    spaces: docs/decisions/0011-search.md.
    """

    name = "bayes"
    first = 15
    """Random configurations before the model is asked; of a small budget no more than a third."""
    fewest = 3
    """Fewest known times with which the model is asked."""
    slowest = 3.0
    """What is e to this power as slow as the best, or slower, counts as equally slow."""
    least = 0.02
    """The least chance to work that is believed."""
    pool = 1000
    """Random candidates that are considered where more are free."""
    best = 5
    """Best configurations whose neighbours are considered, and most promising candidates from which promise is climbed."""

    def __init__(self, seen: SearchHistory, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        self._times, self._works = Process(seen.candidates, rng), Process(seen.candidates, rng)
        self._random = self.first if budget is None else min(self.first, budget // 3)

    def next(self) -> int:
        timed = {place: value for place, value in self.seen.values.items() if value is not None}
        if len(self.seen.values) + len(self.seen.pending) < self._random or len(timed) < self.fewest:
            return self.drawn()
        times = np.array([*timed.values()])
        speeds = np.maximum(np.log(times.min() / times), -self.slowest)
        # What is under way counts as the median, so that no two stations try the same spot.
        speeds = np.append(speeds, np.full(len(self.seen.pending), np.median(speeds)))
        self._times.learn(np.array([*timed, *self.seen.pending]), speeds)
        if len(timed) < len(self.seen.values):
            works = np.array([value is not None for value in self.seen.values.values()], dtype=float)
            self._works.learn(np.array([*self.seen.values]), works)
        return self._most_promising(sorted(timed, key=timed.__getitem__)[: self.best])

    def _most_promising(self, best: list[int]) -> int:
        """Return the most promising candidate of all that are free; of many, the best seen in climbing from some."""
        neighbours, taken = self.seen.candidates.neighbours, self.seen.taken
        if self.seen.left <= self.pool:
            places = self.seen.untaken()
        else:
            drawn = self.rng.integers(self.seen.candidates.count, size=self.pool)
            places = np.unique(np.concatenate([[self.drawn()], drawn, *map(neighbours, best)]))
            places = places[~taken[places]]
        promises: dict[int, float] = {}
        while len(places):
            promises.update(zip(places.tolist(), self._promises(places).tolist(), strict=True))
            front = heapq.nlargest(self.best, promises, key=promises.__getitem__)
            near = np.unique(np.concatenate([neighbours(place) for place in front]))
            places = np.array([place for place in near.tolist() if place not in promises and not taken[place]], dtype=np.intp)
        return max(promises, key=promises.__getitem__)

    def _promises(self, places: Places) -> Floats:
        """Return how much may be hoped for from each, shape (n,)."""
        promises = improvement(*self._times.predict(places), best=0.0)
        if any(value is None for value in self.seen.values.values()):
            promises *= np.clip(self._works.predict(places)[0], self.least, 1.0)
        return promises


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


# Auto, which chooses among the others, and the table of all.


class Auto(Strategy):
    """Every configuration if the budget allows it, else the best guided search: docs/decisions/0011-search.md."""

    name = "auto"

    def __init__(self, seen: SearchHistory, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        self._used: dict[type[Strategy], Strategy] = {}

    @property
    def chosen(self) -> str:
        """The strategies that it used, one after the other, or will use: ``exhaustive``, ``bayes``."""
        return ", then ".join(strategy.name for strategy in self._used or [self._wanted()])

    def next(self) -> int:
        wanted = self._wanted()
        if wanted not in self._used:
            self._used[wanted] = wanted(self.seen, self.rng, self.budget)
        return self._used[wanted].next()

    def _wanted(self) -> type[Strategy]:
        fits = self.to_come is not None and self.seen.candidates.exact and self.seen.left <= self.to_come
        return Exhaustive if fits else Bayes


STRATEGIES: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in (Auto, Exhaustive, Random, Climb, Bayes, Tpe)}
"""Name → strategy. The search calls ``next()`` only while there is a candidate that was not handed out."""
