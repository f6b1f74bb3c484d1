"""The decision rules of other tools, and the tables of how far apart their processes are: research/peers.py and harnesses.py."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harnesses
import numpy as np
import peers
import pytest
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rule = Callable[[Floats, Floats], bool]

PAIRWISE: tuple[Rule, ...] = (
    peers.benchstat,
    peers.mann_whitney,
    peers.asv,
    peers.torchbench,
    peers.github_action_benchmark,
    peers.bootstrap,
    peers.nvbench_legacy,
    peers.nvbench_robust,
)


def samples(centre: float, noise: float = 0.01, count: int = 60, seed: int = 0) -> Floats:
    return centre * (1 + noise * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize("rule", PAIRWISE)
def test_only_a_slower_head_is_red(rule: Rule) -> None:
    """Every rule is red for a head three times slower, and not for the same samples or a head three times faster."""
    fast, slow = samples(1.0), samples(3.0, seed=1)
    assert (rule(fast, slow), rule(slow, fast), rule(fast, fast)) == (True, False, False)


@pytest.mark.parametrize("rule", PAIRWISE)
def test_a_rule_has_no_unit(rule: Rule) -> None:
    """No rule changes its mind if all times are in another unit."""
    reference, head = samples(1.0), samples(1.04, seed=1)
    assert rule(reference, head) == rule(reference * 1000, head * 1000)


def test_best_of_earlier_looks_at_the_luckiest_run() -> None:
    """One lucky run among ten makes unchanged code red, and exactly 3 % slower is not."""
    usual, lucky = np.full(5, 100.0), np.full(5, 97.0)
    assert not peers.best_of_earlier([usual] * 10, usual)
    assert peers.best_of_earlier([usual] * 9 + [lucky], usual)
    assert not peers.best_of_earlier([usual] * 10, np.full(5, 103.0))


def test_benchstat_calls_a_tiny_shift_a_difference() -> None:
    """With many samples of two processes 0.5 % is significant, and a threshold of 3 % silences it."""
    reference, head = samples(1.0, count=300), samples(1.005, count=300, seed=1)
    assert peers.benchstat(reference, head)
    assert not peers.benchstat(reference, head, over=0.03)


@pytest.mark.parametrize(
    ("reference", "head", "p"),
    [
        ([1.0, 2, 3, 4], [5.0, 6, 7, 8], 2 / math.comb(8, 4)),
        ([1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10], 2 / math.comb(10, 5)),
        ([1.0, 1, 1], [1.0, 1, 1], 1.0),
    ],
)
def test_u_test_by_hand(reference: list[float], head: list[float], p: float) -> None:
    """Small samples without ties get the exact p-value; equal samples get 1."""
    assert peers.u_test(np.array(reference), np.array(head)) == pytest.approx(p)


def test_benchstat_needs_four_samples() -> None:
    """Three samples a side can never be significant at 5 %, four can."""
    assert not peers.benchstat(np.array([1.0, 2, 3]), np.array([7.0, 8, 9]))
    assert peers.benchstat(np.array([1.0, 2, 3, 4]), np.array([6.0, 7, 8, 9]))


def test_asv_asks_for_its_factor_and_for_evidence() -> None:
    """asv is red past its factor only, and not for a large ratio of noisy samples; with one sample, the factor decides."""
    reference = samples(1.0)
    assert not peers.asv(reference, reference * 1.09)
    assert peers.asv(reference, reference * 1.11)
    assert peers.asv(reference, reference * 1.09, factor=1.03)
    noisy = np.concatenate((np.full(30, 0.5), np.full(31, 1.5)))
    assert not peers.asv(noisy[::-1][1:], noisy)
    assert peers.asv(np.array([1.0]), np.array([1.2]))
    assert not peers.asv(np.array([1.0, 1.0]), np.array([1.2, 1.2]))


@pytest.mark.parametrize(("count", "low", "high"), [(7, -math.inf, math.inf), (8, 0, 7), (60, 19, 40), (300, 127, 172)])
def test_the_interval_of_a_median_lies_between_samples(count: int, low: float, high: float) -> None:
    """asv's 99 % interval ends at the samples that the binomial distribution names, and is unbounded below eight."""
    assert peers.median_interval(np.arange(count, dtype=float)) == (low, high)


