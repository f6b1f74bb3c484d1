"""The space of a kernel's parameters, and its valid configurations as one array.

``ratchet tune`` builds a `Space` from a workload and gets its `candidates`; strategies work on their rows. Pure, except that
constraints are the author's own functions and are called here.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ratchet.core.errors import UsageError
from ratchet.core.workload import constraint_names, constraint_text

Value = int | float | str | bool
Configuration = Mapping[str, Value]
Codes = NDArray[np.int16]
Places = NDArray[np.intp]

MOST_VALUES = 2**15
"""Most values of one parameter: a code is a 16-bit number."""


class Space:
    """Parameters, the values that each may take, and which combinations can work; a `Workload` holds that they fit together.

    ``constraints`` are functions whose arguments are names of parameters; all must say yes. ``default`` is the configuration of
    today, tried first.
    """

    def __init__(
        self,
        parameters: Mapping[str, tuple[Value, ...]],
        constraints: tuple[Callable[..., bool], ...] = (),
        default: Configuration | None = None,
    ) -> None:
        self.parameters, self.constraints, self.default = parameters, constraints, default
        for name, values in parameters.items():
            if len(values) > MOST_VALUES:
                raise UsageError(f"{name} has {len(values)} values, more than {MOST_VALUES}.", "Give it fewer.")
            if len(set(values)) < len(values):
                raise UsageError(f"{name} lists a value twice: {list(values)[:12]}.", "Name each value once.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each parameter."""
        return tuple(len(values) for values in self.parameters.values())

    def encode(self, configuration: Configuration) -> Codes | None:
        """Return the place of each value among those of its parameter, shape (d,); None for other parameters or values."""
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
        """Keep ``codes``, shape (n, d), distinct rows. ``exact``: these are all that are valid, not a sample."""
        self.space, self.codes, self.exact = space, codes, exact
        self._row_of = {code.tobytes(): row for row, code in enumerate(codes)}

    @property
    def count(self) -> int:
        return len(self.codes)

    def configuration(self, place: int) -> dict[str, Value]:
        """Parameter → value, in the order of the space."""
        values = zip(self.space.parameters.items(), self.codes[place].tolist(), strict=True)
        return {name: options[code] for (name, options), code in values}

    def index(self, configuration: Configuration) -> int | None:
        """Return the row of a configuration; None where it is not among them."""
        code = self.space.encode(configuration)
        return None if code is None else self._row_of.get(code.tobytes())

    def neighbours(self, place: int) -> Places:
        """Return the rows that differ from this one in one parameter."""
        here = self.codes[place]
        moved = np.repeat(here[None, :], sum(self.space.sizes), axis=0)
        row = 0
        for column, size in enumerate(self.space.sizes):
            moved[row : row + size, column] = np.arange(size)
            row += size
        rows = (self._row_of.get(code.tobytes()) for code in moved)
        return np.array([row for row in rows if row not in (None, place)], dtype=np.intp)


# The valid configurations of a space: parameter by parameter, each constraint as soon as its names are bound.
#
# A constraint is a plain function of a few parameters. It is called once for every combination of their values if these are
# few, which is exact whatever it does. For more, it is tried on whole arrays, and the answers are compared with single calls on a
# sample of rows; where they differ, or it does not take arrays, it is called for every row.


LIMIT = 2**20
"""Most configurations that are kept; of more, a random sample."""
TABLE = 100_000
"""Most combinations for which a constraint is called one by one."""
CHECKED = 500
"""Rows on which a constraint's answer for arrays is compared with single calls: a difference elsewhere goes unseen."""
CALLS = 2**18
"""About how many rows a constraint is called for one by one; of more, random ones."""
CHUNK = 2**21
"""Rows that are checked together, which bounds the memory."""

Mask = NDArray[np.bool_]


def candidates(space: Space, limit: int = LIMIT) -> Candidates:
    """Return the valid configurations of ``space``, in the order of its values; a random sample of more than ``limit``.

    Raises UsageError where a constraint leaves nothing, or fails.
    """
    rng = np.random.default_rng(0)
    rules = [_Rule(space, constraint, rng) for constraint in space.constraints]
    order = _order(space, rules)
    bound: list[int] = []
    codes: Codes = np.empty((1, 0), dtype=np.int16)
    exact = True
    for column in order:
        bound.append(column)
        ready = [rule for rule in rules if column in rule.columns and rule.columns <= set(bound)]
        codes, whole = _extended(codes, space.sizes[column], ready, bound, rng)
        exact = exact and whole
        if len(codes) > limit:
            codes, exact = codes[rng.choice(len(codes), limit, replace=False)], False
    codes = codes[:, np.argsort(order)]
    codes = _with_default(space, codes, exact=exact)
    return Candidates(space, codes[np.lexsort(codes.T[::-1])], exact=exact)


