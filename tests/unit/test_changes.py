"""Changes of level in a history of log ratios."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import change_points as study
import numpy as np
import pytest
from scipy import stats

from ratchet.history.changes import (
    FEWEST_RUNS,
    LEAST_SD,
    LEAST_STAY,
    PENALTY,
    change_points,
    lasting_noise,
    sd_of_runs,
    spread_of_runs,
)


def _noise(seed: int, runs: int, sd: float = 0.002) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sd, runs)


def _stepped(seed: int, runs: int, steps: dict[int, float], sd: float = 0.002) -> list[float]:
    level = sum(size * (np.arange(runs) >= place) for place, size in steps.items())
    return (_noise(seed, runs, sd) + level).tolist()


def test_steps_are_found_with_their_levels() -> None:
    """Each step has one point at its first run or beside it, with the levels before and after, and places that hold the step."""
    points = change_points(_stepped(1, 120, {40: 0.02, 90: -0.01}))
    assert [round(math.log(point.ratio), 2) for point in points] == [0.02, -0.01]
    for point, place in zip(points, (40, 90), strict=True):
        assert point.earliest <= place <= point.latest
        assert point.earliest <= point.index <= point.latest
        assert abs(point.index - place) <= 1
    assert points[0].after == points[1].before
    assert points[0].before == pytest.approx(0, abs=1e-3)


def test_the_place_of_a_step_lies_between_its_bounds() -> None:
    """In at most one of 100 histories with a step of two standard deviations the step lies outside the bounds of its point."""
    outside = found = 0
    for seed in range(200):
        for point in change_points(_stepped(seed, 80, {40: 0.004})):
            found += 1
            outside += not point.earliest <= 40 <= point.latest
    assert found > 150
    assert outside <= found / 100


def test_the_standard_deviation_of_a_run_comes_from_neighbours() -> None:
    """Differences beyond three robust standard deviations are left out, and the rest is scaled as a normal cut off there."""
    values = np.cumsum([0.0, 1.0, -1.2, 0.8, -1.0, 9.0, -0.9, 1.1])
    assert spread_of_runs(values) == pytest.approx(1.4826 * 1.0 / math.sqrt(2))
    near = np.array([1.0, 1.2, 0.8, 1.0, 0.9, 1.1])
    assert sd_of_runs(values) == pytest.approx(math.sqrt((near @ near) / 6 / 2 / stats.truncnorm.var(-3, 3)))
    assert sd_of_runs(np.full(12, 0.01)) == 0.0


def test_the_figures_are_those_that_were_studied(golden: Callable[[str, str], None]) -> None:
    """Noise that lasts, places, bounds and levels of these series are those with which research/change_points.py was run."""
    rng = np.random.default_rng(5)
    series = {f"noise of {runs} runs": _noise(runs, runs).tolist() for runs in (10, 11, 20, 21, 22, 33, 60)}
    series |= {f"waves of {runs} runs": study.persistent(0.6)(rng, runs).values.tolist() for runs in (25, 40, 80, 160)}
    series |= {f"offsets of {n}": study.sessions(study.normal(0.0003), 0.0015)(rng, 120).values.tolist() for n in range(2)}
    for place in (5, 6, 30, 54, 55, 57):
        series[f"a step at {place}"] = _stepped(place, 60, {place: 0.02})
    for runs in (3, 4, 5, 6, 8, 12):
        series[f"a level of {runs} runs"] = _stepped(runs, 80, {40: 0.012, 40 + runs: -0.012})
    series["three steps"] = _stepped(9, 200, {50: 0.01, 110: -0.004, 150: 0.02})
    series["a step far from zero"] = (np.array(_stepped(3, 60, {30: 0.006})) + 5).tolist()
    series["an outlier beside a step"] = [*_stepped(2, 60, {30: 0.01})[:28], 0.3, *_stepped(2, 60, {30: 0.01})[29:]]
    series["equal values and one step"] = [0.0] * 20 + [0.01] * 20
    lines = []
    for name, values in series.items():
        lasting = lasting_noise(np.array(values), max(LEAST_SD, sd_of_runs(np.array(values))))
        lines.append(f"{name}: sd {sd_of_runs(np.array(values)):.6g}, lasting {lasting:.6g}")
        for point in change_points(values):
            where = f"{point.index} [{point.earliest}, {point.latest}]"
            lines.append(f"  {where} {point.before:.6f} -> {point.after:.6f}")
    golden("changes.txt", "".join(f"{line}\n" for line in lines))


def test_unchanged_code_has_no_points() -> None:
    """Noise, one outlier, two in a row, and a series of equal values: no point."""
    for seed in range(50):
        values = _noise(seed, 200)
        values[50] += 0.2
        values[120:122] -= 0.1
        assert change_points(values.tolist()) == []
    assert change_points([0.01] * 50) == []
    assert change_points([0.0, LEAST_SD] * 25) == []


def test_a_step_of_five_spreads_is_found_after_five_runs() -> None:
    """A history that ends five runs after a step of 1 % in noise of 0.2 % shows it at its place in most cases."""
    places = [[point.index for point in change_points(_stepped(seed, 105, {100: 0.01}))] for seed in range(40)]
    assert sum(found == [100] for found in places) >= 35


def test_a_step_that_is_too_near_the_end_to_be_cut_there_is_told_at_its_place() -> None:
    """A level lasts five runs at least, but a large step four runs before the end is still placed where it is."""
    assert [point.index for point in change_points(_stepped(1, 100, {96: 0.05}))] == [96]


def test_levels_are_the_means_of_all_runs_between_changes() -> None:
    """Noise of ± 0.1 % in turn cancels in stretches of twenty runs, so each level is exactly what was planted."""
    noise = 0.001 * (-1.0) ** np.arange(60)
    (first, second) = change_points((noise + np.repeat([0.0, 0.02, 0.01], 20)).tolist())
    assert (first.index, second.index) == (20, 40)
    levels = [first.before, first.after, second.before, second.after]
    assert levels == pytest.approx([0.0, 0.02, 0.02, 0.01], abs=1e-12)


@pytest.mark.parametrize("size", [math.log(2), 0.06, -0.06])
@pytest.mark.parametrize("sd", [0.0005, 0.002, 0.01])
def test_a_large_step_of_the_last_runs_is_as_large_as_it_is(size: float, sd: float) -> None:
    """A step four to six runs before the end, wherever it is found, has its place, its size, and an interval around it."""
    points = {}
    for seed, age in itertools.product(range(30), (4, 5, 6)):
        if found := change_points(_stepped(seed, 60, {60 - age: size}, sd)):
            points[seed, age] = found[-1]
    assert len(points) > 60
    assert sum(point.index == 60 - age for (_, age), point in points.items()) >= 0.95 * len(points)
    assert all(abs(math.log(point.ratio) - size) < 3 * sd for point in points.values())
    inside = [point.interval[0] <= math.exp(size) <= point.interval[1] for point in points.values()]
    assert sum(inside) >= 0.9 * len(inside)


def test_an_interval_holds_the_size_of_a_step_in_95_of_100_histories() -> None:
    """Counted in 300 histories with a step of 2 % in the middle: in 93 to 100 %, since noise may be taken to last."""
    size, inside, found = 0.02, 0, 0
    for seed in range(300):
        for point in change_points(_stepped(seed, 80, {40: size})):
            found += 1
            inside += point.interval[0] <= math.exp(size) <= point.interval[1]
    assert found >= 300
    assert inside / found > 0.93


def test_an_outlier_moves_no_level() -> None:
    """One run that takes twice as long moves neither a level beside it nor the place of a step by more than its noise."""
    for place in (20, 39, 40, 59):
        values = _stepped(3, 80, {40: 0.02})
        values[place] += math.log(2)
        (point,) = change_points(values)
        assert abs(point.index - 40) <= (place in (39, 40))  # one beside the step may belong to either level
        assert point.after - point.before == pytest.approx(0.02, abs=0.002)


def test_what_may_go_as_it_came_is_no_change() -> None:
    """Four runs in a row that are off by five spreads are no level once the series goes on without them."""
    assert change_points(_stepped(4, 80, {40: 0.01, 44: -0.01})) == []


def test_noise_that_lasts_is_no_change() -> None:
    """Where each run keeps half of the noise of the one before, its waves are no levels; independent noise costs nothing."""
    rng = np.random.default_rng(8)
    waves = [study.persistent(0.5)(rng, 400).values for _ in range(10)]
    assert sum(len(change_points(one.tolist())) for one in waves) <= 1
    assert np.median([lasting_noise(one, sd_of_runs(one)) for one in waves]) > 3
    assert np.median([lasting_noise(_noise(seed, 400), 0.002) for seed in range(10)]) == 1


def test_a_machine_that_is_another_one_in_each_session_is_no_change() -> None:
    """Where neighbours mostly share a session, and so an offset, their small differences are not all the noise there is."""
    rng = np.random.default_rng(12)
    offsets = [study.sessions(study.normal(0.0003), 0.0015)(rng, 400).values for _ in range(10)]
    assert sum(len(change_points(one.tolist())) for one in offsets) <= 1


def test_a_short_series_is_taken_to_have_lasting_noise() -> None:
    """Twenty runs do not show whether noise lasts: a step of twelve spreads is a change there, one of two is not yet."""
    assert lasting_noise(_noise(1, 20), 0.002) == (1 + 0.5) / (1 - 0.5) ** 2
    assert [point.index for point in change_points(_stepped(1, 20, {12: 0.024}))] == [12]
    assert change_points(_stepped(1, 20, {12: 0.004})) == []


def test_a_level_of_a_few_runs_does_not_hide_itself() -> None:
    """Eight runs that are off by five spreads are two changes in nine of ten series, though noise that lasts looks like that."""
    found = [len(change_points(_stepped(seed, 80, {40: 0.01, 48: -0.01}))) for seed in range(50)]
    assert found.count(2) >= 45


def test_short_series_have_no_points() -> None:
    """Fewer runs than are needed for a spread give nothing, whatever they hold."""
    assert change_points([]) == []
    assert change_points([0.0] * 4 + [1.0] * (FEWEST_RUNS - 5)) == []


def test_a_run_with_a_larger_error_counts_less() -> None:
    """Eight runs that are 1 % off make a point, unless their standard errors say that they are five times less certain."""
    values = _stepped(3, 80, {40: 0.01, 48: -0.01})
    sure = [0.002] * 80
    unsure = [0.002] * 40 + [0.01] * 8 + [0.002] * 32
    assert len(change_points(values, sure)) == 2
    assert change_points(values, sure) == change_points(values)
    assert change_points(values, unsure) == []


def test_the_weight_of_a_run_is_one_over_its_variance() -> None:
    """The variance of a run is that of any run and what its squared error is above the median one's."""
    values = 0.001 * (-1.0) ** np.arange(60) + np.repeat([0.0, 0.02], 30)
    errors = np.full(60, 0.001)
    values[5], errors[5] = 0.004, 0.01
    (point,) = change_points(values.tolist(), errors.tolist())
    weights = 1 / (sd_of_runs(values) ** 2 + errors**2 - 0.001**2)
    assert point.before == pytest.approx(np.average(values[:30], weights=weights[:30]), abs=1e-9)
    assert point.after == pytest.approx(np.average(values[30:], weights=weights[30:]), abs=1e-9)
    assert point.ratio == pytest.approx(math.exp(point.after - point.before))