def test_asv_breaks_ties_in_favour_of_no_difference() -> None:
    """Ties that could be argued either way leave p at 1; none leave scipy's p without its continuity correction."""
    assert peers.asv_u_test(np.ones(30), np.ones(30)) == 1.0
    low, high = np.arange(30.0), np.arange(30.0) + 8.5
    expected = peers.stats.mannwhitneyu(low, high, use_continuity=False, method="asymptotic").pvalue
    assert peers.asv_u_test(low, high) == pytest.approx(expected)


def test_asv_with_recorded_samples_asks_the_u_test() -> None:
    """With its samples recorded, asv calls a shift different whose median intervals overlap."""
    reference, head = samples(1.0, noise=0.2, count=60), samples(1.16, noise=0.2, count=60, seed=1)
    (_, high), (low, _) = peers.median_interval(reference), peers.median_interval(head)
    assert high > low
    assert not peers.asv(reference, head, factor=1.03)
    assert peers.asv(reference, head, factor=1.03, recorded=True)


def test_thresholds_are_the_documented_ones() -> None:
    """TorchBench is red past 7 % of the median, github-action-benchmark past twice the mean."""
    flat = np.full(10, 100.0)
    assert (peers.torchbench(flat, flat * 1.06), peers.torchbench(flat, flat * 1.08)) == (False, True)
    assert (peers.github_action_benchmark(flat, flat * 1.99), peers.github_action_benchmark(flat, flat * 2.01)) == (False, True)
    one_stall = np.array([100.0] * 9 + [2000.0])
    assert peers.github_action_benchmark(flat, one_stall)
    assert not peers.torchbench(flat, one_stall)


def test_the_bootstrap_wants_size_and_certainty() -> None:
    """A sure 2 % and an unsure 4 % are not red, a sure 4 % is; all of the interval past the gate asks for more."""
    reference = samples(1.0, count=300)
    assert not peers.bootstrap(reference, samples(1.02, count=300, seed=1))
    assert peers.bootstrap(reference, samples(1.04, count=300, seed=1))
    assert not peers.bootstrap(samples(1.0, noise=0.5, count=30), samples(1.0, noise=0.5, count=30) * 1.04)
    assert not peers.bootstrap(reference, reference * 1.031, whole=True)
    assert peers.bootstrap(reference, reference * 1.05, whole=True)


def test_nvbench_legacy_trusts_the_quieter_side() -> None:
    """The smaller noise is the bar; below five samples, or without any noise, there is no verdict."""
    quiet, noisy = np.array([99.0, 99.5, 100.0, 100.5, 101.0]), np.array([91.5, 96.5, 101.5, 106.5, 111.5])
    assert peers.nvbench_legacy(quiet, noisy)
    assert not peers.nvbench_legacy(noisy, noisy * 1.015)
    assert not peers.nvbench_legacy(quiet[:4], noisy[:4] * 2)
    assert not peers.nvbench_legacy(np.full(5, 100.0), noisy * 2)


def test_nvbench_robust_wants_a_gap() -> None:
    """The head's fastest sample has to lie half a percent past the reference's third quartile."""
    reference = np.arange(100.0, 105.0)  # third quartile 103
    assert not peers.nvbench_robust(reference, np.array([103.5, 200.0, 200.0]))
    assert peers.nvbench_robust(reference, np.array([103.6, 200.0, 200.0]))


def test_batches_are_means_of_consecutive_samples() -> None:
    """Six samples make three batches of two."""
    assert list(peers.batches(np.array([1.0, 3, 5, 7, 9, 11]), 3)) == [2.0, 6.0, 10.0]


# Harnesses: what can be known of it without a GPU


