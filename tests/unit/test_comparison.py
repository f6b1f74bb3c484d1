"""Two sides → a comparison; one side → its figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from ratchet.core.judge.comparison import (
    Pair,
    cliffs_delta,
    compare_pairs,
    compare_stored,
    compare_workers,
    medians_ms,
    pairs_of,
    performance,
    resolution_of,
    totals_of,
)
from ratchet.core.judge.estimate import bootstrap_interval, estimate, independent_values
from ratchet.core.records.run import WorkerSamples
from ratchet.core.records.verdict import Comparison
from tests import examples

RATIOS = (1.031, 1.029, 1.035, 1.03, 1.026, 1.032, 1.028, 1.03)


def head_of(ratios: Sequence[float], scale: float = 1.0) -> list[WorkerSamples]:
    return [examples.blocks(pair, ratio * scale, ratio * scale) for pair, ratio in enumerate(ratios)]


def reference_of(count: int, scale: float = 1.0) -> list[WorkerSamples]:
    return [examples.blocks(pair, scale, scale) for pair in range(count)]


def of(found: Comparison | None) -> Comparison:
    assert found is not None
    return found


def test_a_slower_head() -> None:
    """Eight pairs around +3 % give the mean of their logs in its bootstrap interval, with every figure beside it."""
    found = of(compare_workers(head_of(RATIOS), reference_of(8), 0.95))
    logs = np.log(RATIOS)
    assert found.ratio == pytest.approx(math.exp(logs.mean()))
    assert (found.low, found.high, found.bound) == pytest.approx(np.exp(bootstrap_interval(logs, 0.95)))
    assert found.p_value == 2**-8
    assert found.spread == pytest.approx(float(logs.std(ddof=1)))
    assert found.correlation == pytest.approx(estimate(logs.tolist(), 0.95).correlation)
    assert (found.pairs, found.outliers, found.cliffs_delta, found.source, found.confidence) == (8, 0, 1.0, "paired", 0.95)
    assert (found.resolution, found.detectable) == (0, None)


def test_what_noisy_pairs_are_held_to() -> None:
    """A comparison says how many independent pairs its pairs are like, and what nine in ten of them exceed and stay below."""
    logs = np.random.default_rng(2).normal(0.05, 0.02, 24)
    found = of(compare_pairs([Pair(log, 1.0, 1.0) for log in logs.tolist()], 0.95))
    assert found.effective_pairs == independent_values(logs)
    assert found.effective_pairs < 20
    assert found.decile_bounds == pytest.approx((math.exp(np.sort(logs)[2]), math.exp(np.sort(logs)[-3])))


@pytest.mark.parametrize(
    ("pairs", "sessions"),
    [(3, (1.01,)), (8, (1.01,)), (9, (1.01, 1.04)), (12, (1.01, 1.04, 1.04)), (20, (1.01, 1.04, 1.04, 1.04, 1.04))],
)
def test_sessions(pairs: int, sessions: tuple[float, ...]) -> None:
    """Each session has a ratio of its own, and Student's t over the logs of these says whether hosts agree."""
    found = of(compare_workers(head_of([*[1.01] * 8, *[1.04] * 12][:pairs]), reference_of(pairs), 0.95))
    assert found.sessions == pytest.approx(sessions)
    if len(sessions) == 1:
        assert found.sessions_p_value is None
    else:
        assert found.sessions_p_value == pytest.approx(stats.ttest_1samp(np.log(sessions), 0, alternative="greater").pvalue)


def test_sessions_of_no_change_are_asked_whether_they_are_slower() -> None:
    """Where pairs are equal on average, sessions are asked for a slower head."""
    logs = ((0.01, 0), (0.01, 0), (-0.02, 0), (0.0, 1), (0.0, 1), (0.0, 1))
    found = of(compare_pairs([Pair(log, 1.0, 1.0, session) for log, session in logs], 0.95))
    assert (found.ratio, found.sessions) == (1.0, (math.exp(0.01), 1.0))
    assert found.sessions_p_value == pytest.approx(0.25)


def test_three_processes_have_a_mean() -> None:
    """Three pairs are enough for the typical time and for the mean."""
    head, reference = ([examples.blocks(pair, ms) for pair in range(3)] for ms in (1.2, 1.0))
    found = of(compare_workers(head, reference, 0.95))
    assert found.total.processes == 3
    assert of(compare_workers([*head, examples.blocks(3, 1.2)], reference, 0.95)) == found


def test_a_session_keeps_its_majority() -> None:
    """Three stalled pairs of the first eight, or one of three later ones, do not change what their session says."""
    first, later = [1.01, 1.011, 1.009, 1.01, 1.01], [1.04, 1.041, 0.5]
    found = of(compare_workers(head_of([2.0, *first, 2.0, 2.0, *later]), reference_of(11), 0.95))
    assert found.sessions == pytest.approx((1.01, 1.04), rel=1e-3)
    half = of(compare_workers(head_of([1.01] * 4 + [2.0] * 4), reference_of(8), 0.95))
    assert half.sessions == (pytest.approx(math.sqrt(2.02)),)


