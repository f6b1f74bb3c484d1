"""The exact test: the sides of some pairs exchanged."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ratchet.stats.estimate import estimate
from ratchet.stats.exchange import MOST, exchange_chance

VALUES = st.lists(st.integers(-500, 500), min_size=1, max_size=10)


def brute_force(values: list[int]) -> float:
    ways = list(itertools.product((-1, 1), repeat=len(values)))
    far = sum(sum(sign * value for sign, value in zip(way, values, strict=True)) >= abs(sum(values)) for way in ways)
    return min(0.5, far / len(ways))


@settings(deadline=None, derandomize=True)
@given(VALUES)
def test_all_exchanges_are_counted(values: list[int]) -> None:
    """The p-value is the share of all ways to sign the values whose sum is as far off."""
    assert exchange_chance(np.array(values, dtype=np.float64)) == brute_force(values)


def test_scipy_agrees() -> None:
    """Scipy's exact permutation test of paired samples gives the same."""
    values = np.random.default_rng(3).normal(0.5, 1, 12)
    found = stats.permutation_test((values,), np.mean, permutation_type="samples", alternative="greater", n_resamples=np.inf)
    assert exchange_chance(values) == pytest.approx(found.pvalue)


@pytest.mark.parametrize("count", [1, 8, 20, MOST])
def test_values_of_one_sign_are_one_way_of_all(count: int) -> None:
    """Values that all agree have the smallest p-value that so many can have; equal halves, the largest."""
    assert exchange_chance(np.full(count, 0.031)) == pytest.approx(min(0.5, 2.0**-count))
    assert exchange_chance(np.zeros(count)) == 0.5


def test_too_many_to_count() -> None:
    """More values than can be counted are refused, and an estimate of them takes Student's t alone."""
    with pytest.raises(ValueError, match="at most 40"):
        exchange_chance(np.ones(MOST + 1))
    assert estimate([0.01, 0.011] * 25).exchanged == 0.0


def test_lucky_modes_are_no_evidence() -> None:
    """Ten pairs in one mode of two and two in the other convince Student's t, but exchanging sides explains them."""
    found = estimate([0.06] * 10 + [0.0005, -0.0005])
    assert found.chance == found.exchanged > 2.0**-12
    assert estimate([0.06, 0.061] * 6).chance < 1e-9  # all pairs agree: there is nothing to add to Student's t


def test_it_is_never_too_sure() -> None:
    """Whatever the noise, unchanged code has a p-value under a level at most that often in each direction."""
    rng = random.Random(11)
    draws = [[rng.choice((-0.06, 0.0, 0.0, 0.06)) + rng.gauss(0, 0.001) for _ in range(12)] for _ in range(3000)]
    for level in (0.05, 0.01, 0.002):
        share = sum(exchange_chance(np.array(draw)) <= level for draw in draws) / len(draws)
        assert share <= 2 * level + 3 * (2 * level / len(draws)) ** 0.5
