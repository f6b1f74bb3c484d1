"""The mean of pairs with its interval, its outliers and what the order of pairs says; sides that were not paired."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from ratchet.core.judge.estimate import (
    BOUND,
    Estimate,
    bootstrap_interval,
    estimate,
    estimate_apart,
    independent_values,
    quantile,
    randomisation_p,
    session_medians,
    student_interval,
    student_p,
    without_outliers,
)

VALUES = st.lists(st.integers(-4000, 4000).map(lambda value: value * 1e-5), min_size=2, max_size=20).filter(
    lambda values: len(set(values)) > 1
)
STEADY = settings(deadline=None, derandomize=True, max_examples=60)

Floats = NDArray[np.float64]


def array(values: Sequence[float]) -> Floats:
    return np.asarray(values, dtype=np.float64)


# One side of pairs


def test_by_hand() -> None:
    """One, two and three thousandths have a mean of two, two degrees of freedom and Student's interval."""
    found = estimate([0.001, 0.002, 0.003], 0.95)
    assert (found.centre, found.dof, found.outliers) == (0.002, 2, 0)
    assert found.error == pytest.approx(0.001 / math.sqrt(3))
    assert found.spread == pytest.approx(0.001)
    half = 0.001 * stats.t.ppf([0.975, 1 - 0.0035], 2) / math.sqrt(3)
    assert (found.low, found.high, found.bound) == pytest.approx((0.002 - half[0], 0.002 + half[0], 0.002 + half[1]))
    assert found.p_value == 0.125


@STEADY
@given(VALUES)
def test_the_p_value_is_the_randomisation_test_s(values: list[float]) -> None:
    """The p-value is that of the randomisation test in the direction of the centre, over all values, outliers among them."""
    found = estimate([*values, 0.9], 0.95)
    assert found.p_value == randomisation_p(array([*values, 0.9]), slower=found.centre >= 0)


@pytest.mark.parametrize("count", [1, 3, 8, 20])
def test_equal_values_are_not_infinite_evidence(count: int) -> None:
    """Values that agree to the last digit are taken to differ by a millionth, and their p-value is 2⁻ⁿ."""
    found = estimate([0.05] * count, 0.95)
    assert found.centre == pytest.approx(0.05, abs=1e-15)
    assert found.p_value == 0.5**count
    assert found.low <= found.centre <= found.high <= found.bound
    if count == 1:
        assert (found.low, found.high, found.bound, found.spread) == (-math.inf, math.inf, math.inf, 0.0)
    else:
        assert found.error == pytest.approx(1e-6 / math.sqrt(count))
        assert found.spread == pytest.approx(1e-6)
        assert (found.low, found.bound) == pytest.approx((0.05, 0.05), abs=2e-5)
    assert estimate([0.0] * count, 0.95).p_value == 1.0


# The interval


def slow_bootstrap(values: Floats, confidence: float) -> tuple[float, float, float]:
    """The studentised bootstrap written as the book has it, one resample after the other, with the same draws."""
    count, centre = values.size, float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(count)
    way = 1 if ((values - centre) ** 3).sum() >= 0 else -1
    ordered = np.sort(way * values)
    pivots = []
    for drawn in np.random.default_rng((2025, count)).integers(0, count, (10_000, count)):
        sample = ordered[drawn]
        own_error = max(float(sample.std(ddof=1)) / math.sqrt(count), 0.05 * error)
        pivots.append(way * (float(sample.mean()) - way * centre) / own_error)
    tail = (1 - confidence) / 2
    most, least, bound = np.quantile(pivots, (1 - tail, tail, tail * BOUND), method="nearest")
    return centre - most * error, centre - least * error, centre - bound * error


@pytest.mark.no_cover
def test_the_interval_of_few_values_is_a_studentised_bootstrap() -> None:
    """Of six values the vectorised interval is that of a slow, direct studentised bootstrap with the same draws, ties or not."""
    for values in (np.random.default_rng(6).exponential(0.01, 6), array([0.5] * 5 + [0.506])):
        assert bootstrap_interval(values, 0.9) == pytest.approx(slow_bootstrap(values, 0.9), rel=1e-9)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("count", [5, 8, 20, 100])
