"""Configurations as points: every parameter by itself, and what two of them make together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.tune.configurations import Candidates, Places, Value

Floats32 = NDArray[np.float32]

MOST_PAIRS = 28
"""Pairs of parameters whose product and ratio are looked at: those of eight parameters."""
SMALLEST = 0.5
"""Stands for 0 where a logarithm is taken."""


class Features:
    """The points of candidates: numbers by their rank, from 0 to 1; other values each in a column of its own.

    Beside them the logarithms of the product and the ratio of two parameters, as the threads of a block or the work of a
    thread are. Which of these mean something is not known: they are taken of all pairs of parameters with three or more
    numbers, none below 0, or of as many random pairs as are looked at. Parameters with one value have no column.
    """

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._codes = candidates.codes
        options = list(candidates.space.parameters.values())
        self._own = {column: _table(values) for column, values in enumerate(options) if len(values) > 1}
        self._logs = {column: _logarithms(values) for column, values in enumerate(options) if _counts(values)}
        pairs = list(itertools.combinations(range(len(self._logs)), 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[at] for at in sorted(rng.choice(len(pairs), MOST_PAIRS, replace=False))]
        self._first = [first for first, _ in pairs]
        self._second = [second for _, second in pairs]

    def of(self, places: Places) -> Floats32:
        """Shape (number of places, columns)."""
        codes = self._codes[places]
        parts = [np.zeros((len(places), 0), dtype=np.float32)]
        parts += [table[codes[:, column]] for column, table in self._own.items()]
        if self._first:
            logs = np.stack([table[codes[:, column]] for column, table in self._logs.items()], axis=1)
            first, second = logs[:, self._first], logs[:, self._second]
            parts += [first + second, first - second]
        return np.concatenate(parts, axis=1)


def _table(values: Sequence[Value]) -> Floats32:
    """The coordinates of each value of one parameter."""
    if all(isinstance(value, int | float) for value in values) or len(values) == 2:
        order = np.argsort(values) if not isinstance(values[0], str) else np.arange(2)
        return (np.argsort(order) / (len(values) - 1)).astype(np.float32)[:, None]
    return np.eye(len(values), dtype=np.float32)


def _counts(values: Sequence[Value]) -> bool:
    """Whether a product with it can mean something."""
    return len(values) > 2 and all(isinstance(value, int | float) and value >= 0 for value in values)


def _logarithms(values: Sequence[Value]) -> Floats32:
    return np.log2(np.maximum(np.array(values, dtype=np.float32), SMALLEST))
