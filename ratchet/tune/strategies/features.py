"""Configurations as points: numbers by their rank, from 0 to 1; other values each in a column of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.tune.configurations import Candidates, Places, Value

OTHER = 0.7
"""How far two values without an order are apart in each of their two columns: 1 in all."""


class Features:
    """The points of candidates. Parameters with one value have no column."""

    def __init__(self, candidates: Candidates) -> None:
        self._codes = candidates.codes
        options = list(candidates.space.parameters.values())
        self._tables = {column: _table(values) for column, values in enumerate(options) if len(values) > 1}
        self.columns = sum(table.shape[1] for table in self._tables.values())

    def of(self, places: Places) -> NDArray[np.float64]:
        """Shape (number of places, columns)."""
        codes = self._codes[places]
        parts = [table[codes[:, column]] for column, table in self._tables.items()]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(places), 0))


def _table(values: Sequence[Value]) -> NDArray[np.float64]:
    """The coordinates of each value of one parameter."""
    if all(isinstance(value, int | float) for value in values) or len(values) == 2:
        order = np.argsort(values) if not isinstance(values[0], str) else np.arange(2)
        return (np.argsort(order) / (len(values) - 1))[:, None]
    return OTHER * np.eye(len(values))
