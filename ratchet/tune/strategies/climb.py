"""Hill-climbing: the neighbours of the best until none is better, then the same from a new random start."""

from __future__ import annotations

import math

from ratchet.tune.strategies.base import Strategy


class Climb(Strategy):
    """First improvement, with restarts. A neighbour differs in one parameter."""

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
        """Where the climb stands now: at the best known neighbour, as long as one is better."""
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
