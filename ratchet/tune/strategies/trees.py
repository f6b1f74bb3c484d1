"""Trees guide the search: some random configurations, then by turns what looks best of all, and beside the best."""

from __future__ import annotations

import numpy as np

from ratchet.tune.configurations import Places
from ratchet.tune.seen import Seen
from ratchet.tune.strategies.base import Strategy
from ratchet.tune.strategies.forest import Forest


class Trees(Strategy):
    """The constants were chosen on parts of recorded spaces and on made-up ones: docs/decisions/0011-search.md."""

    name = "trees"
    first = 15
    """Random ones before the forest is asked; of a small budget no more than a third."""
    fewest = 3
    """Times without which it is not."""
    local = 3
    """Each so-many-th is a neighbour of the best few: a narrow optimum lies there more often than elsewhere."""
    centres = 5
    """Configurations whose neighbours are looked at."""
    pool = 3000
    """Random candidates that are looked at where more are free; the neighbours of the best few come on top."""

    def __init__(self, seen: Seen, rng: np.random.Generator, budget: int | None) -> None:
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
        """Neighbours of the best few that are free."""
        best = sorted(timed, key=timed.__getitem__)[: self.centres]
        near = np.unique(np.concatenate([self.seen.candidates.neighbours(place) for place in best]))
        return np.asarray(near[~self.seen.taken[near]])

    def _free(self, beside: Places) -> Places:
        """What may come next: all that are free, or as many random ones as are looked at, and ``beside``."""
        if self.seen.left <= self.pool:
            return self.seen.untaken()
        drawn = self.rng.integers(self.seen.candidates.count, size=self.pool)
        places = np.unique(np.concatenate([drawn, beside]))
        places = places[~self.seen.taken[places]]
        return np.asarray(places) if len(places) else self.seen.untaken()[: self.pool]
