"""The mean of pairs with its interval, its p-value and what it could have found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ratchet.stats.estimate import Estimate, estimate, estimate_apart, estimate_between_days, quantile, without_rogues

LOGS = [0.031, 0.034, 0.036, 0.029, 0.035, 0.033, 0.032, 0.037]
VALUES = st.lists(st.integers(-4000, 4000).map(lambda value: value * 1e-5), min_size=2, max_size=20).filter(
    lambda values: len(set(values)) > 1
)
STEADY = settings(deadline=None, derandomize=True, max_examples=60)


def kept(values: Sequence[float]) -> list[float]:
    return list(without_rogues(np.asarray(values, dtype=np.float64)))


# One side of pairs


def test_by_hand() -> None:
    """One, two and three have the mean 2, a standard deviation of 1 and two degrees of freedom."""
    found = estimate([1.0, 2.0, 3.0])
    assert (found.centre, found.freedom, found.rogues) == (2.0, 2, 0)
    assert found.error == pytest.approx(1 / math.sqrt(3))
    assert found.spread == pytest.approx(1.0)
    assert found.half_width(0.95) == pytest.approx(4.302653 / math.sqrt(3))


@STEADY
@given(VALUES)
def test_it_is_students_t(values: list[float]) -> None:
    """Without rogues the interval is that of scipy's t-test, and so is the p-value where the exact test says no more."""
    found = estimate(values)
    if found.rogues:
        return
    test = stats.ttest_1samp(values, 0, alternative="greater" if found.centre > 0 else "less")
    assert found.chance == pytest.approx(max(test.pvalue, found.exchanged), rel=1e-6, abs=1e-12)
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    half = found.half_width(0.9)
    assert (found.centre - half, found.centre + half) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert found.spread == pytest.approx(float(np.std(values, ddof=1)))


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_more_confidence_is_wider(confidence: float) -> None:
    """An interval of more confidence holds one of less."""
    assert estimate(LOGS).half_width(confidence) > estimate(LOGS).half_width(confidence - 0.1)


@pytest.mark.parametrize("of", [1, 3, 8, 20])
def test_equal_values_are_not_infinite_evidence(of: int) -> None:
    """Values that agree to the last digit are taken to differ by a millionth: the p-value stays above nothing."""
    found = estimate([0.05] * of)
    assert found.centre == pytest.approx(0.05, abs=1e-15)
    if of == 1:
        assert (found.chance, found.half_width(0.95), found.spread, found.detectable(0.95)) == (1.0, math.inf, 0.0, 1.0)
    else:
        assert found.error == pytest.approx(1e-6 / math.sqrt(of))
        assert 0 < found.chance < 1e-6
    assert estimate([0.0] * of).chance == (1.0 if of == 1 else 0.5)


@pytest.mark.parametrize("pairs", [5, 8, 20])
def test_the_interval_holds_what_it_says(pairs: int) -> None:
    """Of normal pairs, the nominal 95 % interval holds the truth in 93 to 97 of 100 runs."""
    draws = np.random.default_rng(2025).normal(0.01, 0.003, (1500, pairs))
    found = [estimate(draw) for draw in draws.tolist()]
    share = sum(abs(each.centre - 0.01) <= each.half_width(0.95) for each in found) / len(found)
    assert 0.93 <= share <= 0.97


@pytest.mark.parametrize("level", [0.001, 0.01, 0.1])
def test_unchanged_code_looks_slower_as_often_as_the_p_value_says(level: float) -> None:
    """Of normal pairs around nothing, a share of about twice the level, one for each direction, is under it."""
    draws = np.random.default_rng(7).normal(0, 0.003, (4000, 8))
    share = sum(estimate(draw).chance <= level for draw in draws.tolist()) / len(draws)
    assert share == pytest.approx(2 * level, abs=4 * math.sqrt(2 * level / len(draws)))


# Rogues


@pytest.mark.parametrize("away", [0.6, -0.6])
def test_one_rogue_pair_hides_nothing(away: float) -> None:
    """A pair in which the host stalled leaves the estimate of the other eleven, and is counted."""
    others = [0.051, 0.049, 0.050, 0.052, 0.048, 0.050, 0.051, 0.050, 0.049, 0.051, 0.050]
    found, clean = estimate([*others, away]), estimate(others)
    assert found.rogues == 1
    assert (found.centre, found.error, found.freedom) == (clean.centre, clean.error, clean.freedom)
    assert found.chance < 1e-6


