"""The rules of other tools on the same samples: ``python research/peers.py`` prints the tables of research/README.md.

Draws pull requests of eight cases from recorded processes of unchanged code (see tests/data/README.md) and judges them by the
rules of other tools. In the first table a rule gets, for each case, one process for the reference and another for the head, run
one after the other; in the second, both processes of a pair that took turns; in the third, a case that the host disturbs is
added. Slower code is the head's samples times 1.035 or 1.05. The same for this project's own rule: verdicts.py.

A rule is given the samples (milliseconds) of one process that ran the reference and of one that ran the head, and says whether
it would report a regression. Each docstring says where the rule was read, and in which version. Only the rule is here, not the
tool's own way of measuring: every rule gets the same samples.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from common import DATA
from numpy.typing import NDArray
from scipy import stats

UNPAIRED = ("attn_512", "attn_1k", "attn_2k", "attn_4k", "gemm_2k", "gemm_4k", "copy_0", "copy_2")
PAIRED = ("attn_512", "attn_1k", "attn_2k", "attn_4k", "gemm_2k", "gemm_4k", "copy", "warm:attn_2k")
LAUNCH_BOUND = "warm:attn_512"
"""Its pairs differ by tens of percent now and then, because the host stalls."""
EARLIER = 10
PLANTED = (1.0, 1.035, 1.05)
SEED = 5
RESAMPLES = 999
"""Resamples of the bootstrap rules."""

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Rule = Callable[[Floats, Floats], bool]


def best_of_earlier(earlier: Sequence[Floats], head: Floats, gate: float = 0.03) -> bool:
    """The median is more than ``gate`` slower than the best median of all earlier runs.

    The rule of a plain performance ratchet, as gates written by hand have it: keep the best median of every configuration, fail
    at more than 3 % above it. There is no tool to cite. Every further earlier run makes the best one luckier.
    """
    return bool(np.median(head) > (1 + gate) * min(np.median(run) for run in earlier))


def benchstat(reference: Floats, head: Floats, alpha: float = 0.05, over: float = 0.0) -> bool:
    """A significant difference, and the median is slower by more than ``over``.

    benchstat (golang.org/x/perf, ``benchmath/anone.go`` and ``sample.go``, read at commit af31a76): the two-sided Mann-Whitney
    U test over all samples; "no difference" is shown only if p > 0.05. It has no threshold for the size: ``over`` adds one.
    """
    return u_test(reference, head) <= alpha and bool(np.median(head) > (1 + over) * np.median(reference))


def u_test(reference: Floats, head: Floats) -> float:
    """The two-sided p-value as benchstat computes it.

    go-moremath ``stats/utest.go`` (read at commit 1c145d5): exact up to 50 samples without ties, else the normal approximation
    with corrections for ties and continuity. Samples that are all equal are an error there, shown as p = 1. Its exact
    distribution with ties, used up to 9 samples, is not here: the approximation stands in.
    """
    both = np.concatenate((reference, head))
    distinct = len(np.unique(both))
    if distinct == 1:
        return 1.0
    exact = distinct == len(both) and max(len(reference), len(head)) <= 50
    return float(stats.mannwhitneyu(reference, head, method="exact" if exact else "asymptotic").pvalue)


def mann_whitney(reference: Floats, head: Floats, alpha: float = 0.05) -> bool:
    """One-sided Mann-Whitney U test: the head's samples tend to be larger, p < 5 %.

    The textbook test (Mann & Whitney, Ann. Math. Statist. 18, 50, 1947), as ``scipy.stats.mannwhitneyu(alternative="greater")``.
    """
    return bool(stats.mannwhitneyu(head, reference, alternative="greater", method="asymptotic").pvalue < alpha)


def asv(reference: Floats, head: Floats, factor: float = 1.1, recorded: bool = False) -> bool:
    """The median is slower by more than ``factor``, and the two sides differ significantly.

    ``asv compare`` and ``asv continuous`` of asv 0.6.6, ``commands/compare.py`` (``_is_result_better``) and ``_stats.py``
    (``is_different``), with asv_runner 0.3.2 ``statistics.py``; ``--factor`` is 1.1. By default samples are not stored, and
    "differ" means that the 99 % intervals of the medians do not overlap; with ``--record-samples`` it means a Mann-Whitney
    p-value below 0.002. With one sample, only the factor counts. Below 8 samples asv extends the interval by a posterior; here
    it is unbounded.
    """
    if len(reference) != 1 and len(head) != 1 and not _asv_differ(reference, head, recorded):
        return False
    return bool(np.median(reference) < np.median(head) / factor)


def _asv_differ(reference: Floats, head: Floats, recorded: bool, threshold: float = 0.002) -> bool:
    smaller, total = min(len(reference), len(head)), len(reference) + len(head)
    if recorded and 1 / math.comb(total, smaller) < threshold:
        return asv_u_test(reference, head) < threshold
    (low_a, high_a), (low_b, high_b) = median_interval(reference), median_interval(head)
    return high_a < low_b or high_b < low_a


def asv_u_test(reference: Floats, head: Floats) -> float:
    """asv's two-sided Mann-Whitney p-value, ties broken in the least significant way (``_stats.py``, ``mann_whitney_u``).

    By the normal approximation, which asv uses past 20 samples; below, it counts exactly.
    """
    ordered = np.sort(head)
    above = int(np.searchsorted(ordered, reference, side="left").sum())
    above_or_equal = int(np.searchsorted(ordered, reference, side="right").sum())
    middle = len(reference) * len(head) / 2
    nearest = min(max(middle, above), above_or_equal)
    spread = math.sqrt(len(reference) * len(head) * (len(reference) + len(head) + 1) / 12)
    return float(2 * stats.norm.cdf(-abs(nearest - middle) / spread))


def median_interval(samples: Floats) -> tuple[float, float]:
    """asv's 99 % interval of the median, between two order statistics (asv_runner ``statistics.py``, ``quantile_ci``)."""
    ordered = np.sort(samples)
    below, above = _order_statistics(len(ordered))
    low = float(ordered[below]) if below >= 0 else -math.inf
    high = float(ordered[above]) if above < len(ordered) else math.inf
    return low, high


