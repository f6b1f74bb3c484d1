"""How often are verdicts right on recorded pairs? ``python research/verdicts.py`` prints the tables of docs/trust.md.

Draws pull requests from recorded pairs of a real GPU, as ``ratchet replay --simulate`` does, and judges them as `ratchet check`
does. Slower code is the head's times multiplied, in one case of a pull request at a time: each case has its turn. ``--only``
prints one part: ``gate`` and ``tight`` (gates of 3 and 1 %), ``families`` (50 cases), ``slower`` (heads that do more work),
``steps`` and ``merges`` (what becomes of a baseline over many merges), ``sides`` (does unchanged code look the same on both?).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common import DATA, MOVED, QUIET, SLOWED, SOURCES, Pools, paired, row, table

from ratchet import units
from ratchet.judge.drift import POOLED, Drift, held_to_best, is_own, may_add_up
from ratchet.judge.replay import draw, judge_pairs, simulate, slowed_by
from ratchet.judge.sequential import bar_of_run
from ratchet.records.run import Policy, Tree
from ratchet.records.verdict import Outcome
from ratchet.stats.comparison import Pair

MOST = (100, 20)
"""Pairs that a case may take: the default, and the fewest that can prove a change."""
GATE, TIGHT = Policy(), Policy(regression=0.01)
GATES = (0.0025, 0.005, 0.0075, 0.015, 0.03)
FAMILY = 50
HISTORY = 10
"""Merges."""
SLOWER = 1.01
"""What every other merge of a history does to one case."""
SEED = 11
RECORDED = ("h200_checks.json.gz", "h200_looks.json.gz", "h200_graph.json.gz")
"""Live checks and calibrations of unchanged code."""


@dataclass(frozen=True)
class Caught:
    """How often a slowdown is red, where each case has its turn."""

    mean: float
    worst: float
    case: str

    def __str__(self) -> str:
        return units.percent(self.mean, 1) + (f" ({self.case} {units.percent(self.worst)})" if self.worst < 0.95 else "")


def caught(pools: Pools, policy: Policy, pairs: int, runs: int, factor: float) -> Caught:
    """One case after the other is slower; ``runs`` pull requests of all."""
    each = max(1, runs // len(pools))
    shares = {
        name: simulate(pools, policy, pairs=pairs, runs=each, seed=SEED + turn, planted={name: factor}).red[name]
        for turn, name in enumerate(list(pools)[:runs])
    }
    worst = min(shares, key=shares.__getitem__)
    return Caught(statistics.fmean(shares.values()), shares[worst], worst)


def verdicts(runs: int, policy: Policy, *factors: float) -> None:
    print(f"Gate {units.threshold(policy.regression)}; {runs} pull requests for each figure, slower in one case, each in turn.\n")
    slower = (f"{units.change(factor, 1)} caught" for factor in factors)
    table(
        "recorded pairs",
        "most pairs",
        "any red, unchanged",
        "inconclusive, unchanged",
        "pairs taken",
        f"of fixed {MOST[0]}",
        *slower,
    )
    for title, source in SOURCES.items():
        pools = source()
        for pairs in MOST:
            same = simulate(pools, policy, pairs=pairs, runs=runs, seed=SEED)
            share = units.percent(same.pairs_mean / MOST[0])
            found = (caught(pools, policy, pairs, runs, factor) for factor in factors)
            unchanged = units.percent(same.any_red, 2), units.percent(same.inconclusive, 1)
            row(title, pairs, *unchanged, f"{same.pairs_mean:.2f}", share, *found)


def families(runs: int) -> None:
    print(f"The same with {FAMILY} cases, which are those repeated under other names; gate 3 %.\n")
    table("recorded pairs", "most pairs", "any red, unchanged", "inconclusive, unchanged", "+3.5 % in one case caught")
    for title, source in SOURCES.items():
        pools = list(source().items())
        many = {f"{pools[turn % len(pools)][0]} #{turn // len(pools)}": pools[turn % len(pools)][1] for turn in range(FAMILY)}
        for pairs in MOST:
            same = simulate(many, GATE, pairs=pairs, runs=runs, seed=SEED)
            slow = caught(many, GATE, pairs, max(1, runs // 3), 1.035)
            row(title, pairs, units.percent(same.any_red, 2), units.percent(same.inconclusive, 1), units.percent(slow.mean, 1))


def real_slowdowns(runs: int) -> None:
    print(f"Heads that really do more work, among the 8 quiet cases, most {MOST[0]} pairs: how often each is red.\n")
    table("case", "its six pairs say", *(f"gate {units.threshold(gate)}" for gate in GATES))
    for name in SLOWED:
        pools = paired(name, *QUIET)
        seen = judge_pairs(paired(name), GATE).cases[0].comparison
        assert seen is not None
        shares = (simulate(pools, Policy(regression=gate), pairs=MOST[0], runs=runs, seed=SEED).red[name] for gate in GATES)
        bounds = f"[{units.change(seen.low)}, {units.change(seen.high)}]"
        row(name, f"{units.change(seen.ratio)} {bounds}", *(units.percent(share, 1) for share in shares))


# Merges


def false_steps(merges: int) -> None:
    """A step takes two separate measurements that both find the same commit improved over the baseline commit."""
    print(f"{merges} merges that change nothing, each measured against the baseline commit, gate 3 %, most {MOST[0]} pairs.\n")
    table(
        "recorded pairs", "false improvements", "false steps", "drift of the baseline", "of the best milliseconds, mean (worst)"
    )
    for title, source in SOURCES.items():
        pools, rng = source(), random.Random(SEED)
        improved = steps = 0
        drift, best = dict.fromkeys(pools, 1.0), dict.fromkeys(pools, 1.0)
        for _ in range(merges):
            first = draw(pools, GATE, MOST[0], rng)
            best = {name: min(best[name], seen.ratio) for name, (_, seen) in first.items()}
            claimed = [name for name, (outcome, _) in first.items() if outcome is Outcome.IMPROVED]
            improved += len(claimed)
            again = draw(pools, GATE, MOST[0], rng) if claimed else {}
            for name in claimed:
                if again[name][0] is Outcome.IMPROVED:
                    steps += 1
                    drift[name] *= (first[name][1].ratio * again[name][1].ratio) ** 0.5
        lowest = min(best, key=best.__getitem__)
        lucky = f"{units.change(statistics.fmean(best.values()))} ({lowest} {units.change(best[lowest])})"
        row(title, improved, steps, units.change(min(drift.values())), lucky)


def small_slowdowns(histories: int) -> None:
    """Of ten merges, every other one slows a case by 1 %: is a check of one of them red?"""
    print(f"Ten merges, of which every other one slows a case by 1 %; {histories} such histories, each case in turn; gate 3 %.\n")
    table(
        "recorded pairs",
        "most pairs",
        "red within ten",
        "at the third slow one",
        "the fourth",
        "the fifth",
        "an unchanged one red",
    )
    for title, source in SOURCES.items():
        pools = {name: _centred(pool) for name, pool in source().items()}
        for pairs in MOST:
            rng = random.Random(SEED)
            found: dict[str, list[tuple[int, bool]]] = {}
            for turn in range(histories):
                name = list(pools)[turn % len(pools)]
                found.setdefault(name, []).append(_history(pools, name, pairs, rng))
            every = [each for listed in found.values() for each in listed]
            shares = {name: statistics.fmean(which > 0 for which, _ in listed) for name, listed in found.items()}
            worst = min(shares, key=shares.__getitem__)
            named = f" ({worst} {units.percent(shares[worst])})" if shares[worst] < 0.95 else ""
            at = (units.percent(statistics.fmean(which == number for which, _ in every), 1) for number in (3, 4, 5))
            blamed = units.percent(statistics.fmean(wrong for _, wrong in every), 2)
            row(title, pairs, units.percent(statistics.fmean(which > 0 for which, _ in every), 1) + named, *at, blamed)


def _centred(pool: Sequence[Pair]) -> list[Pair]:
    """The pairs of code that did not change at all: what their mean is off by would count as a slowdown of each merge."""
    return slowed_by(math.exp(-statistics.fmean(pair.log_ratio for pair in pool)), pool)


def _history(pools: Pools, slow: str, pairs: int, rng: random.Random) -> tuple[int, bool]:
    """Which of the slow merges was red first (0: none), and whether an unchanged one was.

    A slow merge that is red is not merged, and ends the history. After each merge main is measured against the best commit, and
    what it is slower by is kept as in the baseline file.
    """
    count = 0
    wrong = False
    known: dict[str, list[float]] = {name: [] for name in pools}
    for merge in range(HISTORY):
        slows = merge % 2 == 0
        count += slows
        whole = {slow: SLOWER**count}
        red = _red_cases(pools, {slow: SLOWER if slows else 1.0}, whole, known, pairs, rng)
        wrong = wrong or bool(red - {slow}) or (bool(red) and not slows)
        if slows and slow in red:
            return count, wrong
        for name, (_, main) in draw(_slowed(pools, whole), GATE, pairs, rng).items():
            known[name] = [*known[name], math.log(main.ratio)] if main.ratio >= 1 + GATE.part else []
    return 0, wrong


def _red_cases(
    pools: Pools,
    own: Mapping[str, float],
    whole: Mapping[str, float],
    known: Mapping[str, Sequence[float]],
    pairs: int,
    rng: random.Random,
) -> set[str]:
    """The red cases of a check of one merge: against the commit before it, then against the best one, as `ratchet check` does."""
    drifts = {name: Drift("best", _pooled(logs)) for name, logs in known.items()}
    answers = draw(_slowed(pools, own), GATE, pairs, rng, drifts)
    bar = bar_of_run({name: seen for name, (_, seen) in answers.items()}, GATE, pairs)
    red = {name for name, (outcome, _) in answers.items() if outcome is Outcome.REGRESSED}
    suspects = [
        name for name, (_, seen) in answers.items() if name not in red and is_own(seen) and may_add_up(seen, drifts[name], GATE)
    ]
    against = draw(_slowed({name: pools[name] for name in suspects}, whole), GATE, pairs, rng)
    for name, (_, best) in against.items():
        outcome, seen = answers[name]
        if held_to_best((outcome, "", seen), best, Tree(commit="best"), bar)[0] is Outcome.REGRESSED:
            red.add(name)
    return red


def _slowed(pools: Pools, by: Mapping[str, float]) -> Pools:
    return {name: slowed_by(by.get(name, 1.0), pool) for name, pool in pools.items()}


def _pooled(logs: Sequence[float]) -> float | None:
    """As `ratchet.judge.drift.pooled`, which reads a baseline entry."""
    return math.exp(max(logs[-1], statistics.fmean(logs[-POOLED:]))) if logs else None


# Sides


def sides() -> None:
    """Mean log ratio of each case, over every check and calibration of unchanged code that was recorded on a GPU."""
    logs: dict[str, list[float]] = {}
    checks = 0
    for name in RECORDED:
        for check in json.loads(gzip.decompress(DATA.joinpath(name).read_bytes())):
            checks += check.get("command", "check") == "check"
            for case, found in check["cases"].items():
                between = case == MOVED and found.get("clock", "event") == "event"
                shown = f"{case}, between events" if between else case
                logs.setdefault(shown, []).extend(pair["log_ratio"] * 100 for pair in found["pairs"])
    print(f"{checks} checks\n")
    table("case", "pairs", "spread of one pair", "mean, ± standard error", "in standard errors")
    for case, values in logs.items():
        mean, spread = statistics.fmean(values), statistics.stdev(values)
        error = spread / math.sqrt(len(values))
        row(case, len(values), f"{spread:.2f} %", f"{mean:+.3f} ± {error:.3f} %", f"{mean / error:+.1f}")
    means = [statistics.fmean(values) for values in logs.values()]
    print(f"\nover the cases: {statistics.fmean(means):+.3f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3000, help="pull requests to draw for each figure")
    parser.add_argument("--only", nargs="+", help="parts")
    options = parser.parse_args()
    runs = options.runs
    started = time.perf_counter()
    parts: dict[str, Callable[[], None]] = {
        "gate": lambda: verdicts(runs, GATE, 1.035, 1.05),
        "tight": lambda: verdicts(runs, TIGHT, 1.015),
        "families": lambda: families(runs),
        "slower": lambda: real_slowdowns(max(1, runs // 3)),
        "steps": lambda: false_steps(max(1, runs // 3)),
        "merges": lambda: small_slowdowns(max(1, runs // 10)),
        "sides": sides,
    }
    for name in options.only or parts:
        parts[name]()
        print()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
