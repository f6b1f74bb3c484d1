"""The space of a kernel's parameters, and its valid configurations as one array."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.errors import UsageError

Value = int | float | str | bool
Configuration = Mapping[str, Value]
Codes = NDArray[np.int16]
Places = NDArray[np.intp]

MOST_VALUES = 2**15
"""Of one parameter: a code is a 16-bit number."""


@dataclass(frozen=True)
class Space:
    """Parameters, the values that each may take, and which combinations can work."""

    parameters: Mapping[str, tuple[Value, ...]]
    constraints: tuple[Callable[..., bool], ...] = ()
    """Functions whose arguments are names of parameters; all must say yes."""
    default: Configuration | None = None
    """The configuration of today, tried first."""

    def __post_init__(self) -> None:
        if not self.parameters:
            raise UsageError("There is nothing to tune: the space has no parameters.", "Name some in the workload's tune.")
        for name, values in self.parameters.items():
            if not values:
                raise UsageError(f"{name} has no values to try.", "Give it one or more, or take it out of tune.")
            if len(values) > MOST_VALUES:
                raise UsageError(f"{name} has {len(values)} values, more than {MOST_VALUES}.", "Give it fewer.")
            if len(set(values)) < len(values):
                raise UsageError(f"{name} lists a value twice: {list(values)[:12]}.", "Name each value once.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each parameter has."""
        return tuple(len(values) for values in self.parameters.values())

    @property
    def combinations(self) -> int:
        """Valid or not."""
        return functools.reduce(lambda product, size: product * size, self.sizes, 1)

    def encode(self, configuration: Configuration) -> Codes | None:
        """The place of each value among those of its parameter, shape (d,); None where it has other parameters or values."""
        if configuration.keys() != self.parameters.keys():
            return None
        try:
            places = [self._places[name][configuration[name]] for name in self.parameters]
        except KeyError:
            return None
        return np.array(places, dtype=np.int16)

    @functools.cached_property
    def _places(self) -> dict[str, dict[Value, int]]:
        return {name: {value: place for place, value in enumerate(values)} for name, values in self.parameters.items()}


class Candidates:
    """The valid configurations of a space: all of them, or as many as can be kept. Row i of ``codes`` is configuration i."""

    def __init__(self, space: Space, codes: Codes, *, exact: bool) -> None:
        """``codes``: shape (n, d), distinct rows. ``exact``: these are all that are valid, not a sample."""
        self.space, self.codes, self.exact = space, codes, exact
        self._index = _Index(space.sizes, codes)

    @property
    def count(self) -> int:
        return len(self.codes)

    def configuration(self, place: int) -> dict[str, Value]:
        """Parameter → value, in the order of the space."""
        values = zip(self.space.parameters.items(), self.codes[place].tolist(), strict=True)
        return {name: options[code] for (name, options), code in values}

    def index(self, configuration: Configuration) -> int | None:
        """Which one it is; None where it is not among them."""
        code = self.space.encode(configuration)
        if code is None:
            return None
        found = int(self._index.find(code[None, :])[0])
        return found if found >= 0 else None

    def neighbours(self, place: int) -> Places:
        """Those that differ from this one in one parameter."""
        here = self.codes[place]
        moved = np.repeat(here[None, :], sum(self.space.sizes), axis=0)
        row = 0
        for column, size in enumerate(self.space.sizes):
            moved[row : row + size, column] = np.arange(size)
            row += size
        found = self._index.find(moved)
        return np.asarray(found[(found >= 0) & (found != place)])


class _Index:
    """Rows of codes → their places. A row is one number, mixed radix; where that passes 62 bits, its bytes."""

    def __init__(self, sizes: tuple[int, ...], codes: Codes) -> None:
        combinations = functools.reduce(lambda product, size: product * size, sizes, 1)
        self._radix: NDArray[np.int64] | None = None
        if combinations < 2**62:
            self._radix = np.append(np.cumprod(np.array(sizes[:0:-1], dtype=np.int64))[::-1], 1).astype(np.int64)
            keys = codes.astype(np.int64) @ self._radix
            self._order = np.argsort(keys, kind="stable")
            self._keys = keys[self._order]
        else:
            self._rows = {row.tobytes(): place for place, row in enumerate(codes)}

    def find(self, rows: Codes) -> Places:
        """The place of each row, -1 where there is none."""
        if self._radix is None:
            return np.array([self._rows.get(row.tobytes(), -1) for row in rows], dtype=np.intp)
        if not len(self._keys):
            return np.full(len(rows), -1, dtype=np.intp)
        wanted = rows.astype(np.int64) @ self._radix
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[at] == wanted, self._order[at], -1)