@pytest.mark.parametrize("missing", [0, 3, 5, 7, 8])
def test_a_pair_belongs_to_the_session_that_it_was_measured_in(missing: int) -> None:
    """Whatever pairs are lost to heat or otherwise, others are not counted as those of earlier hosts, which show no change."""
    ratios = [*[1.0] * 8, *[1.06] * 12]
    head = [examples.blocks(pair, ratio, ratio, throttled=[0, 1] if pair < missing else []) for pair, ratio in enumerate(ratios)]
    found = of(compare_workers(head, reference_of(20), 0.95))
    assert found.pairs == 20 - missing
    assert found.sessions == pytest.approx(((1.0,) if missing < 8 else ()) + (1.06,) * 4)
    assert compare_workers(head[missing:], reference_of(20), 0.95) == found


@pytest.mark.parametrize(
    ("pairs", "stalled", "rogues", "is_doubtful"),
    [(11, 1, 0, True), (16, 1, 1, False), (16, 2, 0, True), (24, 3, 3, False), (24, 4, 4, True), (24, 7, 0, True)],
)
def test_outliers_that_are_not_rare(pairs: int, stalled: int, rogues: int, is_doubtful: bool) -> None:
    """Of few pairs one in twelve may be left out, from 20 on one in four; where they are not rare the bound counts them, too."""
    quiet = [1.001, 0.999, 1.0, 1.002, 0.998] * 5
    found = of(compare_workers(head_of([*quiet[: pairs - stalled], *[1.5] * stalled]), reference_of(pairs), 0.95))
    assert found.outliers == rogues
    assert (found.upper_bound > 1.1) == is_doubtful
    assert (found.high > 1.1) == (rogues == 0)


def test_workers_are_compared_by_their_pairs() -> None:
    """Comparing workers is comparing their pairs, of which a throttled one is none, and all that was timed in them."""
    head, reference = [*head_of(RATIOS), examples.blocks(8, 9.0, throttled=[0])], reference_of(9)
    assert compare_workers(head, reference, 0.9) == compare_pairs(
        pairs_of(head, reference), 0.9, totals_of(head, reference), resolution_of(head) + resolution_of(reference)
    )
    assert of(compare_workers(head, reference, 0.9)).pairs == 8


@pytest.mark.parametrize("pairs", [0, 1, 2])
def test_too_few_pairs(pairs: int) -> None:
    """Fewer than three pairs, or three of which one was slowed, give no comparison; nor do two medians on a side."""
    assert compare_workers(head_of(RATIOS[:pairs]), reference_of(8), 0.95) is None
    slowed = [*head_of(RATIOS[:2]), examples.blocks(2, 1.0, 1.0, throttled=[0, 1])]
    assert compare_workers(slowed, reference_of(3), 0.95) is None
    assert compare_stored([1.0] * pairs, [1.0] * 8, 0.95) is None
    assert compare_stored([1.0] * 8, [1.0] * pairs, 0.95) is None
    assert compare_stored([1.0] * pairs, [1.0] * pairs, 0.95, [1.0] * 8) is None


def test_equal_times() -> None:
    """Sides that agree exactly have a ratio of 1, hardly anything around it, and no sign of a change."""
    found = of(compare_workers(reference_of(3), reference_of(3), 0.95))
    assert (found.ratio, found.cliffs_delta, found.p_value) == (1.0, 0.0, 1.0)
    assert (found.low, found.high, found.bound) == pytest.approx((1.0, 1.0, 1.0), abs=2e-5)
    assert found.low < 1 < found.high < (found.bound or 0)


@pytest.mark.parametrize("log", [41.4, -41.4])
def test_no_bound_is_infinite(log: float) -> None:
    """Pairs that differ by as much as a record can hold, both ways, still have finite, positive bounds."""
    found = of(compare_pairs([Pair(log, 1.0, 1.0), Pair(-log, 1.0, 1.0), Pair(0.0, 1.0, 1.0)], 0.999))
    assert found.low == pytest.approx(math.exp(-60))
    assert found.high == found.bound == pytest.approx(math.exp(60))


# Another time


def test_against_another_day() -> None:
    """Medians of two days give Welch's comparison, which says that it is one of stored times."""
    head, stored = [1.1, 1.101, 1.099, 1.1], [1.0, 1.001, 0.999]
    found = of(compare_stored(head, stored, 0.95))
    assert (found.source, found.pairs, found.cliffs_delta, found.outliers) == ("stored", 3, 1.0, 0)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(1.1, abs=1e-3)
    test = stats.ttest_ind(np.log(head), np.log(stored), equal_var=False, alternative="greater")
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-6)


