"""What becomes of a baseline over many merges? Printed by verdicts.py, from pairs drawn as there."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence

from pools import SOURCES, Pools
from tables import row, table

from ratchet import units
from ratchet.judge.drift import POOLED, Drift, held_to_best, is_own, may_add_up
from ratchet.judge.looks import bar_of_run
from ratchet.judge.replay import draw, slowed_by
from ratchet.records.policy import Policy
from ratchet.records.run import Tree
from ratchet.records.verdict import Outcome
from ratchet.stats.ratios import Pair

GATE = Policy()
MOST = (100, 20)
"""Pairs that a case may take: the default, and the fewest that can prove a change."""
HISTORY = 10
SLOWER = 1.01
"""What every other merge of a history does to one case."""
SEED = 12


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
