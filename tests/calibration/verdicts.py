"""How often are verdicts right? ``python tests/calibration/verdicts.py`` prints the tables of docs/trust.md.

Draws pull requests from recorded pairs of a real GPU, as ``ratchet replay --simulate`` does, and judges them as `ratchet check`
does. Slower code is the head's times multiplied, in one case of a pull request at a time: each case has its turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import merges
from pools import QUIET, SLOWED, SOURCES, Pools, paired
from tables import row, table

from ratchet import units
from ratchet.judge.recorded import judge_pairs
from ratchet.judge.replay import simulate
from ratchet.records.policy import Policy

MOST = (100, 20)
"""Pairs that a case may take: the default, and the fewest that can prove a change."""
GATE, TIGHT = Policy(), Policy(regression=0.01)
GATES = (0.0025, 0.005, 0.0075, 0.015, 0.03)
FAMILY = 50
SEED = 11


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3000, help="pull requests to draw for each figure")
    runs = parser.parse_args().runs
    started = time.perf_counter()
    parts: tuple[Callable[[], None], ...] = (
        lambda: verdicts(runs, GATE, 1.035, 1.05),
        lambda: verdicts(runs, TIGHT, 1.015),
        lambda: families(runs),
        lambda: real_slowdowns(max(1, runs // 3)),
        lambda: merges.false_steps(max(1, runs // 3)),
        lambda: merges.small_slowdowns(max(1, runs // 10)),
    )
    for part in parts:
        part()
        print()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
