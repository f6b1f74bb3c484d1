"""A time budget is a promise: how it is shared between searching and confirming. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

FOR_FINALS, MOST_FOR_FINALS_S = 0.3, 150.0
"""Of a budget, for the confirmation of the best few and the benchmark's other configs."""
FOR_OTHERS = 0.4
"""Of that, for the other configs."""
GRACE_S = 3.0
"""An evaluation that is under way when the search ends may take so much longer."""
EXPECTED_S = 0.6
"""For one evaluation, where nothing better is known: whether a strategy can afford the whole space."""
WRITING = 0.05
"""Of a budget, at most `GRACE_S` seconds: for ending the processes, and for what is written."""
FINALISTS, FINALIST_S = 4, 8.0
"""Confirmed at most, since the luckiest sample is seldom the best configuration; and about what the pairs of one take."""
FINALS_S = 240.0
"""For confirming where there is no budget."""


@dataclass(frozen=True)
class Budget:
    """Seconds from ``started`` on, a moment on any clock that the caller keeps to; ``seconds`` None: no limit."""

    started: float
    seconds: float | None

    @property
    def search_ends(self) -> float:
        """The moment from which no evaluation is begun any more."""
        if self.seconds is None:
            return math.inf
        return self.started + self.seconds - min(FOR_FINALS * self.seconds, MOST_FOR_FINALS_S)

    @property
    def ends(self) -> float:
        """The moment at which everything is measured."""
        return math.inf if self.seconds is None else self.started + self.seconds - min(WRITING * self.seconds, GRACE_S)

    def for_finals(self, now: float) -> float:
        """Seconds for confirming the best few, so that some are left for the other configs."""
        return min(FINALS_S, (1 - FOR_OTHERS) * max(0.0, self.ends - now))

    def finalists(self, now: float) -> int:
        """How many there is time for: of few pairs each, none would be decided."""
        return max(1, min(FINALISTS, int(self.for_finals(now) / FINALIST_S)))

    def for_others(self, now: float) -> float:
        """Seconds for the other configs."""
        return min(FINALS_S, max(0.0, self.ends - now))

    def evaluations(self, most: int | None, stations: int) -> int | None:
        """About how many a strategy may plan with."""
        if self.seconds is None:
            return most
        expected = max(1, round((self.search_ends - self.started) / EXPECTED_S)) * stations
        return expected if most is None else min(most, expected)
