"""Two sides → a comparison; one side → its figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import examples
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.records import Comparison, WorkerSamples
from ratchet.stats.comparison import compare_pairs, compare_stored, medians_ms, performance

RATIOS = (1.031, 1.029, 1.035, 1.03, 1.026, 1.032, 1.028, 1.03)


def head_of(ratios: Sequence[float], scale: float = 1.0) -> list[WorkerSamples]:
    return [examples.blocks(pair, ratio * scale, ratio * scale) for pair, ratio in enumerate(ratios)]


def reference_of(count: int, scale: float = 1.0) -> list[WorkerSamples]:
    return [examples.blocks(pair, scale, scale) for pair in range(count)]


def bounds(found: Comparison | None) -> tuple[float, float, float]:
    assert found is not None
    return found.low, found.ratio, found.high


def test_a_slower_head() -> None:
    """Eight pairs around +3 % give a ratio of 1.03 in a narrow interval, and the strongest effect."""
    found = compare_pairs(head_of(RATIOS), reference_of(8), 0.95)
    assert found is not None
    assert found.ratio == pytest.approx(1.03, abs=1e-3)
    assert 1.026 <= found.low < found.ratio < found.high <= 1.035
    assert (found.pairs, found.cliffs_delta, found.source, found.confidence) == (8, 1.0, "paired", 0.95)
    assert 0 < found.detectable < 0.02


@settings(deadline=None, max_examples=15)
@given(st.lists(st.floats(0.5, 2), min_size=3, max_size=10), st.sampled_from([0.25, 4.0, 1024.0]))
def test_scale_cancels(ratios: list[float], scale: float) -> None:
    """Both sides slower by the same factor are the same comparison."""
    found = compare_pairs(head_of(ratios), reference_of(len(ratios)), 0.95)
    scaled = compare_pairs(head_of(ratios, scale), reference_of(len(ratios), scale), 0.95)
    assert bounds(scaled) == pytest.approx(bounds(found))


@settings(deadline=None, max_examples=15)
@given(st.permutations(list(range(8))), st.permutations(list(range(8))))
def test_order_of_workers(first: list[int], second: list[int]) -> None:
    """The workers of either side may be listed in any order."""
    head, reference = head_of(RATIOS), reference_of(8)
    found = compare_pairs([head[i] for i in first], [reference[i] for i in second], 0.95)
    assert bounds(found) == pytest.approx(bounds(compare_pairs(head, reference, 0.95)))


def test_repeating_gives_the_same() -> None:
    """The same samples give the same comparison, to the last digit."""
    assert compare_pairs(head_of(RATIOS), reference_of(8), 0.95) == compare_pairs(head_of(RATIOS), reference_of(8), 0.95)


def test_swapping_inverts() -> None:
    """With the sides swapped the ratio is exactly the inverse, and the bounds are up to the chance of resampling."""
    there = compare_pairs(head_of(RATIOS), reference_of(8), 0.95)
    back = compare_pairs(reference_of(8), head_of(RATIOS), 0.95)
    assert there
    assert back
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (1 / back.high, 1 / back.low) == pytest.approx((there.low, there.high), abs=0.2 * (there.high - there.low))
    assert back.cliffs_delta == -there.cliffs_delta
    assert back.detectable == pytest.approx(there.detectable)


def test_one_stalled_pair() -> None:
    """One pair in eight off by 40 % leaves a head that did not change inside a gate of 3 %."""
    ratios = [1.001, 0.998, 1.4, 1.002, 0.999, 1.0, 1.003, 0.997]
    low, ratio, high = bounds(compare_pairs(head_of(ratios), reference_of(8), 0.95))
    assert 0.99 < low <= ratio <= high < 1.01


@pytest.mark.parametrize("pairs", [0, 1, 2])
def test_too_few_pairs(pairs: int) -> None:
    """Fewer than three pairs, or three of which one was slowed, give no comparison."""
    assert compare_pairs(head_of(RATIOS[:pairs]), reference_of(8), 0.95) is None
    slowed = [*head_of(RATIOS[:2]), examples.blocks(2, 1.0, 1.0, throttled=[0, 1])]
    assert compare_pairs(slowed, reference_of(3), 0.95) is None
    assert compare_stored([1.0] * pairs, [1.0] * 8, 0.95) is None
    assert compare_stored([1.0] * 8, [1.0] * pairs, 0.95) is None


def test_equal_times() -> None:
    """Sides that agree exactly have a ratio of 1 and nothing around it."""
    found = compare_pairs(reference_of(3), reference_of(3), 0.95)
    assert bounds(found) == (1.0, 1.0, 1.0)
    assert found
    assert found.cliffs_delta == 0
    assert found.detectable == 1e-6


def test_against_another_day() -> None:
    """Medians of two days give a comparison that says it is one of stored times."""
    found = compare_stored([1.1, 1.101, 1.099, 1.1], [1.0, 1.001, 0.999], 0.95)
    assert found is not None
    assert (found.source, found.pairs, found.cliffs_delta) == ("stored", 3, 1.0)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(1.1, abs=1e-3)


def test_what_another_day_can_show() -> None:
    """Times of two days detect the difference of two centres, of which both are uncertain."""
    rng = np.random.default_rng(0)
    a, b = (list(np.exp(rng.normal(0, 0.01, 40))) for _ in range(2))
    found = compare_stored(a, b, 0.95)
    assert found is not None
    assert found.detectable == pytest.approx(2.8 * 0.01 * (2 / 40) ** 0.5, rel=0.35)


def test_figures() -> None:
    """GFLOP/s and GB/s are the declared work over the median; times are over the kept samples."""
    workers = [examples.blocks(0, 2.0, 2.0), examples.blocks(1, 2.0, 90.0, throttled=[1], peak_memory_bytes=4096)]
    workload = examples.WORKLOAD.model_copy(update={"flops": 8e9, "bytes": 3e6})
    found = performance(workers, workload, 0.95)
    assert found is not None
    samples = [1.98, 2.0, 2.04] * 3
    assert (found.samples, found.workers, found.peak_memory_bytes) == (9, 2, 4096)
    assert found.median_time_ms == 2.0
    assert found.throughput_gflops == pytest.approx(4000)
    assert found.bandwidth_gb_s == pytest.approx(1.5)
    assert found.mean_time_ms == pytest.approx(statistics.fmean(samples))
    assert found.std_time_ms == pytest.approx(float(np.std(samples)))
    assert found.min_time_ms == 1.98
    assert (found.ci_95_low, found.ci_95_high) == pytest.approx((2.0, 2.0))


def test_interval_of_the_figures_holds_the_median() -> None:
    """The median lies inside its interval also where the trimmed mean leans away from it."""
    workers = [examples.blocks(pair, median) for pair, median in enumerate((1.0, 1.0, 1.0, 5.0, 9.0))]
    found = performance(workers, examples.WORKLOAD, 0.95)
    assert found is not None
    assert found.ci_95_low <= found.median_time_ms <= found.ci_95_high


def test_no_figures() -> None:
    """Without a kept block there are no figures."""
    slowed = [examples.blocks(0, 1.0, throttled=[0])]
    assert medians_ms(slowed) == []
    assert performance(slowed, examples.WORKLOAD, 0.95) is None
    assert performance([], examples.WORKLOAD, 0.95) is None
