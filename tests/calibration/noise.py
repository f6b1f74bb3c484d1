"""What noise of other kinds does to verdicts: ``python tests/calibration/noise.py`` prints the table of docs/trust.md.

Simulated checks of eight unchanged cases, looked at and judged as `ratchet check` does, whose pairs differ because processes run
in one of two modes, or because the host stalls in some pairs; by the rule in use, and by Student's t without the exact test.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from ratchet.judge.levels import shared
from tables import row, table

from ratchet import units
from ratchet.judge.looks import is_decided, looks, looks_for_change
from ratchet.judge.outcome import decide
from ratchet.records.policy import Policy
from ratchet.records.verdict import Comparison, Outcome
from ratchet.stats.comparison import compare_pairs
from ratchet.stats.ratios import Pair

CASES, MOST = 8, 20
SEED = 17
STALLED, STALL = 1 / 12, math.log(1.6)
QUIET = 0.003

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator], Floats]
"""The log ratios of the pairs of one case, in the order in which they are taken."""


def modes(apart: float, noise: float, slow: float) -> Noise:
    """Each process is ``apart`` slower with the probability ``slow``, besides normal noise of each."""

    def draw(rng: np.random.Generator) -> Floats:
        head, reference = (rng.normal(0, noise, MOST) + math.log1p(apart) * (rng.random(MOST) < slow) for _ in range(2))
        return np.asarray(head - reference)

    return draw


def stalls(shift: float) -> Noise:
    """A head slower by ``shift``, on a host that stalls in one pair of twelve, on either side, for 60 % of its time."""

    def draw(rng: np.random.Generator) -> Floats:
        stalled = STALL * rng.choice([-1, 1], MOST) * (rng.random(MOST) < STALLED)
        return np.asarray(rng.normal(math.log1p(shift), QUIET, MOST) + stalled)

    return draw


def check(noise: Noise, rng: np.random.Generator, rule: Policy) -> list[Outcome]:
    """The outcomes of one check."""
    each = rule.shared(CASES, looks_for_change(MOST))
    found = {str(case): looked_at(noise(rng), each) for case in range(CASES)}
    levels = shared(found, rule, MOST)
    return [decide(seen, levels[name])[0] for name, seen in found.items()]


def looked_at(logs: Floats, policy: Policy) -> Comparison:
    """The comparison at the look at which a check stops; ``policy`` holds the case's share of the false alarms."""
    pairs = [Pair(log, math.exp(log), 1.0) for log in logs.tolist()]
    seen: Comparison | None = None
    for count in looks(MOST):
        seen = compare_pairs(pairs[:count], policy.confidence)
        if seen and is_decided(seen, policy, MOST):
            break
    if seen is None:
        raise ValueError("no look has enough pairs")
    return seen


@contextlib.contextmanager
def student_alone() -> Iterator[None]:
    with mock.patch("ratchet.stats.estimate.exchange_chance", return_value=0.0):
        yield


def rates(noise: Noise, runs: int) -> tuple[float, float, float]:
    """Shares: of runs with a red case, of red cases, of cases without an answer."""
    rng = np.random.default_rng(SEED)
    found = [check(noise, rng, Policy()) for _ in range(runs)]
    cases = Counter(outcome for each in found for outcome in each)
    any_red = sum(Outcome.REGRESSED in each for each in found) / runs
    return any_red, cases[Outcome.REGRESSED] / (runs * CASES), cases[Outcome.INCONCLUSIVE] / (runs * CASES)


def two_modes(runs: int) -> None:
    print(f"{runs} checks of {CASES} unchanged cases for each figure, up to {MOST} pairs, gate 3 %.\n")
    table("modes apart", "noise beside it", "processes in the slow one", "any red", "by Student's t alone", "inconclusive")
    for apart in (0.06, 0.2):
        for noise in (0.02, 0.003):
            for slow in (0.25, 0.5):
                drawn = modes(apart, noise, slow)
                red, _, undecided = rates(drawn, runs)
                with student_alone():
                    alone, _, _ = rates(drawn, runs)
                given = units.percent(apart), units.percent(noise, 1), units.percent(slow)
                row(*given, units.percent(red, 2), units.percent(alone, 2), units.percent(undecided, 1))


def stalled_hosts(runs: int) -> None:
    print("\nOne pair in twelve is off by 60 %, either way.\n")
    table("head", "any red", "red", "inconclusive")
    for shift in (0.0, 0.1):
        any_red, red, undecided = rates(stalls(shift), runs)
        row(
            units.change(1 + shift, 0) if shift else "unchanged",
            units.percent(any_red, 2),
            units.percent(red, 1),
            units.percent(undecided, 1),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000, help="checks for each figure")
    options = parser.parse_args()
    two_modes(options.runs)
    stalled_hosts(options.runs)


if __name__ == "__main__":
    main()
