"""Spaces and their valid configurations, against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.core.errors import UsageError
from ratchet.tune import space as enumeration
from ratchet.tune.space import Candidates, Space, candidates

pytestmark = pytest.mark.no_cover

VALUES = st.lists(st.integers(-3, 40), min_size=1, max_size=5, unique=True)
CONSTRAINTS: dict[str, Callable[..., Any]] = {
    "product": lambda a, b: a * b <= 200,
    "short-circuit": lambda b, c: c == 0 or b % c == 0,
    "sum": lambda a, c, d: a + c + d < 60,
    "either": lambda a, d: (a < 10) | (d > 5),
    "odd": lambda a, d: (a + d) % 2 == 1 or a <= d or a > d + 1,
    "all": lambda a, b, c, d: a + b >= c - d,
}


def brute(space: Space) -> list[dict[str, Any]]:
    """Every combination, asked one by one."""
    rows = (dict(zip(space.parameters, values, strict=True)) for values in itertools.product(*space.parameters.values()))
    return [row for row in rows if all(rule(**{n: row[n] for n in _names(rule)}) for rule in space.constraints)]


def _names(rule: Callable[..., Any]) -> tuple[str, ...]:
    return rule.__code__.co_varnames[: rule.__code__.co_argcount]


def listed(found: Candidates) -> list[dict[str, Any]]:
    return [found.configuration(place) for place in range(found.count)]


@pytest.mark.parametrize("table", [100_000, 0])
@given(st.tuples(VALUES, VALUES, VALUES, VALUES), st.sets(st.sampled_from(sorted(CONSTRAINTS))))
@settings(max_examples=60, deadline=None)
def test_the_candidates_are_those_of_brute_force(table: int, values: tuple[list[int], ...], rules: set[str]) -> None:
    """Exactly the combinations that all constraints allow, in the order of the values, whichever way a constraint is asked."""
    space = Space(dict(zip("abcd", map(tuple, values), strict=True)), tuple(CONSTRAINTS[name] for name in sorted(rules)))
    expected = brute(space)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "TABLE", table)
        if not expected:
            with pytest.raises(UsageError, match="No configuration is valid"):
                candidates(space)
            return
        found = candidates(space)
    assert found.exact
    assert listed(found) == expected
    assert [found.index(row) for row in expected] == list(range(len(expected)))


@given(st.tuples(VALUES, VALUES, VALUES, VALUES), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_neighbours_differ_in_one_parameter(values: tuple[list[int], ...], drawn: int) -> None:
    """All valid ones that differ in exactly one parameter, and no other."""
    found = candidates(Space(dict(zip("abcd", map(tuple, values), strict=True)), (CONSTRAINTS["odd"],)))
    here = drawn % found.count
    apart = (found.codes != found.codes[here]).sum(axis=1)
    assert sorted(found.neighbours(here).tolist()) == np.flatnonzero(apart == 1).tolist()


def test_more_than_the_limit_are_sampled() -> None:
    """Of too many, so many distinct valid ones are kept, the default among them, and it is said that they are not all."""
    default = dict.fromkeys("abcdefgh", 7)
    space = Space({name: tuple(range(8)) for name in "abcdefgh"}, (lambda a, b: a <= b,), default)
    found = candidates(space, limit=1000)
    assert not found.exact
    assert 1000 <= found.count <= 1001
    assert found.index(default) is not None
    assert len({tuple(row) for row in found.codes.tolist()}) == found.count
    assert (found.codes[:, 0] <= found.codes[:, 1]).all()


def test_a_constraint_that_takes_no_arrays_is_asked_for_a_part() -> None:
    """With too many rows to ask one by one, random ones are asked, and those kept are valid."""
    space = Space({name: tuple(range(10)) for name in "abcdef"}, (lambda a, b, c, d, e, f: a + b + c < 9 and d + e > f,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "CALLS", 4000)
        found = candidates(space)
    assert not found.exact
    assert found.count > 10
    assert all(sum(row[:3]) < 9 and row[3] + row[4] > row[5] for row in found.codes.tolist())


@pytest.mark.parametrize(
    ("parameters", "constraints", "says"),
    [
        ({"a": (1, 1)}, (), "a lists a value twice"),
        ({"a": (1, 2)}, (lambda a: a > 2,), "No configuration is valid: "),
        (
            {"a": (1, 2), "b": (1, 2)},
            (
                lambda a: a > 1,
                lambda b, a: b > a,
            ),
            "No configuration is valid: nothing that the constraints before it allow passes: lambda b, a: b > a",
        ),
        ({"a": (0, 1)}, (lambda a: 1 / a > 0,), r"A constraint fails for \{'a': 0\}: ZeroDivisionError: "),
    ],
)
def test_spaces_that_cannot_be(parameters: Any, constraints: Any, says: str) -> None:
    """A space without a valid configuration, or whose constraint fails, ends with a sentence that names what is wrong."""
    # From its beginning: a sentence quotes the line of a constraint, which has the words that are looked for, too.
    with pytest.raises(UsageError, match=f"^{says}"):
        candidates(Space(parameters, constraints))


def test_values_of_any_kind() -> None:
    """Strings, bools and floats are values like numbers, and a constraint sees them as they were written."""
    space = Space(
        {"layout": ("row", "column"), "fast": (True, False), "x": (0.5, 2.0)}, (lambda layout, fast: layout == "row" or fast,)
    )
    assert listed(candidates(space)) == brute(space)