def test_the_interval_is_a_studentised_bootstrap(count: int) -> None:
    """The vectorised interval is that of a slow, direct studentised bootstrap with the same draws."""
    values = np.random.default_rng(count).exponential(0.01, count)
    assert bootstrap_interval(values, 0.95) == pytest.approx(slow_bootstrap(values, 0.95), rel=1e-9)
    assert bootstrap_interval(-values, 0.8) == pytest.approx(slow_bootstrap(-values, 0.8), rel=1e-9)


def test_no_change_on_average_is_asked_whether_it_is_slower() -> None:
    """Where the centre is 0, the p-value is that of a slower head."""
    found = estimate([0.01, 0.01, -0.02], 0.95)
    assert (found.centre, found.p_value) == (0, 1 / 2)


@STEADY
@given(VALUES.filter(lambda values: len(values) >= 5), st.randoms(use_true_random=False))
def test_the_interval_knows_no_order(values: list[float], shuffler: object) -> None:
    """The same values in any order have the very same interval, every time."""
    mixed = values[:]
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]  hypothesis gives a random.Random
    assert bootstrap_interval(array(mixed), 0.95) == bootstrap_interval(array(values), 0.95)


@STEADY
@given(VALUES)
def test_swapped_sides_have_the_mirror_image(values: list[float]) -> None:
    """The interval of the negated values is the negated interval, so neither side is favoured."""
    (low, high, _), (back_low, back_high, _) = (bootstrap_interval(array(values) * way, 0.95) for way in (1, -1))
    assert (back_low, back_high) == pytest.approx((-high, -low), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_the_interval_moves_with_the_values(shift: float) -> None:
    """Values that are all larger by a constant have an interval that is larger by it: only their distances shape it."""
    values = np.random.default_rng(1).exponential(0.01, 20)
    assert bootstrap_interval(values + shift, 0.95) == pytest.approx([end + shift for end in bootstrap_interval(values, 0.95)])


@pytest.mark.parametrize("count", [6, 20, 100])
@pytest.mark.parametrize("step", [0.006, -0.006])
def test_times_that_tie_have_an_interval(count: int, step: float) -> None:
    """Where a coarse clock gives the same ratio in all pairs but one, that one cannot make an interval without an end."""
    low, high, bound = bootstrap_interval(array([0.5] * (count - 1) + [0.5 + step]), 0.95)
    reach = 22 * abs(step) / count
    assert 0.5 - reach < low < 0.5 + step / count < high <= bound < 0.5 + reach


@pytest.mark.parametrize("count", [2, 3, 4, 201, 300])
def test_few_and_many_values_have_students_interval(count: int) -> None:
    """Below five values, where a resample often holds one value alone, and beyond 200 the interval is Student's t."""
    values = np.random.default_rng(5).normal(0.01, 0.003, count)
    low, high, bound = bootstrap_interval(values, 0.95)
    assert (low, high) == pytest.approx(stats.ttest_1samp(values, 0).confidence_interval(0.95))
    assert bound == pytest.approx(values.mean() + stats.t.ppf(1 - 0.0035, count - 1) * stats.sem(values))


@pytest.mark.parametrize("count", [5, 200])
def test_values_that_are_neither_few_nor_many_are_resampled(count: int) -> None:
    """From five values to 200 the interval leans with them, which Student's t never does."""
    low, high, _ = bootstrap_interval(values := np.random.default_rng(1).exponential(0.01, count), 0.95)
    assert high - values.mean() > 1.05 * (values.mean() - low)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("count", [4, 5, 8, 20])
def test_the_interval_holds_what_it_says(count: int) -> None:
    """Of normal pairs, the 95 % interval holds the truth in 93 to 97 of 100 runs, and the bound fails a seventh as often."""
    found = [bootstrap_interval(draw, 0.95) for draw in np.random.default_rng(2025).normal(0.01, 0.003, (1500, count))]
    assert 0.93 <= np.mean([low <= 0.01 <= high for low, high, _ in found]) <= 0.97
    assert np.mean([bound < 0.01 for *_, bound in found]) <= 0.009
    assert all(bound >= high for _, high, bound in found)


# Outliers


@pytest.mark.parametrize("away", [0.6, -0.6])
def test_one_outlier_hides_nothing(away: float) -> None:
    """A pair in which the host stalled leaves the estimate of the other eleven, and is counted."""
    others = [0.051, 0.049, 0.050, 0.052, 0.048, 0.050, 0.051, 0.050, 0.049, 0.051, 0.050]
    found, clean = estimate([*others, away], 0.95), estimate(others, 0.95)
    assert found.outliers == 1
    assert (found.centre, found.error, found.dof) == (clean.centre, clean.error, clean.dof)
    wider = math.sqrt(12 / found.effective_pairs)  # the noise that moved one pair may have moved others
    ends, quiet_ends = np.array([found.low, found.high, found.bound]), np.array(bootstrap_interval(array(others), 0.95))
    assert ends - found.centre == pytest.approx(wider * (quiet_ends - found.centre))
    assert 1 < wider < 2


QUIET = [0.001, -0.001]


@pytest.mark.parametrize(
    ("values", "outliers"),
    [
        ([*QUIET * 5, 0.5], 0),  # of eleven, one is part of how the code is
        ([*QUIET * 5, 0.001, 0.5], 1),
        ([*QUIET * 5, 0.5, 0.5], 0),
        ([*QUIET * 8, 0.001, 0.5, 0.5], 0),  # two of nineteen
        ([*QUIET * 9, 0.5, -0.5], 2),  # from twenty on, one in four
        ([*QUIET * 7, 0.001, *[0.5, -0.5] * 2, 0.5], 5),
        ([*QUIET * 7, *[0.5, -0.5] * 3], 0),
        ([*QUIET * 8, 0.001, *[0.5, -0.5] * 3], 0),  # six of twenty-three
        ([*QUIET * 9, *[0.5, -0.5] * 3], 6),
        ([0.0] * 11 + [math.log(1.05)], 0),  # 5 % itself is within what a change may be
        ([0.0] * 11 + [0.0489], 1),
        ([0.0] * 11 + [-0.0489], 1),
        ([0.02, -0.02] * 6 + [0.55], 0),  # fewer than ten robust spreads of 5.9 %
        ([0.02, -0.02] * 6 + [0.65], 1),
        ([0.01, -0.01] * 10 + [-0.01, 0.0, 10 * (1.4826 * 0.01)], 0),  # ten robust spreads and not more
        ([0.1] * 8, 0),
        ([0.1], 0),
        ([0.1, 5.0], 0),
    ],
)
def test_what_an_outlier_is(values: list[float], outliers: int) -> None:
    """An outlier is more than ten robust spreads and 5 % from the median; at most one in twelve of few, one in four of many."""
    assert estimate(values, 0.95).outliers == outliers
    kept = list(without_outliers(array(values)))
    assert kept == ([value for value in values if abs(value) < 0.04] if outliers else values)


def test_how_many_may_be_left_out() -> None:
    """Whoever asks says how many values may be outliers, and where there are more, none is left out."""
    values = array([*QUIET * 3, 0.5, 0.5])
    assert without_outliers(values, most=2).size == 6
    assert without_outliers(values, most=1).size == 8


@pytest.mark.parametrize(
    ("values", "other"),
    [
        ([*QUIET * 11, 0.5, 0.5, 0.5], None),  # three of twenty-five: one in eight
        ([*QUIET * 11, 0.5, 0.5, 0.5, 0.5], "all"),  # four of twenty-six were left out
        ([*QUIET * 11, *[-0.5] * 4], "all"),
        ([*QUIET * 13, *[0.5] * 4], "all"),  # four of thirty are just more than one in eight
        ([*QUIET * 4, 0.5, 0.5], "kept"),  # two of ten are too many to be left out
        ([*QUIET * 4, -0.5, -0.5], "kept"),
        ([*QUIET * 3, *[0.5] * 6], None),  # as many as the others: nobody knows which are the outliers
    ],
)
def test_both_readings_of_outliers_count_for_the_bound(values: list[float], other: str | None) -> None:
    """Where outliers are not rare, the bound is the higher one of two: with them, and without them."""
    found, data = estimate(values, 0.95), array(values)
    kept = data[np.abs(data) < 0.1]
    assert found.outliers == (len(values) - kept.size if other != "kept" and kept.size > 6 else 0)
    own = kept if found.outliers else data
    wider = math.sqrt(data.size / max(1.5, found.effective_pairs))
    of_its_own = found.centre + wider * (bootstrap_interval(own, 0.95)[2] - found.centre)
    of_the_other = {"all": bootstrap_interval(data, 0.95)[2], "kept": bootstrap_interval(kept, 0.95)[2]}.get(other or "", -1.0)
    assert found.bound == pytest.approx(max(of_its_own, of_the_other))
    assert found.high == pytest.approx(found.centre + wider * (bootstrap_interval(own, 0.95)[1] - found.centre))


def test_fast_outliers_that_are_too_many_do_not_lower_the_bound() -> None:
    """Three pairs in ten that are 6 % faster pull the upper end below the other pairs; the bound is that of those alone."""
    rng = np.random.default_rng(0)
    values = rng.permutation(np.append(rng.normal(0.02, 0.001, 28), rng.normal(-0.04, 0.001, 12)))
    found, others = estimate(values.tolist(), 0.95), values[values > 0]
    assert found.outliers == 0
    assert found.high < 0.02 < found.bound == bootstrap_interval(others, 0.95)[2]


# What the order says


@pytest.mark.parametrize(
    ("values", "correlation"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], 4 / 10 + 1 / 5),  # products of neighbours about the mean over the sum of squares, and 1/n
        ([0.01, -0.01] * 4, -7 / 8 + 1 / 8),
        ([1.0, 2.0, 3.0, 4.0], 0),  # too few
        ([0.1] * 20, 0),
        ([0.0, 1e-8] * 10, 0),  # smaller than the least spread that values are taken to have
        ([0.0, 1e-5] * 10, -0.9),
    ],
)
def test_correlation_by_hand(values: list[float], correlation: float) -> None:
    """It is that of neighbours, without its bias; few values, or differences below a millionth, say nothing by their order."""
    assert estimate(values, 0.95).correlation == pytest.approx(correlation)


