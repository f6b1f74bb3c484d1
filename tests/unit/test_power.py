"""What a measurement could have found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ratchet.stats.power import detectable_difference, detectable_effect

LOGS = [-0.004, -0.002, -0.001, 0.0, 0.0, 0.001, 0.002, 0.004]


def test_by_hand() -> None:
    """Eight pairs: two cut from each end, the spread winsorised, three degrees of freedom."""
    error = float(np.std([-0.001] * 3 + [0.0, 0.0] + [0.001] * 3, ddof=1)) / (0.5 * math.sqrt(8))
    need = (stats.t.ppf(0.975, 3) + stats.t.ppf(0.8, 3)) * error
    assert detectable_effect(LOGS, 0.95) == pytest.approx(math.expm1(need))


@settings(deadline=None)
@given(st.lists(st.floats(-0.01, 0.01), min_size=3, max_size=20), st.floats(1.5, 20))
def test_grows_with_spread(logs: list[float], factor: float) -> None:
    """Pairs spread wider can show less."""
    assert detectable_effect([factor * value for value in logs], 0.95) >= detectable_effect(logs, 0.95)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_shrinks_with_pairs(confidence: float) -> None:
    """More pairs of the same spread can show more."""
    found = [detectable_effect(LOGS * times, confidence) for times in (1, 2, 4, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 2 * found[-1]


def test_grows_with_confidence() -> None:
    """Asking for more confidence shows less."""
    assert detectable_effect(LOGS, 0.99) > detectable_effect(LOGS, 0.95) > detectable_effect(LOGS, 0.5)


def test_grows_with_spread_and_shrinks_with_pairs_between_days() -> None:
    """The same holds where the sides were not paired, and a noisy side is enough to spoil it."""
    found = detectable_difference(LOGS, LOGS, 0.95)
    noisy = [10 * value for value in LOGS]
    assert detectable_difference(LOGS * 4, LOGS * 4, 0.95) < found < detectable_difference(noisy, LOGS, 0.95)
    assert detectable_difference(noisy, LOGS, 0.95) == detectable_difference(LOGS, noisy, 0.95)
    assert detectable_effect(LOGS, 0.95) < found < 2 * detectable_effect(LOGS, 0.95)


def test_difference_by_hand() -> None:
    """Both sides' squared errors add up, and equal sides have twice the degrees of freedom."""
    error = float(np.std([-0.001] * 3 + [0.0, 0.0] + [0.001] * 3, ddof=1)) / (0.5 * math.sqrt(8))
    need = (stats.t.ppf(0.975, 6) + stats.t.ppf(0.8, 6)) * error * math.sqrt(2)
    assert detectable_difference(LOGS, LOGS, 0.95) == pytest.approx(math.expm1(need))


@pytest.mark.parametrize("logs", [[], [0.1]])
def test_too_few(logs: list[float]) -> None:
    """With fewer than two pairs, or two medians on a side, nothing short of 100 % is claimed."""
    assert detectable_effect(logs, 0.95) == 1.0
    assert detectable_difference(logs, LOGS, 0.95) == 1.0
    assert detectable_difference(LOGS, logs, 0.95) == 1.0


def test_bounds() -> None:
    """However equal or wild the pairs, the claim stays between a millionth and 100 %."""
    assert detectable_effect([0.0] * 8, 0.95) == 1e-6
    assert detectable_difference([0.1] * 4, [0.2] * 4, 0.95) == 1e-6
    assert detectable_effect([-5.0, 0.0, 5.0], 0.95) == 1.0
