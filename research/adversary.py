"""Verdicts under noise that nobody here chose: ``python research/adversary.py`` prints the tables of docs/trust.md.

Unchanged runs of 1, 11, 50 and 200 cases under each noise of ``noises.py``: how often is any case red? Slower heads in noise: how
often are they red, and does any pass in silence? Histories of small slowdowns: when are they red? Intervals: how often do they
hold the true change? Looks, stopping and verdicts are those of ``ratchet.core.judge``. Each core takes a share of the work.
``--scale 0.01`` gives an impression in about a minute.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from common import row, table, workers
from noises import ADDED, KEPT_ASIDE, NAMED, PAIRS, SESSIONS, Attack, Floats, Noise, autoregressive, coin, normal, outliers
from numpy.typing import NDArray

from ratchet.core import units
from ratchet.core.judge.comparison import Pair, PairTotal, compare_pairs
from ratchet.core.judge.drift import Drift, held_to_best, is_significant_alone, needs_best_comparison
from ratchet.core.judge.estimate import randomisation_p, session_medians, student_p, without_outliers
from ratchet.core.judge.evidence import CHANGE_PAIRS, CaseThresholds, session_of, thresholds_for
from ratchet.core.judge.outcome import decide
from ratchet.core.judge.rule import PROCESSES, is_decided, is_total_open, looks, looks_for_change, thresholds_of_run
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import Comparison, Outcome

POLICY = Policy()
FAMILIES = (1, 11, 50, 200)
RUNS = {1: 100_000, 11: 30_000, 50: 10_000, 200: 10_000}
RUNS_BEYOND = {1: 20_000, 11: 3_000, 50: 800, 200: 250}
"""Under noise that the rule does not promise to bear, where many more cases have to be judged in full."""
SEED = 20261121
SCREEN = 3.0
"""A sum of twenty or more random signs within so many standard deviations has p > 0.1 %, more than any level of a change."""


def pairs_of(log_ratios: Sequence[float]) -> list[Pair]:
    return [Pair(log_ratio, math.exp(log_ratio), 1.0, session_of(number)) for number, log_ratio in enumerate(log_ratios)]


def checked(log_ratios: Floats, bar: CaseThresholds, most: int = PAIRS, drift: Drift | None = None) -> tuple[Outcome, Comparison]:
    """One case as a check measures it: looked at until it is decided, at most ``most`` pairs."""
    for count in looks(most):
        comparison = compare_pairs(pairs_of(log_ratios[:count].tolist()), bar.policy.confidence)
        assert comparison is not None
        if count == most or is_decided(comparison, bar, drift):
            return decide(comparison, bar)[0], comparison
    raise AssertionError("the last look is the last")


# Unchanged code


def red_runs(attack: Attack, cases: int, runs: int, seed: int) -> int:
    """The number of runs of unchanged code, among so many, that have a red case.

    A case is judged in full only if it could be red at some look. Its run is judged in full only if such a case is red by itself.
    """
    rng = np.random.default_rng((seed, cases))
    bar = thresholds_for(POLICY, cases, looks_for_change(PAIRS))
    red = 0
    batch = max(1, 20_000 // cases)
    for start in range(0, runs, batch):
        count = min(batch, runs - start)
        drawn = attack.noise(rng, count * cases)
        suspected = may_be_red(drawn, bar.level).reshape(count, cases)
        log_ratios = drawn.reshape(count, cases, PAIRS)
        for run in np.flatnonzero(suspected.any(axis=1)):
            judged = {int(case): checked(log_ratios[run, case], bar) for case in np.flatnonzero(suspected[run])}
            if any(outcome is Outcome.REGRESSED for outcome, _ in judged.values()):
                comparisons = {str(case): (judged.get(case) or checked(log_ratios[run, case], bar))[1] for case in range(cases)}
                whole = thresholds_of_run(comparisons, POLICY, PAIRS)
                red += any(decide(comparisons[str(case)], whole)[0] is Outcome.REGRESSED for case in judged)
    return red


def may_be_red(log_ratios: Floats, level: float) -> NDArray[np.bool_]:
    """Tell for each row whether the p-value and the estimates are, at some look, those of a red case."""
    red = np.zeros(len(log_ratios), dtype=np.bool_)
    for count in (look for look in looks(PAIRS) if look >= CHANGE_PAIRS):
        for case in np.flatnonzero(~red & (_standard_scores(log_ratios[:, :count]) > SCREEN)):
            red[case] = _has_evidence(log_ratios[case, :count], level)
    return red


def _standard_scores(log_ratios: Floats) -> Floats:
    """The sum that the randomisation test looks at, in its standard deviations, of each row."""
    sizes = np.abs(log_ratios)
    capped = np.minimum(sizes, np.median(sizes, axis=1, keepdims=True)) * np.sign(log_ratios)
    return np.asarray(capped.sum(axis=1) / np.sqrt((capped**2).sum(axis=1)))


def _has_evidence(log_ratios: Floats, level: float) -> bool:
    """Return whether p-value and estimates are those of a red case; the interval and the other cases are not asked."""
    gate = math.log1p(POLICY.regression)
    agree = student_p(session_medians(log_ratios.tolist(), SESSIONS[: log_ratios.size].tolist()), slower=True)
    return (
        without_outliers(log_ratios).mean() > gate
        and agree is not None
        and agree <= level
        and randomisation_p(log_ratios, slower=True) <= level
    )


# Slower heads


@dataclass(frozen=True)
class Slower:
    """A slowdown in a noise."""

    name: str
    noise: Noise
    change: float
    cases: int = 1


def _cases(count: int) -> str:
    return f"{count} case{'' if count == 1 else 's'}"


def _three_errors(sd: float) -> float:
    """The gate and three standard errors of twenty pairs."""
    return math.exp(math.log1p(POLICY.regression) + 3 * sd / math.sqrt(CHANGE_PAIRS)) - 1


SLOWER = (
    *(
        Slower(f"spread {100 * sd:g} %, +3.5 %, {_cases(cases)}", normal(sd), 0.035, cases)
        for sd in (0.002, 0.005)
        for cases in (1, 11)
    ),
    Slower("spread 5 %, +10 %, 1 case", normal(0.05), 0.10),
    Slower("spread 5 %, +10 %, 11 cases", normal(0.05), 0.10, 11),
    Slower("spread 5 %, +10 %, 200 cases", normal(0.05), 0.10, 200),
    Slower("spread 30 %, +50 %, 1 case", normal(0.30), 0.50),
    Slower("spread 72 %, +272 %, 1 case", normal(0.72), 2.72),
    *(
        Slower(f"one outlier in six, head {where}, {units.change(1 + change, 0)}", outliers(1 / 6, 1.3, sign=sign), change)
        for change in (0.05, 0.50)
        for where, sign in (("faster", -1), ("slower", 1), ("either", 0))
    ),
    *(
        Slower(
            f"spread {100 * sd:g} %, gate + 3 errors: {units.change(1 + _three_errors(sd), 1)}, {_cases(cases)}",
            normal(sd),
            _three_errors(sd),
            cases,
        )
        for sd in (0.01, 0.05, 0.30)
        for cases in (1, 11)
    ),
)


def outcomes(slower: Slower, runs: int, seed: int) -> tuple[Counter[Outcome], int, float]:
    """The outcomes of a slower case, the number of those that passed with their whole interval past the gate, and the pairs taken
    on average.
    """
    rng = np.random.default_rng((seed, 7))
    bar = thresholds_for(POLICY, slower.cases, looks_for_change(PAIRS))
    counts: Counter[Outcome] = Counter()
    silent, taken = 0, 0
    for log_ratios in slower.noise(rng, runs) + math.log1p(slower.change):
        outcome, comparison = checked(log_ratios, bar)
        counts[outcome] += 1
        silent += comparison.low > 1 + POLICY.regression and outcome not in (Outcome.REGRESSED, Outcome.SLOWER)
        taken += comparison.pairs
    return counts, silent, taken / runs


# Creep


CREEP = ((0.005, 0.007), (0.005, 0.003), (0.01, 0.007))
"""Steps, each with the spread of a pair."""
DRIFTED = (0.02, 0.025, 0.029, 0.035)
"""Slowdowns of main since its best commit."""


def creep(step: float, sd: float, merges: int, rng: np.random.Generator) -> float | None:
    """Return the slowdown in all at which a pull request is red, of merges that each add ``step``; None: none was.

    After each merge main is measured against the best commit, and the baseline file keeps the result if it is slower by a part
    that counts.
    """
    bar = thresholds_for(POLICY, 1, looks_for_change(PAIRS))
    known: list[float] = []
    for merge in range(1, merges + 1):
        whole = merge * math.log1p(step)
        ratio = math.exp(max(known[-1], sum(known[-3:]) / len(known[-3:]))) if known else None
        if is_red(math.log1p(step), whole, sd, Drift("best", ratio), rng):
            return math.expm1(whole)
        _, main = checked(rng.normal(whole, sd, PAIRS), bar)
        known = [*known, math.log(main.ratio)] if main.ratio >= 1 + POLICY.part else []
    return None


def is_red(own: float, whole: float, sd: float, drift: Drift, rng: np.random.Generator) -> bool:
    """Return whether a pull request is red that adds ``own`` to the log ratio, which makes it ``whole`` against the best commit.

    It is checked against the commit before it, and against the best one where that is worth it.
    """
    bar = thresholds_for(POLICY, 1, looks_for_change(PAIRS))
    outcome, comparison = checked(rng.normal(own, sd, PAIRS), bar, drift=drift)
    if outcome is not Outcome.REGRESSED and is_significant_alone(comparison) and needs_best_comparison(comparison, drift, POLICY):
        _, best = checked(rng.normal(whole, sd, PAIRS), bar)
        outcome = held_to_best((outcome, "", comparison), best, Tree(commit="b" * 40), bar)[0]
    return outcome is Outcome.REGRESSED


def blamed(drifted: float, sd: float, runs: int) -> float:
    """Return the share of unchanged pull requests that are red where main is slower than its best commit by ``drifted``."""
    rng = np.random.default_rng((SEED, round(1e4 * drifted), round(1e4 * sd)))
    whole = math.log1p(drifted)
    return sum(is_red(0.0, whole, sd, Drift("best", 1 + drifted), rng) for _ in range(runs)) / runs


# Intervals


COVERED: tuple[tuple[str, Noise, float], ...] = (
    ("normal, 0.3 %", normal(0.003), 0.0),
    ("normal, 2 %", normal(0.02), 0.0),
    ("normal, 2 %", normal(0.02), 0.03),
    ("normal, 5 %", normal(0.05), 0.03),
    ("normal, 5 %", normal(0.05), 0.10),
    ("AR(1), ρ 0.5, sd 2 %", autoregressive(0.5, 0.02), 0.0),
    ("AR(1), ρ 0.5, sd 2 %", autoregressive(0.5, 0.02), 0.03),
    ("coin, ±3.5 %", coin(0.035), 0.0),
    ("coin, ±3.5 %", coin(0.035), 0.03),
    ("coin, ±3.5 %", coin(0.035), 0.05),
    ("one outlier in six, ±30 %", outliers(1 / 6, 1.3), 0.03),
)
"""Noises, each with a true change."""
COUNTS = (6, 12, 20)


def coverage(index: int, runs: int, seed: int) -> list[float]:
    """Return the share of intervals that hold the true change: at 6, 12 and 20 pairs, and where a check stops.

    And the share of these checks that end as UNCHANGED.
    """
    _, noise, change = COVERED[index]
    rng = np.random.default_rng((seed, 9))
    bar = thresholds_for(POLICY, 1, looks_for_change(PAIRS))
    held, unchanged_cases = [0] * (len(COUNTS) + 1), 0
    for log_ratios in noise(rng, runs) + math.log1p(change):
        outcome, stopped = checked(log_ratios, bar)
        taken = [compare_pairs(pairs_of(log_ratios[:count].tolist()), 0.95) for count in COUNTS]
        for place, comparison in enumerate((*taken, stopped)):
            assert comparison is not None
            held[place] += comparison.low <= 1 + change <= comparison.high
        unchanged_cases += outcome is Outcome.UNCHANGED
    return [count / runs for count in (*held, unchanged_cases)]


# Slow now and then: processes of a call of 2 ms, of which three calls make a block

CALLS, BLOCKS = 3, 8


@dataclass(frozen=True)
class Occasional:
    """A share of the processes of a side takes ``process`` times as long, and a share of its calls ``call`` times."""

    share: float = 0.0
    process: float = 1.0
    call_share: float = 0.0
    call: float = 1.0

    def drawn(self, rng: np.random.Generator, processes: int, calls: int) -> Floats:
        """Times of calls, of shape (processes, calls)."""
        times = rng.normal(1.0, 0.004, (processes, calls)) * rng.normal(1.0, 0.003, (processes, 1))
        slow = np.where(rng.random((processes, 1)) < self.share, self.process, 1.0)
        return np.asarray(times * slow * np.where(rng.random((processes, calls)) < self.call_share, self.call, 1.0))


NOW_AND_THEN: tuple[tuple[str, Occasional, Occasional], ...] = (
    ("unchanged, quiet", Occasional(), Occasional()),
    ("unchanged, one call in a hundred 5×", Occasional(call_share=0.01, call=5), Occasional(call_share=0.01, call=5)),
    ("unchanged, one call in ten 10×", Occasional(call_share=0.1, call=10), Occasional(call_share=0.1, call=10)),
    ("unchanged, one process in twenty 2×", Occasional(0.05, 2.0), Occasional(0.05, 2.0)),
    ("unchanged, one process in five +50 %", Occasional(0.2, 1.5), Occasional(0.2, 1.5)),
    ("every tenth call 50×", Occasional(call_share=0.1, call=50), Occasional()),
    ("every third call 4×", Occasional(call_share=1 / 3, call=4), Occasional()),
    ("one process in five +50 %", Occasional(0.2, 1.5), Occasional()),
    ("one process in ten 2×", Occasional(0.1, 2.0), Occasional()),
    ("one process in twenty 2×", Occasional(0.05, 2.0), Occasional()),
    ("one process in five +50 %, beside one in twenty 2×", Occasional(0.24, 1.6), Occasional(0.05, 2.0)),
)
"""Name, head and reference."""


def looked_at(head: Occasional, reference: Occasional, rng: np.random.Generator) -> tuple[Outcome, int, int]:
    """Return the outcome of one case as a check looks at it, its pairs and its processes of each side. Time is no limit."""
    bar = thresholds_for(POLICY, 1, looks_for_change(PAIRS))
    sides = [side.drawn(rng, PAIRS, BLOCKS * CALLS) for side in (head, reference)]
    medians = [np.median(side.reshape(PAIRS, BLOCKS, CALLS), axis=2) for side in sides]
    logs = np.median(np.log(medians[0]) - np.log(medians[1]), axis=1).tolist()
    totals = [PairTotal(sides[0][pair], sides[1][pair], session_of(pair)) for pair in range(PAIRS)]
    comparison = None
    for count in looks(PAIRS):
        comparison = compare_pairs(pairs_of(logs[:count]), POLICY.confidence, totals[:count])
        assert comparison is not None
        if is_decided(comparison, bar, None):
            break
    assert comparison is not None
    pairs, processes = comparison.pairs, totals[: comparison.pairs]
    for look, wanted in enumerate(PROCESSES):
        if not is_total_open(comparison, bar, look):
            break
        light = [side.drawn(rng, wanted - len(processes), CALLS) for side in (head, reference)]
        processes += [PairTotal(ours, theirs, processes[-1].session) for ours, theirs in zip(*light, strict=True)]
        comparison = compare_pairs(pairs_of(logs[:pairs]), POLICY.confidence, processes)
        assert comparison is not None
    return decide(comparison, bar)[0], pairs, len(processes)


def _looked_at(index: int, runs: int) -> list[tuple[Outcome, int, int]]:
    _, head, reference = NOW_AND_THEN[index]
    rng = np.random.default_rng((SEED, index, 11))
    return [looked_at(head, reference, rng) for _ in range(runs)]


def now_and_then(runs: int, pool: Executor) -> None:
    print(f"Slow now and then, {runs:,} cases each: their outcomes, in %, and what was looked at on average.\n")
    table("head", "red", "slower, not proven", "inconclusive", "unchanged", "pairs", "processes")
    found = [pool.submit(_looked_at, index, runs) for index in range(len(NOW_AND_THEN))]
    for (name, *_), of_name in zip(NOW_AND_THEN, found, strict=True):
        ended = of_name.result()
        counts = Counter(outcome for outcome, *_ in ended)
        shares = (counts[o] / runs for o in (Outcome.REGRESSED, Outcome.SLOWER, Outcome.INCONCLUSIVE, Outcome.UNCHANGED))
        means = (sum(column) / runs for column in list(zip(*ended, strict=True))[1:])
        row(name, *(f"{100 * share:.1f}" for share in shares), *(f"{mean:.1f}" for mean in means))
    print()


# Tables


def _red_share(attack: tuple[int, int], cases: int, runs: int) -> str:
    group, index = attack
    noise = (NAMED, KEPT_ASIDE, ADDED)[group][index]
    share = f"{100 * red_runs(noise, cases, runs, SEED + index) / runs:.3f}"
    return f"({share})" if noise.beyond else share


def unchanged(scale: float, name: str, pool: Executor) -> None:
    beyond = RUNS if name else RUNS_BEYOND
    counts = [", ".join(f"{max(1, round(runs * scale)):,}" for runs in of_family.values()) for of_family in (RUNS, beyond)]
    print("Any red case in a run of unchanged code, in %; in brackets what is stronger than a run can tell from a change.")
    print(f"{counts[0]} runs for the columns, in brackets {counts[1]}.\n")
    heads = (
        "Noises that broke the first rule:",
        "Kept aside until that rule was frozen:",
        "Noises that broke the rule after it:",
    )
    for group, (attacks, head) in enumerate(zip((NAMED, KEPT_ASIDE, ADDED), heads, strict=True)):
        print(f"{head}\n")
        table("noise", *map(_cases, FAMILIES))
        shares = {
            attack.name: [
                pool.submit(_red_share, (group, index), cases, max(1, round((beyond if attack.beyond else RUNS)[cases] * scale)))
                for cases in FAMILIES
            ]
            for index, attack in enumerate(attacks)
            if name in attack.name
        }
        for attack_name, of_attack in shares.items():
            row(attack_name, *(share.result() for share in of_attack))
        print()


def _outcomes(index: int, runs: int) -> tuple[Counter[Outcome], int, float]:
    return outcomes(SLOWER[index], runs, SEED + index)


def slower_heads(runs: int, pool: Executor) -> None:
    print(f"Slower heads, {runs:,} cases each: their outcomes, in %. Silent: the whole interval past the gate, and a pass.\n")
    table("noise and slowdown", "red", "slower, not proven", "inconclusive", "unchanged", "**silent**", "pairs")
    for slower, (counts, silent, pairs) in zip(SLOWER, pool.map(_outcomes, range(len(SLOWER)), repeat(runs)), strict=True):
        shares = (counts[o] / runs for o in (Outcome.REGRESSED, Outcome.SLOWER, Outcome.INCONCLUSIVE, Outcome.UNCHANGED))
        row(slower.name, *(f"{100 * share:.1f}" for share in shares), silent, f"{pairs:.1f}")
    print()


def _histories(step: float, sd: float, merges: int, count: int) -> list[float | None]:
    rng = np.random.default_rng((SEED, round(1e4 * step), round(1e4 * sd)))
    return [creep(step, sd, merges, rng) for _ in range(count)]


def histories(count: int, merges: int, pool: Executor) -> None:
    print(f"Creep: {count} histories of 30 merges, one case, each merge slower by the step.", end=" ")
    print("How many are red by the time the steps add up to …, in %.\n")
    table("step, spread", "+4 %", "+5 %", "+6 %", "never in 30")
    crept = [pool.submit(_histories, step, sd, 30, count) for step, sd in CREEP]
    still = [pool.submit(_histories, 0.0, sd, merges, 1) for sd in (0.003, 0.007, 0.02)]
    for (step, sd), history in zip(CREEP, crept, strict=True):
        ends = history.result()
        by = (sum(end is not None and end <= limit + 1e-9 for end in ends) / count for limit in (0.0401, 0.0508, 0.0612))
        row(
            f"{units.change(1 + step, 1)}, {units.percent(sd, 1)}",
            *(f"{100 * share:.1f}" for share in by),
            f"{100 * ends.count(None) / count:.1f}",
        )
    print("\nUnchanged pull requests that are red where main is slower than its best commit, in %.\n")
    table("main is slower by", *(f"spread {units.percent(sd, 1)}" for sd in (0.003, 0.007)))
    drifted = [[pool.submit(blamed, slower, sd, 33 * count) for sd in (0.003, 0.007)] for slower in DRIFTED]
    for slower, shares in zip(DRIFTED, drifted, strict=True):
        row(units.percent(slower, 1), *(f"{100 * share.result():.2f}" for share in shares))
    false = sum(history.result() != [None] for history in still)
    print(f"\nUnchanged histories of {merges:,} merges with a spread of 0.3, 0.7 and 2 %: {false} of 3 had a red merge.\n")


def intervals(runs: int, pool: Executor) -> None:
    print(
        f"How often the 95 % interval holds the true change, in %, and how often a check says unchanged; {runs:,} cases each.\n"
    )
    table("noise, true change", *(f"{count} pairs" for count in COUNTS), "where a check stops", "unchanged")
    shares = [pool.submit(coverage, index, runs, SEED + index) for index in range(len(COVERED))]
    for (name, _, change), held in zip(COVERED, shares, strict=True):
        row(f"{name}, {units.change(1 + change, 1)}", *(f"{100 * share:.1f}" for share in held.result()))
    print()


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every number of runs")
    parser.add_argument("--only", choices=["unchanged", "slower", "creep", "intervals", "total"], help="one of the tables")
    parser.add_argument(
        "--noise", default="", help="unchanged code under noises whose names hold this text, all with the most runs"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    started = time.perf_counter()
    with workers() as pool:
        if options.only in (None, "slower"):
            slower_heads(max(2, round(2000 * options.scale)), pool)
        if options.only in (None, "creep"):
            histories(max(1, round(300 * options.scale)), max(20, round(1000 * min(1.0, options.scale))), pool)
        if options.only in (None, "intervals"):
            intervals(max(4, round(4000 * options.scale)), pool)
        if options.only in (None, "total"):
            now_and_then(max(2, round(1000 * options.scale)), pool)
        if options.only in (None, "unchanged"):
            unchanged(options.scale, options.noise, pool)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
