"""What every strategy has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ratchet.tune.seen import Seen


class Strategy(ABC):
    """Chooses the next candidate from what is seen. It never marks one as handed out: the search does."""

    name: ClassVar[str]

    def __init__(self, seen: Seen, rng: np.random.Generator, budget: int | None) -> None:
        """``budget``: about how many evaluations there will be; None where nobody knows."""
        self.seen, self.rng, self.budget = seen, rng, budget
        self.to_come = budget
        """About how many are still to come; the search keeps it right."""

    @abstractmethod
    def next(self) -> int:
        """A candidate that is not taken. Called only while there is one."""

    def drawn(self) -> int:
        """A random one, not taken."""
        count = self.seen.candidates.count
        for _ in range(20):
            place = int(self.rng.integers(count))
            if not self.seen.taken[place]:
                return place
        return int(self.rng.choice(self.seen.untaken()))