@pytest.mark.parametrize(
    ("values", "errors"),
    [
        ([0.0] * 9 + [math.nan], None),
        ([0.0] * 9 + [math.inf], None),
        ([0.0] * 10, [0.1] * 9),
        ([0.0] * 10, [-0.1] * 10),
        ([0.0] * 10, [math.nan] * 10),
    ],
)
def test_impossible_series_are_refused(values: list[float], errors: list[float] | None) -> None:
    """Values that are not finite, negative errors and other lengths are a mistake of the caller."""
    with pytest.raises(ValueError, match=r"^change points need finite values, and as many standard errors as values$"):
        change_points(values, errors)


def test_the_cuts_are_those_of_ruptures() -> None:
    """PELT of the package ruptures cuts a series, clipped as here, at the same places."""
    ruptures = pytest.importorskip("ruptures")
    rng = np.random.default_rng(5)
    for _ in range(30):
        runs = int(rng.integers(60, 150))
        places = np.cumsum(rng.integers(3 * LEAST_STAY, runs // 3, 3))
        values = rng.uniform(-0.004, 0.004, runs) + sum(
            rng.choice([-0.02, 0.02]) * (np.arange(runs) >= place) for place in places
        )
        sd = max(LEAST_SD, sd_of_runs(values))
        running = np.array([np.median(values[max(0, min(i - 5, runs - 11)) :][:11]) for i in range(runs)])
        clipped = np.clip(values, running - 3 * sd, running + 3 * sd)
        found = ruptures.KernelCPD(kernel="linear", min_size=LEAST_STAY).fit(clipped)
        cuts = found.predict(pen=PENALTY * lasting_noise(values, sd) * sd**2)
        assert [point.index for point in change_points(values.tolist())] == [int(cut) for cut in cuts[:-1]]