@lru_cache
def _order_statistics(count: int) -> tuple[int, int]:
    probability = stats.binom.cdf(np.arange(count), count, 0.5)
    return int(np.sum(probability <= 0.005)) - 1, int(np.sum(probability < 0.995))


def torchbench(reference: Floats, head: Floats, threshold: float = 0.07) -> bool:
    """The median is more than 7 % slower than that of the run before.

    pytorch/benchmark, ``userbenchmark/torch-nightly/regression_detector.py`` (``DEFAULT_REGRESSION_DELTA_THRESHOLD = 0.07``,
    read at commit 061e0ec) on medians of latencies (``run.py``). It reports speed-ups past 7 % too; they are no regressions
    here.
    """
    return bool(np.median(head) / np.median(reference) - 1 > threshold)


def github_action_benchmark(reference: Floats, head: Floats, threshold: float = 2.0) -> bool:
    """The mean is more than ``threshold`` times that of the run before.

    benchmark-action/github-action-benchmark, ``src/write/findAlerts.ts`` (read at commit 7605d51); ``alert-threshold`` is
    ``200%`` in ``action.yml`` (09a6990). With ``tool: pytest`` the value compared is operations per second, which is one over
    the mean.
    """
    return bool(np.mean(head) / np.mean(reference) > threshold)


