"""The trimmed mean and its bootstrap interval."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ratchet.stats.interval import TRIM, bootstrap_difference, bootstrap_interval, centre

LOGS = st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=16)
FEW = settings(deadline=None, max_examples=25)


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        ([5.0], 5.0),
        ([1.0, 2.0], 1.5),
        ([1.0, 2.0, 9.0], 2.0),
        ([1.0, 2.0, 3.0, 90.0], 2.5),
        ([0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 900.0], 4.0),
    ],
)
def test_centre_by_hand(values: list[float], middle: float) -> None:
    """The centre is the mean of what is left once three eighths are cut from each end."""
    assert centre(values) == middle


@FEW
@given(st.lists(st.floats(-10, 10), min_size=3, max_size=30))
def test_centre_agrees_with_scipy(values: list[float]) -> None:
    """The centre is scipy's trimmed mean."""
    assert centre(values) == pytest.approx(float(stats.trim_mean(values, TRIM)), abs=1e-12)


@FEW
@given(LOGS)
def test_interval_holds_its_centre(values: list[float]) -> None:
    """The centre lies inside the interval, and the interval inside the values."""
    found = bootstrap_interval(values, 0.95)
    assert found.low <= found.centre <= found.high
    assert found.centre == centre(values)
    assert min(values) - 1e-12 <= found.low
    assert found.high <= max(values) + 1e-12


@FEW
@given(LOGS, st.randoms(use_true_random=False))
def test_order_of_pairs(values: list[float], shuffler: random.Random) -> None:
    """The same pairs in any order give the very same interval."""
    mixed = list(values)
    shuffler.shuffle(mixed)
    found, again = bootstrap_interval(values, 0.95), bootstrap_interval(mixed, 0.95)
    assert (found.low, found.high) == (again.low, again.high)
    assert found.centre == pytest.approx(again.centre, abs=1e-15)


@FEW
@given(st.lists(st.floats(-0.2, 0.2), min_size=6, max_size=16), st.floats(-1, 1))
def test_shift(values: list[float], shift: float) -> None:
    """Logs that all move by one amount move the interval by it."""
    found = bootstrap_interval(values, 0.95)
    moved = bootstrap_interval([value + shift for value in values], 0.95)
    assert (moved.low, moved.centre, moved.high) == pytest.approx(
        (found.low + shift, found.centre + shift, found.high + shift), abs=1e-9
    )


def test_negation() -> None:
    """The interval of the negated logs is the negated interval, up to the chance of resampling."""
    values = list(np.random.default_rng(5).normal(0.01, 0.003, 12))
    found = bootstrap_interval(values, 0.95)
    turned = bootstrap_interval([-value for value in values], 0.95)
    assert turned.centre == pytest.approx(-found.centre)
    assert (-turned.high, -turned.low) == pytest.approx((found.low, found.high), abs=0.1 * (found.high - found.low))


@pytest.mark.parametrize("pairs", [8, 9, 10, 11, 12, 16])
@pytest.mark.parametrize("off", [math.log(1.35), math.log(0.7)])
def test_one_rogue_pair(pairs: int, off: float) -> None:
    """One pair off by tens of percent among eight or more leaves the interval within the spread of the others."""
    values = list(np.random.default_rng(pairs).normal(0, 0.003, pairs))
    found = bootstrap_interval([off, *values[1:]], 0.95)
    assert abs(found.centre) < 0.004
    assert min(values[1:]) <= found.low
    assert found.high <= max(values[1:])


def test_more_confidence_is_wider() -> None:
    """An interval of more confidence holds one of less."""
    values = list(np.random.default_rng(1).normal(0, 0.003, 10))
    wide, narrow = bootstrap_interval(values, 0.99), bootstrap_interval(values, 0.8)
    assert wide.low < narrow.low
    assert narrow.high < wide.high


@pytest.mark.parametrize("values", [[0.25], [0.25] * 7])
def test_one_value(values: list[float]) -> None:
    """One value, or several equal ones, give an interval of that value alone."""
    found = bootstrap_interval(values, 0.95)
    assert (found.low, found.centre, found.high) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.nan, 2.0], [1.0, math.inf]])
def test_no_values(values: list[float]) -> None:
    """No values, NaN and infinity are refused, for one side and for two."""
    with pytest.raises(ValueError, match="finite values"):
        bootstrap_interval(values, 0.95)
    with pytest.raises(ValueError, match="finite values"):
        bootstrap_difference(values, [1.0], 0.95)
    with pytest.raises(ValueError, match="finite values"):
        bootstrap_difference([1.0], values, 0.95)


def test_coverage() -> None:
    """With eight normal pairs of 0.3 % spread, the nominal 95 % interval holds the truth in at least 85 of 100 runs."""
    draws = np.random.default_rng(2025).normal(0, 0.003, (400, 8))
    found = [bootstrap_interval(list(values), 0.95) for values in draws]
    share = sum(each.low <= 0 <= each.high for each in found) / len(found)
    assert 0.85 <= share <= 0.99


def test_difference() -> None:
    """Two sides that were not paired: the difference of centres lies in its interval, whose order does not matter."""
    a, b = [0.03, 0.031, 0.029, 0.0305], [0.0, 0.001, -0.001, 0.0005]
    found = bootstrap_difference(a, b, 0.95)
    assert found == bootstrap_difference(a[::-1], b[::-1], 0.95)
    assert found.low < found.centre < found.high
    assert found.centre == pytest.approx(0.03)
    assert found.low > 0.028
    assert found.high < 0.032


def test_difference_of_the_same() -> None:
    """Constant sides differ by exactly what they differ."""
    found = bootstrap_difference([2.0] * 4, [0.5] * 3, 0.95)
    assert (found.low, found.centre, found.high) == (1.5, 1.5, 1.5)
