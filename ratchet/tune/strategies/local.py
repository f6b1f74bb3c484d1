"""The base of every strategy (`History`, `Strategy`), and the strategies without a model: exhaustive, random, hill-climbing.

`ratchet.tune.search` keeps the history and asks the strategy for the next candidate. Pure: random draws come from the generator
that it is given.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ratchet.tune.space import Candidates


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
