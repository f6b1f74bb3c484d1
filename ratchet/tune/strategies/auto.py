"""`auto`: all of them where they fit the budget, else what did best on recorded and made-up spaces: `model`."""

from __future__ import annotations

import numpy as np

from ratchet.tune.seen import Seen
from ratchet.tune.strategies.base import Strategy
from ratchet.tune.strategies.model import Model
from ratchet.tune.strategies.plain import Exhaustive


class Auto(Strategy):
    """See docs/decisions/0011-search.md."""

    name = "auto"

    def __init__(self, seen: Seen, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        fits = budget is not None and seen.candidates.exact and seen.candidates.count <= budget
        self._inner: Strategy = Exhaustive(seen, rng, budget) if fits else Model(seen, rng, budget)

    @property
    def chosen(self) -> str:
        """What it came down to."""
        return self._inner.name

    def next(self) -> int:
        return self._inner.next()
