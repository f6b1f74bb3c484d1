"""The search: a space and what is known of it → which configurations to try next.

``ratchet tune`` and the replay of a recorded space ask it for configurations and report their times. `Auto` tries every
configuration if the budget allows it; else it uses what did best on recorded and made-up spaces. Pure: no clock, no files.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np

from ratchet.errors import UsageError
from ratchet.tune.models import SearchHistory
from ratchet.tune.space import Candidates, Configuration, Value
from ratchet.tune.strategies import Bayes, Climb, Exhaustive, Random, Strategy, Tpe


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


def strategy_called(name: str) -> type[Strategy]:
    """Return the strategy of this name. Raises UsageError where there is none, or what it needs is not installed."""
    if name not in STRATEGIES:
        raise UsageError(f"There is no strategy called {name}.", f"There are {', '.join(STRATEGIES)}.")
    needs = STRATEGIES[name].needs
    if needs and importlib.util.find_spec(needs) is None:
        hint = "Install it with pip install 'gpu-ratchet[tune]', or use auto, which needs nothing more."
        raise UsageError(f"The strategy {name} needs {needs}, which is not installed.", hint)
    return STRATEGIES[name]


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