def nvbench_root(**milliseconds: float) -> dict[str, Any]:
    def summary(tag: str, seconds: float) -> dict[str, Any]:
        return {"tag": tag, "data": [{"name": "value", "type": "float64", "value": repr(seconds)}]}

    def state(time: float) -> dict[str, Any]:
        gpu = "nv/cold/time/gpu"
        return {"name": "Device=0", "summaries": [summary(f"{gpu}/mean", time * 1.1e-3), summary(f"{gpu}/median", time * 1e-3)]}

    return {
        "devices": [{"id": 0}],
        "benchmarks": [{"name": name, "states": [state(time)]} for name, time in milliseconds.items()],
    }


def test_nvbench_times_are_milliseconds() -> None:
    """nvbench's strings of seconds become milliseconds, and a skipped state says why there is no time."""
    root = nvbench_root(copy_256=0.13)
    assert harnesses.nvbench_times(root, "median") == {"copy_256": pytest.approx(0.13)}
    assert harnesses.nvbench_times(root, "mean") == {"copy_256": pytest.approx(0.143)}
    root["benchmarks"][0]["states"][0] = {"summaries": None, "skip_reason": "out of memory"}
    with pytest.raises(harnesses.Failed, match="out of memory"):
        harnesses.nvbench_times(root, "median")


def test_the_longer_copy_goes_by_the_name_of_the_copy() -> None:
    """A head that copies more is the reference's output with only the longer copy, renamed."""
    slower = harnesses.as_slower_copy(nvbench_root(gemm_4k=0.18, copy_256=0.13, copy_256_longer=0.135))
    assert harnesses.nvbench_times(slower, "median") == {"copy_256": pytest.approx(0.135)}
    assert slower["devices"] == [{"id": 0}]


def test_verdicts_are_read_from_the_tables() -> None:
    """The status of each benchmark is the one in its row, not one in a heading or the summary."""
    printed = """['a.json', 'b.json']
# gemm_4k

## [0] NVIDIA H200

|  Ref Time  |  Status  |
|-----------:|:--------:|
| 180.000 us | 🔴 SLOW  |

# copy_256

## [0] NVIDIA H200

|  Ref Time  |  Status  |
|-----------:|:--------:|
| 130.000 us | 🟡 ????  |

# Summary

- Unchanged   (classified as SAME): 0
"""
    assert harnesses.verdicts(printed) == {"gemm_4k": "SLOW", "copy_256": "????"}
    assert harnesses.verdicts("Traceback: no tables") == {}


def test_spread_and_shares_by_hand() -> None:
    """The range is the largest over the smallest, and a process is never compared with itself."""
    deviation, largest = harnesses.spread([100.0, 104.0])
    assert (deviation, largest) == (pytest.approx(math.sqrt(8) / 102), pytest.approx(0.04))
    assert harnesses.share_past_gate([100.0, 104.0], [100.0, 104.0]) == 0.5
    assert harnesses.share_past_gate([100.0, 100.0, 100.0], [104.0, 100.0, 104.0]) == pytest.approx(4 / 6)


def test_a_harness_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What fails is a line, later rounds leave it out, and the rest is in the table and in the JSON."""

    def measure_apart(harness: str, into: Path) -> dict[str, Any]:
        if harness == "nvbench":
            raise harnesses.Failed("nvbench: No module named 'cuda'")
        cases = {"attention_2k": 0.27, "gemm_4k": 0.18, "copy_256": 0.13, "copy_256_longer": 0.135}
        return {"times": {harness: cases}, "gpu": "a GPU", "torch": "2"}

    monkeypatch.setattr(harnesses, "measure_apart", measure_apart)
    found = harnesses.run(["do_bench", "nvbench"], processes=3, budget=60, folder=tmp_path)
    assert found["failures"] == ["nvbench: No module named 'cuda'"]
    assert [row["processes"] for row in found["rows"]] == [3, 3, 3]
    assert json.loads(json.dumps(found))["rows"][2]["planted_caught"] == 1.0
    printed = harnesses.table(found["rows"], {"nvbench-compare-robust": {"copy_256": Counter(SAME=5, AMBG=1)}})
    assert "| do_bench, 3 processes | copy_256 | 130.0 µs | 0.00 % | 0.00 % | 0.0 % | +3.85 % | 100 % |" in printed
    assert printed.endswith("nvbench-compare-robust  copy_256: 5 SAME, 1 AMBG")
