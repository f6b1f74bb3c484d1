"""The noise that real machines make: none of it may look like a slowdown, and a slowdown may not hide in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CaseRun, WorkerSamples
from ratchet.core.records.verdict import CaseVerdict, Outcome
from tests import examples, pair_examples

pytestmark = pytest.mark.no_cover
Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]
"""So many log ratios of pairs, in the order in which they were taken."""
CASES, MOST = 8, 40
QUIET = 0.003
NO_CHANGE = {Outcome.UNCHANGED, Outcome.INCONCLUSIVE}


def runs(noise: Noise, count: int = 150, seed: int = 0) -> list[list[Outcome]]:
    """The outcomes of so many checks of eight cases with this noise."""
    rng = np.random.default_rng(seed)
    return [list(outcomes(*(noise(rng, MOST).tolist() for _ in range(CASES))).values()) for _ in range(count)]


def outcomes(*cases: list[float]) -> dict[str, Outcome]:
    """What a check of up to forty pairs says of cases whose log ratios came in this order."""
    return pair_examples.outcomes({str(case): pair_examples.pairs(logs) for case, logs in enumerate(cases)}, most=MOST)


def count(found: list[list[Outcome]], outcome: Outcome) -> float:
    """Share of the cases with this outcome."""
    return sum(each.count(outcome) for each in found) / (len(found) * CASES)


def red(found: list[list[Outcome]]) -> int:
    return sum(Outcome.REGRESSED in each for each in found)


# Whole pairs


@pytest.mark.slow
@pytest.mark.parametrize(("slow", "answered"), [(0.1, 0.8), (0.5, 0.45)])
def test_two_modes(slow: float, answered: float) -> None:
    """Where each process is in a mode 6 % slower now and then, no run of 150 is red; where half are, many stay open."""

    def noise(rng: np.random.Generator, pairs: int) -> Floats:
        head, reference = (rng.normal(0, 0.02, pairs) + math.log(1.06) * (rng.random(pairs) < slow) for _ in range(2))
        return head - reference

    found = runs(noise)
    assert red(found) == 0
    assert count(found, Outcome.IMPROVED) == 0
    assert count(found, Outcome.UNCHANGED) >= answered
    assert count(found, Outcome.SLOWER) <= 0.002


def stalls(shift: float) -> Noise:
    """A host that stalls in one pair of twelve, on either side, for 60 % of the time."""

    def noise(rng: np.random.Generator, pairs: int) -> Floats:
        stalled = math.log(1.6) * rng.choice([-1, 1], pairs) * (rng.random(pairs) < 1 / 12)
        return rng.normal(math.log1p(shift), QUIET, pairs) + stalled

    return noise


@pytest.mark.slow
def test_a_host_that_stalls() -> None:
    """Pairs in which the host stalled make no run red, and leave nine cases in ten an answer."""
    found = runs(stalls(0.0))
    assert red(found) == 0
    assert count(found, Outcome.IMPROVED) == 0
    assert count(found, Outcome.UNCHANGED) >= 0.9


@pytest.mark.slow
def test_a_slowdown_on_a_host_that_stalls() -> None:
    """A head slower by 10 % is red in nine of ten cases, and never passes: two stalls in three pairs are no proof."""
    found = runs(stalls(0.1))
    assert count(found, Outcome.REGRESSED) >= 0.9
    assert count(found, Outcome.UNCHANGED) + count(found, Outcome.IMPROVED) == 0


@pytest.mark.parametrize(("shift", "outcome"), [(0.0, Outcome.UNCHANGED), (0.1, Outcome.REGRESSED)])
@pytest.mark.parametrize("stalled", range(12))
def test_one_stalled_pair(stalled: int, shift: float, outcome: Outcome) -> None:
    """Exactly one stalled pair among the first twelve, wherever it stands, changes no verdict."""
    logs = np.random.default_rng(stalled).normal(math.log1p(shift), QUIET, MOST)
    for away in (0.47, -0.47):
        logs[stalled] = away
        assert outcomes(logs.tolist()) == {"0": outcome}


@pytest.mark.slow
def test_another_process_arrives() -> None:
    """From some pair on both sides take 30 % longer, give or take 10: that is no change, and often no answer."""

    def noise(rng: np.random.Generator, pairs: int) -> Floats:
        head, reference = (np.maximum(rng.normal(1.3, 0.1, pairs), 0.5) for _ in range(2))
        arrived = np.arange(pairs) >= rng.integers(1, 13)
        return rng.normal(0, QUIET, pairs) + np.log(head / reference) * arrived

    found = runs(noise)
    assert red(found) == 0
    assert count(found, Outcome.IMPROVED) == 0
    assert count(found, Outcome.SLOWER) <= 0.005
    assert count(found, Outcome.INCONCLUSIVE) >= 0.05


def test_a_machine_that_slows_between_pairs() -> None:
    """A GPU that throttles unseen by 10 % in the second half of the pairs does so on both sides, and cancels."""

    def sides(pair: int, head: float) -> tuple[WorkerSamples, WorkerSamples]:
        slowed = 1.1 if pair >= MOST // 2 else 1.0
        return examples.blocks(pair, *[head * slowed] * 4), examples.blocks(pair, *[slowed] * 4)

    for slower, outcome in ((1.0, Outcome.UNCHANGED), (1.05, Outcome.REGRESSED)):
        logs = np.random.default_rng(4).normal(math.log(slower), QUIET, MOST)
        found = judged(*(sides(pair, math.exp(log)) for pair, log in enumerate(logs.tolist())))
        assert found.outcome is outcome
        assert found.comparison.ratio == pytest.approx(slower, rel=2e-3)


# Blocks within a pair, in the order A B B A


def judged(*sides: tuple[WorkerSamples, WorkerSamples], name: str = "a") -> CaseVerdict:
    (found,) = judge_run(check(taken(sides, name)), Baseline()).cases
    return found


def taken(sides: tuple[tuple[WorkerSamples, WorkerSamples], ...], name: str) -> CaseRun:
    head, reference = zip(*sides, strict=True)
    return examples.compared(head=head, reference=reference, name=name)


def check(*cases: CaseRun) -> object:
    return examples.run_of(*cases, plan=examples.PLAN.model_copy(update={"pairs": MOST}))


BLOCKS = 8


def turns(pair: int) -> tuple[Floats, Floats]:
    """When head and reference take their blocks: in turns A B B A, and who is first changes every two pairs."""
    first, second = np.array([0, 3]), np.array([1, 2])
    starts = 4 * np.arange(BLOCKS // 2)
    sides = [np.ravel(starts[:, None] + own) for own in (first, second)]
    return (sides[0], sides[1]) if pair // 2 % 2 == 0 else (sides[1], sides[0])


def clocked(slowness: Callable[[Floats], Floats], slower: float = 1.0, pairs: int = MOST, seed: int = 0) -> CaseVerdict:
    """Blocks of 0.3 % noise, all of them as slow as the clock at their moment says, judged."""
    rng = np.random.default_rng(seed)

    def side(pair: int, when: Floats, factor: float) -> WorkerSamples:
        times = factor * slowness(when) * np.exp(rng.normal(0, 0.003, BLOCKS))
        return examples.blocks(pair, *times.tolist())

    return judged(
        *((side(pair, head, slower), side(pair, reference, 1.0)) for pair in range(pairs) for head, reference in [turns(pair)])
    )


CLOCKS: dict[str, Callable[[Floats], Floats]] = {
    "the first blocks are 12 % faster": lambda when: 1 - 0.12 * np.exp(-when / 3),
    "and slow down slowly": lambda when: 1 - 0.12 * np.exp(-when / 8),
    "a warm start": lambda when: 1 + 0.12 * np.exp(-when / 3),
    "a steady slide": lambda when: 1 + 0.01 * when,
    "a brake in the second half": lambda when: np.where(when >= BLOCKS, 1.1, 1.0),
}


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(("changes", "ratio"), [*(({"pairs": pairs}, 1.0) for pairs in (6, 8, MOST)), ({"slower": 1.04}, 1.04)])
def test_a_clock_that_moves(clock: str, changes: dict[str, Any], ratio: float) -> None:
    """A clock that settles, slides or is braked moves both sides alike: what is unchanged stays so, and 4 % are red, by 4 %."""
    found = clocked(CLOCKS[clock], **changes)
    assert found.outcome is (Outcome.UNCHANGED if ratio == 1 else Outcome.REGRESSED)
    assert found.comparison.ratio == pytest.approx(ratio, abs=2e-3)


@pytest.mark.parametrize("side", ["head", "reference"])
def test_throttled_blocks(side: str) -> None:
    """Blocks of one side that were slowed by 30 % and flagged so count nothing: no change, not even a small one."""
    rng = np.random.default_rng(6)

    def worker(pair: int, *, slowed: bool) -> WorkerSamples:
        times = np.exp(rng.normal(0, 0.003, BLOCKS))
        brake = range(BLOCKS // 2, BLOCKS) if slowed and pair >= 2 else ()
        times[list(brake)] *= 1.3
        return examples.blocks(pair, *times.tolist(), throttled=brake)

    found = judged(*((worker(p, slowed=side == "head"), worker(p, slowed=side == "reference")) for p in range(8)))
    assert found.outcome is Outcome.UNCHANGED
    assert found.dropped_blocks == 6 * BLOCKS // 2
    assert found.comparison.ratio == pytest.approx(1.0, abs=2e-3)


def test_single_samples_that_go_wrong() -> None:
    """A sample in ten that takes three times as long moves no median of a block, and no verdict."""
    rng = np.random.default_rng(8)

    def worker(pair: int, factor: float) -> WorkerSamples:
        samples = factor * np.exp(rng.normal(0, 0.005, (BLOCKS, 15))) * np.where(rng.random((BLOCKS, 15)) < 0.1, 3.0, 1.0)
        empty = examples.blocks(pair, *[1.0] * BLOCKS)
        blocks = (replace(block, samples_ms=tuple(own)) for block, own in zip(empty.blocks, samples.tolist(), strict=True))
        return replace(empty, blocks=tuple(blocks))

    for slower, outcome in ((1.0, Outcome.UNCHANGED), (1.04, Outcome.REGRESSED)):
        assert judged(*((worker(pair, slower), worker(pair, 1.0)) for pair in range(24))).outcome is outcome


# Whole checks through their records


def test_all_of_it_at_once() -> None:
    """A check of cases that each have their own noise is green, through records and all, and one slower case among them red."""
    rng = np.random.default_rng(9)
    shapes: dict[str, Noise] = {
        "stalls": stalls(0.0),
        "modes": lambda rng, pairs: rng.normal(0, 0.01, pairs) + 0.058 * rng.choice([-1, 0, 0, 0, 1], pairs),
        "launch": lambda rng, pairs: rng.choice([-1, 1], pairs) * rng.choice([0.08, 0.0, 0.1, 0.25, 0.09, 0.45], pairs),
        "quiet": lambda rng, pairs: rng.normal(0, QUIET, pairs),
        "slow": lambda rng, pairs: rng.normal(math.log(1.05), QUIET, pairs),
    }
    seen: Counter[tuple[str, Outcome]] = Counter()
    for _ in range(12):
        cases = [examples.compared(*np.exp(noise(rng, MOST)).tolist(), name=name) for name, noise in shapes.items()]
        seen.update((case.name, case.outcome) for case in judge_run(check(*cases), Baseline()).cases)
    assert seen[("slow", Outcome.REGRESSED)] == seen[("quiet", Outcome.UNCHANGED)] == 12
    assert not any(outcome not in NO_CHANGE for name, outcome in seen if name != "slow")


@pytest.mark.parametrize("step_us", [0.032, 0.1, 0.5])
@pytest.mark.parametrize(("slower", "outcome"), [(1.0, Outcome.UNCHANGED), (1.5, Outcome.REGRESSED)])
def test_a_coarse_clock(step_us: float, slower: float, outcome: Outcome) -> None:
    """Where a kernel of 5 µs is timed by a clock of such steps, most pairs tie, and every case still has its answer."""
    rng = np.random.default_rng(10)

    def blocks(pairs: int, time_us: float) -> Floats:
        times = time_us * (1 + rng.normal(0, QUIET, (pairs, 1)) + rng.normal(0, QUIET, (pairs, BLOCKS)))
        return np.asarray(np.round(times / step_us) * step_us)

    for _ in range(20):
        time_us = rng.uniform(5, 6)
        logs = np.median(np.log(blocks(MOST, time_us * slower) / blocks(MOST, time_us)), axis=1)
        assert outcomes(logs.tolist()) == {"0": outcome}