@pytest.mark.parametrize(
    ("values", "rogues"),
    [
        ([0.001, -0.001] * 4 + [0.5], 1),
        ([0.001, -0.001] * 3 + [0.001, 0.5], 0),  # none of the first eight
        ([0.001, -0.001] * 3 + [0.5, 0.5], 0),
        ([0.001, -0.001] * 7 + [0.5, -0.5], 2),
        ([0.001, -0.001] * 6 + [0.5, -0.5, 0.5], 0),  # three in fifteen are part of what happens here
        ([0.0] * 8 + [0.0487], 0),  # 4.99 %: within what a change may be
        ([0.0] * 8 + [0.0489], 1),
        ([0.0] * 8 + [-0.0489], 1),
        ([0.02, -0.02] * 4 + [0.55], 0),  # fewer than ten robust spreads of 5.9 %
        ([0.02, -0.02] * 4 + [0.65], 1),
        ([0.1] * 8, 0),
        ([0.1], 0),
        ([0.1, 5.0], 0),
    ],
)
def test_what_a_rogue_is(values: list[float], rogues: int) -> None:
    """A rogue is at least ten robust spreads and 5 % from the median; at most one in eight values is one, and none of eight."""
    assert estimate(values).rogues == rogues
    assert len(kept(values)) == len(values) - rogues
    if rogues:
        assert set(kept(values)) == {value for value in values if abs(value) < 0.04}
    else:
        assert kept(values) == values


# Sides that were not paired


@STEADY
@given(VALUES, VALUES)
def test_apart_is_welchs_t(head: list[float], reference: list[float]) -> None:
    """For two sides measured apart it is Welch's test as scipy has it: p-value, degrees of freedom and interval."""
    found = estimate_apart(head, reference)
    test = stats.ttest_ind(head, reference, equal_var=False, alternative="greater" if found.centre > 0 else "less")
    assert found.chance == pytest.approx(test.pvalue, rel=1e-6, abs=1e-12)
    assert found.freedom == pytest.approx(test.df)
    interval = stats.ttest_ind(head, reference, equal_var=False).confidence_interval(0.95)
    assert found.centre + found.half_width(0.95) == pytest.approx(interval.high, abs=1e-9)


def test_spread_of_sides_apart() -> None:
    """What one value of each side would differ by, however many values there are."""
    for count in (4, 40):
        found = estimate_apart([0.03, -0.03] * count, [0.04, -0.04] * count)
        assert found.spread == pytest.approx(0.05, rel=0.08)
        assert found.error == pytest.approx(0.05 / math.sqrt(2 * count), rel=0.08)


@pytest.mark.parametrize(("head", "reference"), [([0.5], [0.1, 0.2]), ([0.1, 0.2], [0.5]), ([0.5], [0.1])])
def test_a_single_value_proves_nothing(head: list[float], reference: list[float]) -> None:
    """One value on a side has a difference, and nothing that could be said about it."""
    for found in (estimate_apart(head, reference), estimate_between_days(head, reference)):
        assert found.centre == pytest.approx(np.mean(head) - np.mean(reference))
        assert (found.chance, found.detectable(0.95), found.half_width(0.95), found.spread) == (1.0, 1.0, math.inf, 0.0)


# One day against others


def test_between_days_by_hand() -> None:
    """A day whose own values agree is as far off as the spread between days allows, as a prediction interval says."""
    days = [0.0, 0.01, 0.02, 0.03]
    found = estimate_between_days([0.10] * 6, days)
    error = float(np.std(days, ddof=1)) * math.sqrt(1 + 1 / 4)
    assert found.centre == pytest.approx(0.10 - 0.015)
    assert found.error == pytest.approx(error, rel=1e-6)
    assert found.freedom == pytest.approx(3, rel=1e-6)
    assert found.chance == pytest.approx(stats.t.sf(0.085 / error, 3), rel=1e-5)


def test_between_days_is_uncertain_of_today_too() -> None:
    """Where the days agree and today's own values do not, today's count decides what is known."""
    head = [0.05, -0.05, 0.04, -0.04]
    found = estimate_between_days(head, [0.001, -0.001] * 10)
    assert found.error == pytest.approx(float(stats.sem(head)), rel=0.01)
    assert found.freedom == pytest.approx(3, rel=0.01)