def bootstrap(reference: Floats, head: Floats, gate: float = 0.03, whole: bool = False) -> bool:
    """The ratio of medians is past ``gate`` and its 95 % bootstrap interval excludes 1; if ``whole``, all of it is past it.

    What is usually meant by "with confidence intervals": the percentile bootstrap (Efron 1979; ``scipy.stats.bootstrap``) over
    the samples of one process each. There is no tool to cite.
    """
    ratios = _resampled_medians(_raw(head), 1) / _resampled_medians(_raw(reference), 0)
    low = np.quantile(ratios, 0.025)
    if whole:
        return bool(low > 1 + gate)
    return bool(low > 1 and np.median(head) / np.median(reference) > 1 + gate)


def _raw(samples: Floats) -> bytes:
    return np.asarray(samples, dtype=np.float64).tobytes()


@lru_cache(maxsize=4096)
def _resampled_medians(samples: bytes, seed: int) -> Floats:
    """Kept, because a process is compared with many. The seed differs by side, so that the sides are resampled independently."""
    values = np.frombuffer(samples)
    drawn = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    return np.median(values[drawn], axis=1)


def nvbench_legacy(reference: Floats, head: Floats) -> bool:
    """The mean is slower by more than the smaller of the two relative standard deviations.

    ``nvbench-compare-legacy`` of cuda-bench 0.3.0 (NVIDIA/nvbench, ``python/scripts/nvbench_compare.py``), status ``SLOW``. The
    standard deviation is infinite below 5 samples and then left out; a smaller one of 0 gives no verdict (``????``).
    """
    noises = [float(np.std(side, ddof=1) / np.mean(side)) for side in (reference, head) if len(side) >= 5]
    return min(noises, default=0.0) > 0 and bool(np.mean(head) / np.mean(reference) - 1 > min(noises))


