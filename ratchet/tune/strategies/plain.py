"""Strategies that learn nothing: one after another, and at random."""

from __future__ import annotations

import numpy as np

from ratchet.tune.strategies.base import Strategy


class Exhaustive(Strategy):
    """Every candidate, in the order of the space."""

    name = "exhaustive"

    def next(self) -> int:
        return int(np.argmin(self.seen.taken))


class Random(Strategy):
    """Each with the same chance."""

    name = "random"

    def next(self) -> int:
        return self.drawn()