@pytest.mark.no_cover
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_correlation_is_what_was_drawn(rho: float) -> None:
    """Over many runs of 40 pairs that remember a share of the pair before, that share comes out, within a tenth."""
    rng = np.random.default_rng(8)
    draws = rng.normal(0, 0.01, (400, 40))
    for pair in range(1, 40):
        draws[:, pair] = rho * draws[:, pair - 1] + math.sqrt(1 - rho**2) * draws[:, pair]
    assert np.mean([estimate(draw, 0.95).correlation for draw in draws.tolist()]) == pytest.approx(rho, abs=0.1)


def test_values_that_follow_each_other_count_less() -> None:
    """n (1 − ρ)/(1 + ρ), ρ raised by its error: alternating values all count, and long runs of one value as hardly two."""
    assert independent_values(array([0.0, 0.06] * 10)) == 20
    assert independent_values(array([0.0] * 10 + [0.06] * 10)) < 2
    draw = np.random.default_rng(3).normal(0, 0.02, 40)
    rho = estimate(draw.tolist(), 0.95).correlation + 1.8 / math.sqrt(40)
    assert independent_values(draw) == pytest.approx(40 * (1 - rho) / (1 + rho))


@pytest.mark.parametrize(("spread", "errors"), [(0.003, 0.0), (0.005, 0.0), (0.0075, 0.9), (0.01, 1.8), (0.1, 1.8)])
def test_quiet_values_are_believed_to_be_independent(spread: float, errors: float) -> None:
    """An autocorrelation may be 1.8 standard errors larger than it seems in noise of 1 %, and is what it seems below 0.5 %."""
    draw = np.random.default_rng(1).normal(0, 1, 30)
    draw *= spread / draw.std()
    rho = estimate(draw.tolist(), 0.95).correlation
    assert rho > 0
    raised = rho + errors / math.sqrt(30)
    assert independent_values(draw) == pytest.approx(30 * (1 - raised) / (1 + raised))