def test_what_another_day_leaves_open() -> None:
    """Times of two days leave the uncertainty of two centres, and have neither pairs nor sessions."""
    rng = np.random.default_rng(0)
    a, b = (list(np.exp(rng.normal(0, 0.01, 40))) for _ in range(2))
    found = of(compare_stored(a, b, 0.95))
    assert math.log(found.high / found.ratio) == pytest.approx(1.99 * 0.01 * (2 / 40) ** 0.5, rel=0.35)
    assert found.high < (found.bound or 0)
    assert (found.sessions, found.correlation, found.total, found.detectable) == ((), 0.0, None, None)
    assert (found.effective_pairs, found.decile_bounds) == (None, None)


def test_known_days_stand_in_for_the_stored_medians() -> None:
    """From three days on, their spread is in the interval, and the medians stored on one of them no longer count."""
    head, days = [1.01, 1.011, 1.009, 1.01], [1.0, 1.02, 0.98, 1.01, 0.99]
    found = of(compare_stored(head, [5.0] * 6, 0.95, days))
    logs = np.log(days)
    assert (found.source, found.pairs) == ("days", 4)
    assert found.ratio == pytest.approx(math.exp(np.log(head).mean() - logs.mean()))
    assert found.cliffs_delta == cliffs_delta(head, days)
    half = stats.t.ppf(0.975, 4) * logs.std(ddof=1) * math.sqrt(1 + 1 / 5)
    assert found.high == pytest.approx(found.ratio * math.exp(half), rel=2e-3)
    assert found.low < 1 < found.high


@pytest.mark.parametrize("days", [(), (1.0,), (1.0, 1.02)])
def test_two_days_are_too_few(days: tuple[float, ...]) -> None:
    """With fewer than three days it is the stored medians that are compared with."""
    found = of(compare_stored([1.5] * 4, [1.0] * 4, 0.95, days))
    assert (found.source, found.ratio) == ("stored", pytest.approx(1.5))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none(bad: float) -> None:
    """A time of zero, less than zero, NaN or infinity is refused on either side and among the days."""
    good = [1.0, 1.1, 0.9]
    for call in (
        lambda: compare_stored([*good, bad], good, 0.95),
        lambda: compare_stored(good, [*good, bad], 0.95),
        lambda: compare_stored(good, good, 0.95, [*good, bad]),
    ):
        with pytest.raises(ValueError, match=r"finite values|math domain error|expected a positive input"):
            call()


# One side


def test_figures() -> None:
    """GFLOP/s and GB/s are the declared work over the median; times are over the kept samples."""
    workers = [examples.blocks(0, 2.0, 2.0), examples.blocks(1, 2.0, 90.0, throttled=[1], peak_memory_bytes=4096)]
    workload = examples.WORKLOAD.model_copy(update={"flops": 8e9, "bytes": 3e6})
    found = performance(workers, workload, 0.95)
    samples = [sample for block in (*workers[0].blocks, workers[1].blocks[0]) for sample in block.samples_ms]
    assert (found.samples, found.workers, found.peak_memory_bytes) == (9, 2, 4096)
    assert found.median_time_ms == 2.0
    assert found.throughput_gflops == pytest.approx(4000)
    assert found.bandwidth_gb_s == pytest.approx(1.5)
    assert found.mean_time_ms == pytest.approx(statistics.fmean(samples))
    assert found.std_time_ms == pytest.approx(float(np.std(samples)))
    assert found.min_time_ms == min(samples)
    assert (found.ci_95_low, found.ci_95_high) == pytest.approx((2.0, 2.0), rel=1e-4)


def test_work_that_is_not_declared_has_no_rate() -> None:
    """Without declared operations or bytes the rates are 0."""
    found = performance([examples.blocks(0, 2.0)], examples.WORKLOAD.model_copy(update={"flops": None, "bytes": None}), 0.95)
    assert (found.throughput_gflops, found.bandwidth_gb_s) == (0, 0)


@pytest.mark.parametrize("medians", [(1.0, 1.0, 1.0, 5.0, 9.0), (9.0, 9.0, 9.0, 1.0), (1e-8, 1e8)])
def test_interval_of_the_figures_holds_the_median(medians: tuple[float, ...]) -> None:
    """The median lies inside its interval also where the mean leans away from it."""
    found = performance([examples.blocks(pair, each) for pair, each in enumerate(medians)], examples.WORKLOAD, 0.95)
    assert 0 < found.ci_95_low <= found.median_time_ms <= found.ci_95_high < math.inf


def test_no_figures() -> None:
    """Without a kept block there are no figures."""
    slowed = [examples.blocks(0, 1.0, throttled=[0])]
    assert medians_ms(slowed) == []
    assert performance(slowed, examples.WORKLOAD, 0.95) is None
    assert performance([], examples.WORKLOAD, 0.95) is None
