"""What a search knows: which configurations were handed out, and what came of them."""

from __future__ import annotations

import numpy as np

from ratchet.tune.configurations import Candidates


class Seen:
    """The candidates and the answers so far."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.taken = np.zeros(candidates.count, dtype=np.bool_)
        """Handed out or answered: not to be proposed again."""
        self.left = candidates.count
        self.values: dict[int, float | None] = {}
        """Candidate → its milliseconds, or None where it failed; in the order of the answers."""
        self.pending: dict[int, None] = {}
        """Handed out, in order, and not answered yet."""

    def take(self, place: int) -> None:
        """Hand a candidate out."""
        if self.taken[place]:
            raise ValueError(f"candidate {place} was handed out before")
        self.pending[place] = None
        self._mark(place)

    def know(self, place: int, value: float | None) -> None:
        """A later answer for the same candidate replaces the first."""
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