@pytest.mark.parametrize(
    ("values", "wider"), [([0.0, 0.06] * 10, 1.0), ([*[0.001] * 3, *[0.002] * 3] * 2, None), ([0.0] * 10 + [0.06] * 10, 20 / 1.5)]
)
def test_the_interval_is_as_wide_as_values_are_alike(values: list[float], wider: float | None) -> None:
    """The interval and its bound are those of as many values as are independent, and of one and a half at least."""
    found = estimate(values, 0.95)
    of_independent = np.array(bootstrap_interval(array(values), 0.95)) - found.centre
    expected = math.sqrt(wider or len(values) / found.effective_pairs)
    assert np.array([found.low, found.high, found.bound]) - found.centre == pytest.approx(expected * of_independent)
    if wider is None:
        assert 1.5 < found.effective_pairs < 5


@pytest.mark.no_cover
def test_the_interval_holds_in_noise_that_stays() -> None:
    """Of twenty pairs that remember half of the pair before, the 95 % interval holds the truth in nine of ten runs or more."""
    rng = np.random.default_rng(9)
    draws = rng.normal(0, 0.02, (400, 20))
    for pair in range(1, 20):
        draws[:, pair] = 0.5 * draws[:, pair - 1] + math.sqrt(0.75) * draws[:, pair]
    found = [estimate(draw, 0.95) for draw in draws.tolist()]
    assert np.mean([one.low <= 0 <= one.high for one in found]) >= 0.9
    naive = [bootstrap_interval(draw, 0.95) for draw in draws]
    assert np.mean([low <= 0 <= high for low, high, _ in naive]) < 0.85