def nvbench_robust(reference: Floats, head: Floats, clear_gap: float = 0.005) -> bool:
    """The head's fastest sample is at least 0.5 % slower than the reference's third quartile.

    ``nvbench-compare-robust`` of cuda-bench 0.3.0 (NVIDIA/nvbench, ``python/scripts/nvbench_compare_robust.py``), status
    ``SLOW`` with the preset ``default``: the intervals from minimum to third quartile do not overlap, with a gap of
    ``clear_gap.relative``. It asks for the same gap in cycles, from the SM clock of each sample; the samples here have no
    clocks, so the clock counts as equal on both sides. Most of what is neither ``SLOW`` nor ``FAST`` is ``AMBG``, no verdict.
    """
    ordered = np.sort(reference)
    third_quartile = ordered[(75 * (len(ordered) - 1) + 50) // 100]
    return bool(np.min(head) / third_quartile - 1 >= clear_gap)


def batches(samples: Floats, count: int) -> Floats:
    """The means of ``count`` equal runs of consecutive samples: what ``go test -bench -count=COUNT`` hands to benchstat."""
    return np.asarray(samples.reshape(count, -1).mean(axis=1))


def ten_counts(reference: Floats, head: Floats) -> bool:
    return benchstat(batches(reference, 10), batches(head, 10))


PAIRWISE: dict[str, Rule] = {
    "benchstat": benchstat,
    "benchstat, 10 means of each process": ten_counts,
    "benchstat, and more than 3 %": partial(benchstat, over=0.03),
    "Mann-Whitney, one-sided, 5 %": mann_whitney,
    "bootstrap 95 % over samples, and more than 3 %": bootstrap,
    "bootstrap 95 % over samples, all of it past 3 %": partial(bootstrap, whole=True),
    "nvbench-compare-legacy": nvbench_legacy,
    "nvbench-compare-robust": nvbench_robust,
    "asv, factor 1.1": asv,
    "asv, factor 1.03": partial(asv, factor=1.03),
    "TorchBench, 7 %": torchbench,
    "github-action-benchmark, 200 %": github_action_benchmark,
    "github-action-benchmark, 103 %": partial(github_action_benchmark, threshold=1.03),
}


def processes() -> list[Floats]:
    """Load the samples of each case, of shape (processes, samples)."""
    with np.load(DATA / "h200_unpaired.npz") as data:
        return [data[name].astype(np.float64) for name in UNPAIRED]


def pairs(names: tuple[str, ...]) -> list[tuple[Floats, Floats]]:
    """Load both sides of each case, (pairs, samples). A pair counts twice: either side of unchanged code can be the head."""
    sides = []
    with np.load(DATA / "h200_paired.npz") as data:
        for name in names:
            a, b = (data[f"{name}|{side}"].astype(np.float64) for side in "AB")
            a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
            sides.append((np.concatenate((a, b)), np.concatenate((b, a))))
    return sides


def of_two_processes(rule: Rule, cases: list[Floats], references: NDArray[np.int64], heads: NDArray[np.int64]) -> list[Booleans]:
    """Decide for each planted slowdown, (runs, cases): once for each ordered pair of processes, then by looking it up."""
    reds = []
    for planted in PLANTED:
        red = np.empty(references.shape, dtype=bool)
        for case, samples in enumerate(cases):
            decisions = np.array([[rule(reference, head * planted) for head in samples] for reference in samples])
            red[:, case] = decisions[references[:, case], heads[:, case]]
        reds.append(red)
    return reds


def of_a_pair(rule: Rule, cases: list[tuple[Floats, Floats]], drawn: NDArray[np.int64]) -> list[Booleans]:
    reds = []
    for planted in PLANTED:
        decisions = [np.array([rule(a, b * planted) for a, b in zip(*sides, strict=True)]) for sides in cases]
        reds.append(np.stack([decided[drawn[:, case]] for case, decided in enumerate(decisions)], axis=1))
    return reds


def of_earlier_runs(cases: list[Floats], orders: list[NDArray[np.int64]]) -> list[Booleans]:
    """Decide by the best of ten: `orders` holds, for each case, eleven different processes for each run, the head last."""
    return [
        np.array(
            [
                [best_of_earlier([samples[i] for i in order[:-1]], samples[order[-1]] * planted) for order in drawn]
                for samples, drawn in zip(cases, orders, strict=True)
            ]
        ).T
        for planted in PLANTED
    ]


def row(name: str, reds: list[Booleans]) -> str:
    unchanged, slower, slowest = reds
    shares = (unchanged.any(axis=1).mean(), unchanged.mean(), slower.mean(), slowest.mean())
    return f"| {name} | " + " | ".join(f"{share:.1%}".replace("%", " %") for share in shares) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3000, help="pull requests to draw")
    runs = parser.parse_args().runs
    rng = np.random.default_rng(SEED)
    header = "any red, unchanged pull request | red, unchanged case | +3.5 % caught | +5 % caught |\n|:--|--:|--:|--:|--:|"

    apart = processes()
    count = len(apart[0])
    references = rng.integers(0, count, (runs, len(apart)))
    heads = (references + rng.integers(1, count, references.shape)) % count
    orders = [np.argsort(rng.random((runs, count)), axis=1)[:, : EARLIER + 1] for _ in apart]
    print(f"| two processes one after the other, {len(apart)} cases, {runs} runs | {header}")
    print(row(f"median more than 3 % above the best of {EARLIER} earlier runs", of_earlier_runs(apart, orders)), flush=True)
    for name, rule in PAIRWISE.items():
        print(row(name, of_two_processes(rule, apart, references, heads)), flush=True)

    for title, names in (("", PAIRED), (f" with {LAUNCH_BOUND}", (*PAIRED, LAUNCH_BOUND))):
        together = pairs(names)
        drawn = rng.integers(0, len(together[0][0]), (runs, len(together)))
        print(f"\n| two processes taking turns, {len(together)} cases{title}, {runs} runs | {header}")
        for name, rule in PAIRWISE.items():
            print(row(name, of_a_pair(rule, together, drawn)), flush=True)


if __name__ == "__main__":
    main()
