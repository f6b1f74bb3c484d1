"""The exact test that decides: the share of ways to set the signs of pairs that look at least as slow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ratchet.core.judge.estimate import MOST, randomisation_p

STEADY = settings(deadline=None, derandomize=True, max_examples=60)
LOGS = st.lists(st.integers(-4000, 4000).map(lambda value: value * 1e-5), min_size=1, max_size=40)
Floats = NDArray[np.float64]


def p_of(log_ratios: Sequence[float] | Floats, *, slower: bool = True) -> float:
    return randomisation_p(np.asarray(log_ratios, dtype=np.float64), slower=slower)


def by_enumeration(log_ratios: Sequence[float], *, slower: bool) -> float:
    """Every way to set the signs, one after the other, of sizes capped at their median and rounded up to a 256th of it."""
    sizes = [abs(log) for log in log_ratios]
    cap = float(np.median(sizes))
    scores = [math.ceil(min(size / cap, 1.0) * 256) if cap else int(size > 0) for size in sizes]
    observed = sum(score for score, log in zip(scores, log_ratios, strict=True) if (log > 0 if slower else log < 0))
    sums = [sum(itertools.compress(scores, signs)) for signs in itertools.product((0, 1), repeat=len(scores))]
    return sum(total >= observed for total in sums) / len(sums)


@STEADY
@given(LOGS.filter(lambda logs: len(logs) <= 12), st.booleans())
@example([0.03] * 12, True)
@example([0.0] * 7 + [0.01] * 3, True)  # most pairs show no difference at all
@example([0.0] * 7 + [0.01, 0.02, -0.01], False)
@example([0.01, 0.02, 0.03, -0.01, -0.5, 0.02, 0.011, 0.04, -0.002, 0.0, 0.03, 0.03], True)
@example([0.1], True)
def test_it_is_the_share_of_all_ways_to_set_the_signs(logs: list[float], slower: bool) -> None:
    """The p-value is that of going through all 2ⁿ ways one by one, ties, zeros and outliers included."""
    assert p_of(logs, slower=slower) == pytest.approx(by_enumeration(logs, slower=slower), rel=1e-12)


def test_by_hand() -> None:
    """Three pairs that are all slower are one of eight ways; where the smallest is faster, two of eight are as slow."""
    assert p_of([0.03, 0.02, 0.01]) == 1 / 8
    assert p_of([0.03, 0.03, -0.01]) == 2 / 8
    assert p_of([0.03, 0.03, -0.01], slower=False) == 7 / 8


def test_two_hundred_pairs_are_counted() -> None:
    """All ways of 200 pairs are counted, to the smallest p-value there is; of more, a normal distribution says enough."""
    assert p_of([0.01] * 200) == pytest.approx(0.5**200, rel=1e-9, abs=0)
    assert p_of([0.01] * 201) > 0.5**200


@STEADY
@given(LOGS)
def test_it_is_never_below_two_to_the_minus_n(logs: list[float]) -> None:
    """Not even pairs that all agree are more than one way in 2ⁿ, and nothing is more than all of them."""
    assert 0.5 ** len(logs) * (1 - 1e-9) <= p_of(logs) <= 1 + 1e-9
    assert p_of([abs(log) + 1e-5 for log in logs]) == pytest.approx(0.5 ** len(logs))


@STEADY
@given(LOGS)
def test_both_directions_are_alike(logs: list[float]) -> None:
    """Swapped sides ask the mirrored question; the two directions together are all ways, and those that tie twice."""
    swapped = [-log for log in logs]
    assert p_of(logs) == p_of(swapped, slower=False)
    assert p_of(logs) + p_of(logs, slower=False) >= 1 - 1e-9


@STEADY
@given(LOGS, st.randoms(use_true_random=False), st.sampled_from([2.0**-6, 0.5, 4.0]))
def test_neither_order_nor_scale_matters(logs: list[float], shuffler: object, scale: float) -> None:
    """The same pairs in another order, or all larger by one factor, are the same evidence."""
    mixed = logs[:]
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]  hypothesis gives a random.Random
    assert p_of(mixed) == pytest.approx(p_of(logs), rel=1e-12)
    assert p_of([scale * log for log in logs]) == p_of(logs)


@pytest.mark.parametrize("stalled", [0.04, 0.6, 9.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_outlier_counts_as_one_pair(stalled: float, sign: int) -> None:
    """A pair past the median size counts the same, however far off it is."""
    others = [0.02, 0.03, 0.025, -0.01, 0.031, 0.02, 0.028, 0.03, 0.033, 0.024, 0.029]
    assert p_of([*others, sign * stalled]) == p_of([*others, sign * 0.035])


def test_a_median_of_nearly_nothing() -> None:
    """Where most pairs differ by less than a float can divide by, the others still count as one pair each."""
    assert p_of([0.0, 4.0, 2.3e-308]) == p_of([0.0, 4.0, 1.0]) == 0.25


NOISES = {
    "coin": lambda rng, shape: 0.035 * rng.choice((-1, 1), shape) + rng.normal(0, 0.003, shape),
    "exponential": lambda rng, shape: rng.exponential(0.02, shape) - rng.exponential(0.02, shape),
    "bimodal": lambda rng, shape: 0.06 * (rng.integers(0, 2, shape) - rng.integers(0, 2, shape)) + rng.normal(0, 0.003, shape),
    "outliers": lambda rng, shape: rng.normal(0, 0.003, shape) + 0.5 * rng.choice((-1, 1), shape) * (rng.random(shape) < 1 / 6),
    "changing scale": lambda rng, shape: rng.normal(0, 1, shape) * np.where(np.arange(shape[1]) % 4 < 2, 0.003, 0.06),
}


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("noise", NOISES)
def test_unchanged_code_looks_slower_as_often_as_it_says(noise: str) -> None:
    """Under any noise that favours no side, a share of the level, and hardly less, of unchanged runs has a p-value within it."""
    draws = NOISES[noise](np.random.default_rng(21), (4000, 20))
    found = np.array([p_of(draw) for draw in draws])
    for level in (0.01, 0.1, 0.5):
        share = float(np.mean(found <= level))
        error = math.sqrt(level * (1 - level) / len(draws))
        assert 0.8 * level - 4 * error <= share <= level + 4 * error


@pytest.mark.parametrize("shift", [0.0, 0.0002, 0.0005, -0.0003])
def test_beyond_two_hundred_pairs_it_is_the_normal_approximation(shift: float) -> None:
    """Where the counting ends, the approximation says the same within a few percent of the p-value."""
    logs = np.random.default_rng(9).normal(shift, 0.003, MOST)
    counted = p_of(logs)
    approximated = p_of(np.append(logs, 0.0))  # a pair without a difference adds no evidence
    assert approximated == pytest.approx(counted, rel=0.05, abs=1e-4)


def test_many_pairs_without_a_difference() -> None:
    """Of pairs that are all equal there is only one way, however many they are."""
    assert p_of([0.0] * 20) == p_of([0.0] * (MOST + 1)) == 1.0
