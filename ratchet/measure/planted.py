"""A slowdown that is planted on purpose, to count how often it is caught: some calls of the head are made once more.

`ratchet soak --plant` sets it, `duet` asks how many calls a turn takes. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ratchet.records.run import Side

FEWEST_CALLS = 20
"""Calls behind each sample at least, so that it is no noisier than the median of an ordinary block."""


@dataclass(frozen=True)
class Planted:
    """A turn of either side gives one sample: the time of all its calls, divided by ``calls``.

    The reference makes ``calls`` calls in a turn, the head ``more`` beyond that. Each is timed as any other, with its own flush
    of the cache, so the head takes ``more / calls`` longer by work that it really does, on inputs of its own.
    """

    calls: int
    more: int

    @classmethod
    def nearest(cls, share: float) -> Planted:
        """Return the slowdown of the form 1/n that is nearest to ``share``, above 0 and up to 1: 0.035 → 1/29."""
        apart = round(1 / share)
        more = math.ceil(FEWEST_CALLS / apart)
        return cls(apart * more, more)

    @property
    def share(self) -> float:
        """The slowdown as a fraction."""
        return self.more / self.calls

    def count(self, side: Side) -> int:
        """Return how many calls a turn of this side makes."""
        return self.calls + (self.more if side == "head" else 0)

    def sample(self, times_ms: tuple[float, ...]) -> tuple[float, ...]:
        """Return the sample of a turn; none where no time is known."""
        return (math.fsum(times_ms) / self.calls,) if times_ms else ()
