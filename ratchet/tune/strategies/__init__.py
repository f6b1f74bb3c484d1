"""The search strategies by name; `ratchet.tune.search` makes one for each search. Pure.

`auto` tries every configuration if the budget allows it; else it uses what did best on recorded and made-up spaces: `trees`, or
`climb` where scikit-learn is not installed.
"""

from __future__ import annotations

import importlib.util

import numpy as np

from ratchet.tune.strategies.local import Climb, Exhaustive, History, Random, Strategy
from ratchet.tune.strategies.models import Tpe, TreeSearch


class Auto(Strategy):
    """Every configuration if the budget allows it, else the best guided search: docs/decisions/0011-search.md."""

    name = "auto"

    def __init__(self, seen: History, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        self._used: dict[type[Strategy], Strategy] = {}

    @property
    def chosen(self) -> str:
        """The strategies that it used, one after the other, or will use: ``exhaustive``, ``trees``."""
        return ", then ".join(strategy.name for strategy in self._used or [self._wanted()])

    def next(self) -> int:
        wanted = self._wanted()
        if wanted not in self._used:
            self._used[wanted] = wanted(self.seen, self.rng, self.budget)
        return self._used[wanted].next()

    def _wanted(self) -> type[Strategy]:
        fits = self.to_come is not None and self.seen.candidates.exact and self.seen.left <= self.to_come
        if fits:
            return Exhaustive
        return TreeSearch if importlib.util.find_spec("sklearn") else Climb


STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Auto, Exhaustive, Random, Climb, TreeSearch, Tpe)
}
"""Name → strategy. The search calls ``next()`` only while there is a candidate that was not handed out."""

__all__ = ["STRATEGIES", "Auto", "Strategy"]