class _Rule:
    """A constraint over columns of codes."""

    def __init__(self, space: Space, constraint: Callable[..., bool], rng: np.random.Generator) -> None:
        self.text, self._constraint, self._rng = constraint_text(constraint), constraint, rng
        self._names = constraint_names(constraint)
        everything = list(space.parameters)
        self._at = [everything.index(name) for name in self._names]
        self._values = [space.parameters[name] for name in self._names]
        self.columns = frozenset(self._at)
        """The columns that must be bound before it can be called."""
        self._table: Mask | None = None
        shape = [len(values) for values in self._values]
        if math.prod(shape) <= TABLE:
            allowed = (self._allows(row) for row in itertools.product(*self._values))
            self._table = np.fromiter(allowed, dtype=np.bool_, count=math.prod(shape)).reshape(shape)

    @property
    def slow(self) -> bool:
        """Return whether it has to be called for every row."""
        return self._table is None and not self._takes_arrays

    def holds(self, codes: Codes, bound: list[int]) -> Mask:
        """Return which rows it allows; column k of ``codes`` is parameter ``bound[k]``."""
        own = [codes[:, bound.index(column)] for column in self._at]
        if self._table is not None:
            return np.asarray(self._table[tuple(own)])
        allowed = self._allowed_at_once(own) if self._takes_arrays else None
        if allowed is not None and self._agrees(own, allowed):
            return allowed
        rows = self._rows(own, np.arange(len(codes)))
        return np.fromiter((self._allows(row) for row in rows), dtype=np.bool_, count=len(codes))

    @functools.cached_property
    def _takes_arrays(self) -> bool:
        """Return whether it gives the same answers for arrays as for single rows, tried on random ones."""
        own = [self._rng.integers(len(values), size=CHECKED).astype(np.int16) for values in self._values]
        allowed = self._allowed_at_once(own)
        return allowed is not None and self._agrees(own, allowed)

    def _agrees(self, own: list[Codes], allowed: Mask) -> bool:
        tried = self._rng.integers(len(allowed), size=min(CHECKED, len(allowed)))
        return all(self._allows(row) == allowed[at] for at, row in zip(tried, self._rows(own, tried), strict=True))

    def _allows(self, row: tuple[Value, ...]) -> bool:
        arguments = dict(zip(self._names, row, strict=True))
        try:
            return bool(self._constraint(**arguments))
        except Exception as error:  # noqa: BLE001  an author's code may raise anything
            raise UsageError(
                f"A constraint fails for {arguments}: {type(error).__name__}: {error} in: {self.text}", "Correct it."
            ) from None

    def _allowed_at_once(self, own: list[Codes]) -> Mask | None:
        """Return the answers for all rows from one call; None where it does not take arrays."""
        arrays = [np.array(values)[column] for values, column in zip(self._values, own, strict=True)]
        try:
            with np.errstate(all="raise"):
                allowed = self._constraint(**dict(zip(self._names, arrays, strict=True)))
        except Exception:  # noqa: BLE001  written for plain values: asked row by row
            return None
        return (
            allowed if isinstance(allowed, np.ndarray) and allowed.dtype == np.bool_ and allowed.shape == own[0].shape else None
        )

    def _rows(self, own: list[Codes], at: NDArray[np.intp] | NDArray[np.int64]) -> Iterator[tuple[Value, ...]]:
        columns = [[values[code] for code in column[at].tolist()] for values, column in zip(self._values, own, strict=True)]
        return zip(*columns, strict=True)


def _order(space: Space, rules: list[_Rule]) -> list[int]:
    """Order the columns so that constraints are bound early: next come those of the rule with the fewest new combinations."""
    order: list[int] = []
    waiting = list(rules)
    while waiting:
        cost = {id(rule): float(np.prod([float(space.sizes[c]) for c in rule.columns - set(order)])) for rule in waiting}
        nearest = min(waiting, key=lambda rule: cost[id(rule)])
        order += sorted(nearest.columns - set(order))
        waiting = [rule for rule in waiting if not rule.columns <= set(order)]
    return order + [column for column in range(len(space.sizes)) if column not in order]


def _extended(codes: Codes, size: int, ready: list[_Rule], bound: list[int], rng: np.random.Generator) -> tuple[Codes, bool]:
    """Return every row with each value of one more parameter, less what a constraint forbids; and whether all rows were checked.

    Where a constraint has to be called for every row and there are too many, random ones are checked until there are enough.
    """
    slow = any(rule.slow for rule in ready)
    if slow and len(codes) * size > CALLS:
        codes = codes[rng.permutation(len(codes))]
    kept: list[Codes] = []
    rows, last, valid = max(1, (CALLS // 8 if slow else CHUNK) // size), "", 0
    for first in range(0, len(codes), rows):
        if slow and valid and first * size >= CALLS:
            return np.concatenate(kept), False
        part = codes[first : first + rows]
        more = np.empty((len(part) * size, len(bound)), dtype=np.int16)
        more[:, :-1] = np.repeat(part, size, axis=0)
        more[:, -1] = np.tile(np.arange(size, dtype=np.int16), len(part))
        for rule in ready:
            before = len(more)
            more = more[rule.holds(more, bound)] if before else more
            last = rule.text if before and not len(more) else last
        kept.append(more)
        valid += len(more)
    if not valid:
        raise UsageError(
            f"No configuration is valid: nothing that the constraints before it allow passes: {last}",
            "Loosen it, or give its parameters other values.",
        )
    return np.concatenate(kept), True


def _with_default(space: Space, codes: Codes, *, exact: bool) -> Codes:
    """Add the default, which a sample may have missed."""
    code = None if space.default is None else space.encode(space.default)
    if code is None or exact or bool((codes == code).all(axis=1).any()):
        return codes
    return np.concatenate([codes, code[None, :]])
