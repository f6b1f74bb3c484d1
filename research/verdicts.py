"""Verdicts on recorded pairs of a real GPU: ``python research/verdicts.py`` prints the tables of docs/trust.md.

Draws pull requests from recorded pairs, as ``ratchet compare --replay --simulate`` does, and judges them as `ratchet check`
does. Either side of unchanged code can be the head, so each pair counts twice, once with its sides swapped. Slower code is the
head's times multiplied, in one case of a pull request at a time: each case has its turn.

``--only`` prints some parts: ``gate`` and ``tight`` (gates of 3 and 1 %), ``families`` (50 cases), ``slower`` (heads that do more
work), ``steps`` and ``merges`` (the baseline over many merges), ``sides`` (the mean of each case: is one side favoured?).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import repeat

from common import DATA, LAUNCH_BOUND, MOVED, QUIET, SLOWED, SOURCES, Pools, mirrored, paired, pairs_in, row, table, workers

from ratchet.core import units
from ratchet.core.judge.comparison import compare_pairs
from ratchet.core.judge.drift import POOLED, Drift, held_to_best, is_significant_alone, needs_best_comparison
from ratchet.core.judge.evidence import CaseThresholds, smallest_slowdown, thresholds_for
from ratchet.core.judge.rule import looks_for_change, thresholds_of_run
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import Outcome
from ratchet.trust.replay_rule import Rates, decided, draw, simulate, slowed_by

PAIRS = 100
"""Pairs that a case may take: the default of a check."""
GATE, TIGHT = Policy(), Policy(regression=0.01)
GATES = (0.0025, 0.005, 0.0075, 0.015, 0.03)
FAMILY = 50
HISTORY = 10
"""Merges."""
SLOWER = 1.01
"""Factor that every other merge of a history puts on one case."""
SEED = 11
RECORDED = ("h200_checks.json.gz", "h200_looks.json.gz", "h200_graph.json.gz")
"""Live checks and calibrations of unchanged code."""
ANSWERED = tuple(source for source in SOURCES if LAUNCH_BOUND not in source)
"""Sources without the case that hardly ever gets an answer."""


@dataclass(frozen=True)
class Caught:
    """The share of slowdowns that are red, where each case has its turn."""

    mean: float
    worst: float
    case: str

    def __str__(self) -> str:
        return units.percent(self.mean, 1) + (f" ({self.case} {units.percent(self.worst)})" if self.worst < 0.95 else "")


def pools_of(source: str, cases: int | None) -> Pools:
    """The pools of a source; with ``cases``, so many of them, which are those repeated under other names."""
    pools = list(SOURCES[source]().items())
    if cases is None:
        return dict(pools)
    return {f"{pools[turn % len(pools)][0]} #{turn // len(pools)}": pools[turn % len(pools)][1] for turn in range(cases)}


def unchanged(source: str, cases: int | None, policy: Policy, runs: int) -> Rates:
    return simulate(pools_of(source, cases), policy, pairs=PAIRS, runs=runs, seed=SEED)


def caught(source: str, policy: Policy, runs: int, factor: float) -> Caught:
    """Slow one case after the other; ``runs`` pull requests of all."""
    pools = SOURCES[source]()
    turns = max(1, runs // len(pools))
    shares = {
        name: simulate(pools, policy, pairs=PAIRS, runs=turns, seed=SEED + turn, planted={name: factor}).red[name]
        for turn, name in enumerate(list(pools)[:runs])
    }
    worst = min(shares, key=shares.__getitem__)
    return Caught(statistics.fmean(shares.values()), shares[worst], worst)


def verdicts(
    pool: Executor, runs: int, policy: Policy, *factors: float, sources: Sequence[str] = ANSWERED, cases: int | None = None
) -> None:
    slower_runs = max(1, runs // 3)
    print(f"Gate {units.threshold(policy.regression)}; {runs:,} pull requests of unchanged code", end="")
    print(
        f", {slower_runs:,} for each slowdown, each case in turn.\n"
        if factors
        else f" with {cases} cases: each source repeated.\n"
    )
    slower = (f"{units.change(factor, 1)} caught" for factor in factors)
    table("recorded pairs", "any red, unchanged", "no answer, unchanged", "pairs taken", *slower)
    answers = {
        source: (
            pool.submit(unchanged, source, cases, policy, runs),
            [pool.submit(caught, source, policy, slower_runs, factor) for factor in factors],
        )
        for source in sources
    }
    for source, (same, reds) in answers.items():
        rates = same.result()
        shares = units.percent(rates.any_red, 2), units.percent(rates.inconclusive, 1)
        row(source, *shares, f"{rates.pairs_mean:.2f}", *(red.result() for red in reds))


def real_slowdowns(pool: Executor, runs: int) -> None:
    print(f"Heads that do more work, among the 8 quiet cases; {runs:,} pull requests: how often each is red.\n")
    table("case", "its six pairs say", *(f"gate {units.threshold(gate)}" for gate in GATES))
    shares = [pool.map(_red_share, repeat(name), GATES, repeat(runs)) for name in SLOWED]
    for name, red in zip(SLOWED, shares, strict=True):
        comparison = compare_pairs(paired(name)[name], GATE.confidence)
        assert comparison is not None
        bounds = f"[{units.change(comparison.low)}, {units.change(comparison.high)}]"
        row(name, f"{units.change(comparison.ratio)} {bounds}", *(units.percent(share, 1) for share in red))


def _red_share(name: str, gate: float, runs: int) -> float:
    pools = {**paired(name), **mirrored(paired(*QUIET))}
    return simulate(pools, Policy(regression=gate), pairs=PAIRS, runs=runs, seed=SEED).red[name]


# Merges


@dataclass(frozen=True)
class Steps:
    """The baseline of a source after many merges."""

    improved: int
    """False improvements."""
    steps: int
    """Moves of the baseline: they take two separate measurements that both find the same commit improved over it."""
    drift: float
    """Ratio of the case whose baseline moved farthest."""
    luckiest: Mapping[str, float]
    """Case → its lowest ratio: where a baseline of the best milliseconds would stand."""


def false_steps(pool: Executor, merges: int) -> None:
    print(f"{merges:,} merges that change nothing, each measured against the baseline commit; gate 3 %.\n")
    heads = ("false improvements", "false steps", "drift of the baseline", "of the best milliseconds, mean (worst)")
    table("recorded pairs", *heads)
    for source, end in zip(SOURCES, pool.map(_steps, SOURCES, repeat(merges)), strict=True):
        case = min(end.luckiest, key=end.luckiest.__getitem__)
        lucky = f"{units.change(statistics.fmean(end.luckiest.values()))} ({case} {units.change(end.luckiest[case])})"
        row(source, end.improved, end.steps, units.change(end.drift), lucky)


def _steps(source: str, merges: int) -> Steps:
    pools, rng = SOURCES[source](), random.Random(SEED)
    improved = steps = 0
    drift, best = dict.fromkeys(pools, 1.0), dict.fromkeys(pools, 1.0)
    for _ in range(merges):
        first = draw(pools, GATE, PAIRS, rng)
        best = {name: min(best[name], seen.ratio) for name, (_, seen) in first.items()}
        claimed = [name for name, (outcome, _) in first.items() if outcome is Outcome.IMPROVED]
        improved += len(claimed)
        again = draw(pools, GATE, PAIRS, rng) if claimed else {}
        for name in claimed:
            if again[name][0] is Outcome.IMPROVED:
                steps += 1
                drift[name] *= (first[name][1].ratio * again[name][1].ratio) ** 0.5
    return Steps(improved, steps, min(drift.values()), best)


def small_slowdowns(pool: Executor, histories: int) -> None:
    """Print how often small slowdowns that add up are red."""
    print(f"Ten merges, of which every other one slows a case by 1 %; {histories} such histories, each case in turn; gate 3 %.\n")
    table("recorded pairs", "red within ten", "at the third slow one", "the fourth", "the fifth", "an unchanged one red")
    ends = {source: pool.map(_history, repeat(source), range(histories)) for source in ANSWERED}
    for source, of_source in ends.items():
        by_case: dict[str, list[MergeHistory]] = {}
        for history in of_source:
            by_case.setdefault(history.case, []).append(history)
        every = [history for listed in by_case.values() for history in listed]
        shares = {name: statistics.fmean(history.red_at > 0 for history in listed) for name, listed in by_case.items()}
        worst = min(shares, key=shares.__getitem__)
        within = Caught(statistics.fmean(history.red_at > 0 for history in every), shares[worst], worst)
        at = (units.percent(statistics.fmean(history.red_at == number for history in every), 1) for number in (3, 4, 5))
        row(source, within, *at, units.percent(statistics.fmean(history.blamed for history in every), 2))


@dataclass(frozen=True)
class MergeHistory:
    """One history of merges."""

    case: str
    red_at: int
    """Number of the slow merge that was red first; 0: none."""
    blamed: bool
    """True if an unchanged case, or a merge that slows nothing, was red."""


def _history(source: str, turn: int) -> MergeHistory:
    """Merge ten times. A slow merge that is red is not merged, and ends the history.

    After each merge main is measured against the best commit, and what it is slower by is kept as in the baseline file.
    """
    pools, rng = SOURCES[source](), random.Random(f"{SEED}.{turn}")
    slow = list(pools)[turn % len(pools)]
    count = 0
    blamed = False
    known: dict[str, list[float]] = {name: [] for name in pools}
    for merge in range(HISTORY):
        slows = merge % 2 == 0
        count += slows
        whole = {slow: SLOWER**count}
        red = _red_cases(pools, {slow: SLOWER if slows else 1.0}, whole, known, rng)
        blamed = blamed or bool(red - {slow}) or (bool(red) and not slows)
        if slows and slow in red:
            return MergeHistory(slow, count, blamed)
        for name, (_, main) in draw(_slowed(pools, whole), GATE, PAIRS, rng).items():
            known[name] = [*known[name], math.log(main.ratio)] if main.ratio >= 1 + GATE.part else []
    return MergeHistory(slow, 0, blamed)


def _red_cases(
    pools: Pools, own: Mapping[str, float], whole: Mapping[str, float], known: Mapping[str, Sequence[float]], rng: random.Random
) -> set[str]:
    """The red cases of a check of one merge: against the commit before it, then against the best one, as `ratchet check` does."""
    drifts = {name: Drift("best", _pooled(logs)) for name, logs in known.items()}
    answers = draw(_slowed(pools, own), GATE, PAIRS, rng, drifts)
    bar = thresholds_of_run({name: seen for name, (_, seen) in answers.items()}, GATE, PAIRS)
    red = {name for name, (outcome, _) in answers.items() if outcome is Outcome.REGRESSED}
    suspects = [
        name
        for name, (_, seen) in answers.items()
        if name not in red and is_significant_alone(seen) and needs_best_comparison(seen, drifts[name], GATE)
    ]
    against = draw(_slowed({name: pools[name] for name in suspects}, whole), GATE, PAIRS, rng)
    for name, (_, best) in against.items():
        outcome, seen = answers[name]
        if held_to_best((outcome, "", seen), best, Tree(commit="best"), bar)[0] is Outcome.REGRESSED:
            red.add(name)
    return red


def _slowed(pools: Pools, by: Mapping[str, float]) -> Pools:
    return {name: slowed_by(by.get(name, 1.0), pairs) for name, pairs in pools.items()}


def _pooled(logs: Sequence[float]) -> float | None:
    """Pool as `ratchet.core.judge.rule.pooled` does, which reads a baseline entry."""
    return math.exp(max(logs[-1], statistics.fmean(logs[-POOLED:]))) if logs else None


# Sides


def sides() -> None:
    """Print the mean log ratio of each case, over every check and calibration of unchanged code that was recorded on a GPU."""
    logs: dict[str, list[float]] = {}
    outcomes: Counter[Outcome] = Counter()
    checks = 0
    for file in RECORDED:
        for record in json.loads(gzip.decompress(DATA.joinpath(file).read_bytes())):
            pairs_of_case = {case: pairs_in(recorded) for case, recorded in record["cases"].items()}
            for case, pairs in pairs_of_case.items():
                between = case == MOVED and record["cases"][case].get("clock", "event") == "event"
                name = f"{case}, between events" if between else case
                logs.setdefault(name, []).extend(pair.log_ratio for pair in pairs)
            if record.get("command", "check") == "check":
                checks += 1
                found = {case: compare_pairs(pairs, GATE.confidence) for case, pairs in pairs_of_case.items()}
                compared = {case: comparison for case, comparison in found.items() if comparison}
                most = max(map(len, pairs_of_case.values()), default=0)
                outcomes.update(outcome for outcome, _ in decided(compared, GATE, most).values())
    judged = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    print(f"{checks} checks of unchanged code. Their cases, each with all its pairs, by the rule as it is: {judged}.\n")
    bar = thresholds_for(GATE, len(logs) - 1, looks_for_change(PAIRS))
    table(
        "case", "pairs", "spread of one pair", "mean, ± standard error", "in standard errors", f"MDE in {PAIRS} pairs, gate 3 %"
    )
    for name, values in logs.items():
        mean, spread = statistics.fmean(values), statistics.stdev(values)
        error = spread / math.sqrt(len(values))
        shown = f"{100 * mean:+.3f} ± {100 * error:.3f} %"
        row(name, len(values), units.percent(spread, 2), shown, f"{mean / error:+.1f}", units.percent(_smallest(spread, bar), 2))
    print(f"\nMean over the cases: {100 * statistics.fmean(map(statistics.fmean, logs.values())):+.3f} %")


def _smallest(spread: float, bar: CaseThresholds) -> float:
    smallest = smallest_slowdown(spread, bar, PAIRS)
    assert smallest is not None
    return smallest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3000, help="pull requests to draw for each figure")
    parser.add_argument("--only", nargs="+", metavar="PART", help="gate, tight, families, slower, steps, merges, sides")
    options = parser.parse_args()
    runs = options.runs
    started = time.perf_counter()
    with workers() as pool:
        parts: dict[str, Callable[[], None]] = {
            "gate": lambda: verdicts(pool, runs, GATE, 1.035, 1.05, sources=tuple(SOURCES)),
            "tight": lambda: verdicts(pool, runs, TIGHT, 1.015),
            "families": lambda: verdicts(pool, max(1, runs // 3), GATE, cases=FAMILY),
            "slower": lambda: real_slowdowns(pool, max(1, runs // 3)),
            "steps": lambda: false_steps(pool, max(1, runs // 3)),
            "merges": lambda: small_slowdowns(pool, max(1, runs // 10)),
            "sides": sides,
        }
        for name in options.only or parts:
            parts[name]()
            print()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