def test_more_days_do_not_make_the_spread_between_days_larger() -> None:
    """What a day differs from the others by stays what it is, however many of them are known."""
    spreads = [estimate_between_days([0.0] * 6, [0.01, -0.01] * (days // 2)).spread for days in (4, 10, 30)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] == pytest.approx(0.01, rel=0.05)


def test_identical_days() -> None:
    """Days that agree to the last digit are taken to differ by a millionth."""
    found = estimate_between_days([0.02] * 6, [0.0, 0.0, 0.0])
    assert found.error == pytest.approx(1e-6 * math.sqrt(1 / 6 + 4 / 3))
    assert 0 < found.chance < 1e-6


def test_days_give_false_evidence_as_often_as_the_p_value_says() -> None:
    """Of unchanged days whose centres differ by 1 %, about one in a hundred is past a level of one in a hundred."""
    rng = np.random.default_rng(3)
    days, today = rng.normal(0, 0.01, (3000, 6)), rng.normal(0, 0.01, (3000, 1))
    heads = today + rng.normal(0, 0.002, (3000, 8))
    found = [estimate_between_days(head, earlier) for head, earlier in zip(heads.tolist(), days.tolist(), strict=True)]
    share = sum(each.chance <= 0.01 for each in found) / len(found)
    assert 0.012 <= share <= 0.028


# What could have been found


def test_detectable_by_hand() -> None:
    """The quantiles of confidence and of power, times the error, as a fraction."""
    error = float(stats.sem(LOGS))
    need = (stats.t.ppf(0.975, 7) + stats.t.ppf(0.8, 7)) * error
    assert estimate(LOGS).detectable(0.95) == pytest.approx(math.expm1(need))


@pytest.mark.parametrize("pairs", [6, 12, 20])
def test_detectable_is_found_four_times_in_five(pairs: int) -> None:
    """A slowdown as large as is said to be detectable is told from none in 75 to 85 of 100 runs."""
    found = Estimate(0.0, 0.001, pairs - 1)
    shift = math.log1p(found.detectable(0.95)) / found.error
    assert 0.75 <= stats.nct.sf(quantile(0.975, pairs - 1), pairs - 1, shift) <= 0.85


@STEADY
@given(VALUES, st.floats(1.5, 20))
def test_detectable_grows_with_spread(values: list[float], factor: float) -> None:
    """Pairs spread wider can show less."""
    near, far = Estimate(0, 0.001, 7), Estimate(0, 0.001 * factor, 7)
    assert far.detectable(0.95) > near.detectable(0.95)
    assert 0 < estimate(values).detectable(0.95) <= 1


def test_detectable_shrinks_with_pairs_and_grows_with_confidence() -> None:
    """More pairs of the same spread can show more, and asking for more confidence shows less."""
    found = [estimate(LOGS * times).detectable(0.95) for times in (1, 2, 4, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 2 * found[-1]
    assert estimate(LOGS).detectable(0.99) > estimate(LOGS).detectable(0.95) > estimate(LOGS).detectable(0.5)


def test_nothing_beyond_the_whole_is_claimed() -> None:
    """However wild the values, what could have been found is at most 100 %."""
    assert estimate([-5.0, 0.0, 5.0]).detectable(0.95) == 1.0
    assert estimate_apart([-500.0, 500.0], [0.0, 1.0]).detectable(0.95) == 1.0


# Refused, and the quantile


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.nan, 2.0], [1.0, math.inf], [-math.inf, 0.0]])
def test_no_values(values: list[float]) -> None:
    """No values, NaN and infinity are refused, on one side and on either of two."""
    for call in (
        lambda: estimate(values),
        lambda: estimate_apart(values, [1.0, 2.0]),
        lambda: estimate_apart([1.0, 2.0], values),
        lambda: estimate_between_days(values, [1.0, 2.0]),
        lambda: estimate_between_days([1.0, 2.0], values),
    ):
        with pytest.raises(ValueError, match="finite values"):
            call()


@pytest.mark.parametrize("share", [0.6, 0.8, 0.975, 0.99999])
@pytest.mark.parametrize("freedom", [1, 2.5, 7, 1000])
def test_quantile_of_students_t(share: float, freedom: float) -> None:
    """The quantile is scipy's."""
    assert quantile(share, freedom) == pytest.approx(float(stats.t.ppf(share, freedom)))