def test_nearly_all_are_nine_in_ten() -> None:
    """Of nine values none may be left out, of ten to nineteen one at either end, of twenty two, outliers or not."""
    for count, left_out in ((9, 0), (10, 1), (19, 1), (20, 2)):
        values = [0.001 * number for number in range(count)]
        assert estimate(values, 0.95).decile_bounds == (values[left_out], values[-1 - left_out])
    found = estimate([0.5, 0.4, *[0.02] * 8, *[0.01] * 8, -0.3, -0.5], 0.95)
    assert (found.decile_bounds, found.outliers) == ((0.01, 0.02), 4)


# One side alone


@STEADY
@given(VALUES)
def test_one_side_has_students_interval(values: list[float]) -> None:
    """The interval of a side that decides nothing is Student's t over the values without outliers."""
    kept = without_outliers(array(values))
    centre, low, high = student_interval(values, 0.9)
    assert centre == pytest.approx(kept.mean(), abs=1e-12)
    if np.ptp(kept) > 1e-4:
        assert (low, high) == pytest.approx(stats.ttest_1samp(kept, 0).confidence_interval(0.9), abs=1e-9)
    assert student_interval(values[:1], 0.9) == (values[0],) * 3


# Sides that were not paired


@STEADY
@given(VALUES, VALUES)
def test_apart_is_welchs_t(head: list[float], reference: list[float]) -> None:
    """For two sides measured apart it is Welch's test as scipy has it: p-value, degrees of freedom and interval."""
    found = estimate_apart(head, reference, 0.95)
    test = stats.ttest_ind(head, reference, equal_var=False, alternative="greater" if found.centre > 0 else "less")
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-6, abs=1e-12)
    assert found.dof == pytest.approx(test.df)
    interval = stats.ttest_ind(head, reference, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert found.bound == pytest.approx(found.centre + quantile(1 - 0.0035, found.dof) * found.error)


def test_spread_of_sides_apart() -> None:
    """What one value of each side would differ by, however many values there are."""
    for count in (4, 40):
        found = estimate_apart([0.03, -0.03] * count, [0.04, -0.04] * count, 0.95)
        assert found.spread == pytest.approx(0.05, rel=0.08)
        assert found.error == pytest.approx(0.05 / math.sqrt(2 * count), rel=0.08)


@pytest.mark.parametrize(("head", "reference"), [([0.5], [0.1, 0.2]), ([0.1, 0.2], [0.5]), ([0.5], [0.1])])
def test_a_single_value_proves_nothing(head: list[float], reference: list[float]) -> None:
    """One value on a side has a difference, and nothing that could be said about it."""
    for found in (estimate_apart(head, reference, 0.95), estimate_apart(head, reference, 0.95, are_days=True)):
        assert found.centre == pytest.approx(np.mean(head) - np.mean(reference))
        assert found == Estimate(found.centre, math.inf, 0, -math.inf, math.inf, math.inf, 1.0)
        assert found.spread == 0.0


# One day against others


def test_between_days_by_hand() -> None:
    """A day whose own values agree is as far off as the spread between days allows, as a prediction interval says."""
    days = [0.0, 0.01, 0.02, 0.03]
    found = estimate_apart([0.10] * 6, days, 0.95, are_days=True)
    error = float(np.std(days, ddof=1)) * math.sqrt(1 + 1 / 4)
    assert found.centre == pytest.approx(0.10 - 0.015)
    assert found.error == pytest.approx(error, rel=1e-6)
    assert found.dof == pytest.approx(3, rel=1e-6)
    assert found.p_value == pytest.approx(stats.t.sf(0.085 / error, 3), rel=1e-5)
    assert found.high - found.centre == pytest.approx(stats.t.ppf(0.975, 3) * error, rel=1e-5)


def test_two_days_are_enough_for_an_interval() -> None:
    """Two values today and two earlier days have a spread; what it takes to decide by it is for others to say."""
    found = estimate_apart([0.1, 0.1], [0.0, 0.02], 0.95, are_days=True)
    assert found.centre == pytest.approx(0.09)
    assert found.error == pytest.approx(0.01 * math.sqrt(3), rel=1e-6)


def test_between_days_is_uncertain_of_today_too() -> None:
    """Where the days agree and today's own values do not, today's count decides what is known."""
    head = [0.05, -0.05, 0.04, -0.04]
    found = estimate_apart(head, [0.001, -0.001] * 10, 0.95, are_days=True)
    assert found.error == pytest.approx(float(stats.sem(head)), rel=0.01)
    assert found.dof == pytest.approx(3, rel=0.01)


def test_more_days_do_not_make_the_spread_between_days_larger() -> None:
    """What a day differs from the others by stays what it is, however many of them are known."""
    spreads = [estimate_apart([0.0] * 6, [0.01, -0.01] * (days // 2), 0.95, are_days=True).spread for days in (4, 10, 30)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] == pytest.approx(0.01, rel=0.05)


def test_days_give_false_evidence_as_often_as_the_p_value_says() -> None:
    """Of unchanged days whose centres differ by 1 %, about one in a hundred is past a level of one in a hundred."""
    rng = np.random.default_rng(3)
    days, today = rng.normal(0, 0.01, (3000, 6)), rng.normal(0, 0.01, (3000, 1))
    heads = today + rng.normal(0, 0.002, (3000, 8))
    found = [
        estimate_apart(head, earlier, 0.95, are_days=True) for head, earlier in zip(heads.tolist(), days.tolist(), strict=True)
    ]
    share = sum(each.p_value <= 0.01 for each in found) / len(found)
    assert 0.012 <= share <= 0.028


# Sessions


@STEADY
@given(VALUES)
def test_sessions_are_held_to_students_t(values: list[float]) -> None:
    """The p-value over sessions is that of SciPy's t test of one sample, in the direction that was asked for."""
    if np.ptp(values) > 1e-4:
        for slower, alternative in ((True, "greater"), (False, "less")):
            expected = stats.ttest_1samp(values, 0, alternative=alternative).pvalue
            assert student_p(values, slower=slower) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_one_session_says_nothing_of_others() -> None:
    """One value has no p-value; two that agree exactly are taken to differ by a millionth."""
    assert student_p([0.05], slower=True) is None
    assert student_p([0.05, 0.05], slower=True) == pytest.approx(stats.t.sf(0.05 / (1e-6 / math.sqrt(2)), 1))


def test_a_session_has_the_median_of_its_pairs() -> None:
    """Sessions come in the order of their numbers, whatever the order of the pairs."""
    assert session_medians([3.0, 1.0, 2.0, 9.0, 7.0, 5.0], [2, 2, 2, 0, 0, 7]) == [8.0, 2.0, 5.0]


def test_each_pair_has_a_session() -> None:
    """More pairs than sessions, or fewer, are refused."""
    for sessions in ([0], [0, 0, 1]):
        with pytest.raises(ValueError, match="zip"):
            session_medians([1.0, 2.0], sessions)


# Refused, and the quantile


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.nan, 2.0], [1.0, math.inf], [-math.inf, 0.0]])
def test_no_values(values: list[float]) -> None:
    """No values, NaN and infinity are refused, on one side and on either of two."""
    for call in (
        lambda: estimate(values, 0.95),
        lambda: student_interval(values, 0.95),
        lambda: estimate_apart(values, [1.0, 2.0], 0.95),
        lambda: estimate_apart([1.0, 2.0], values, 0.95),
        lambda: estimate_apart(values, [1.0, 2.0], 0.95, are_days=True),
        lambda: estimate_apart([1.0, 2.0], values, 0.95, are_days=True),
    ):
        with pytest.raises(ValueError, match="finite values"):
            call()


def test_what_is_said_of_values_that_are_refused() -> None:
    """The first five are shown."""
    with pytest.raises(ValueError, match=r"^an estimate needs finite values, not \[1.0, 2.0, 3.0, 4.0, inf\]$"):
        estimate([1.0, 2.0, 3.0, 4.0, math.inf, 6.0], 0.95)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.975, 0.99999])
@pytest.mark.parametrize("freedom", [1, 2.5, 7, 1000])
def test_quantile_of_students_t(share: float, freedom: float) -> None:
    """The quantile is scipy's."""
    assert quantile(share, freedom) == pytest.approx(float(stats.t.ppf(share, freedom)))
