"""The turns of a pair: how many blocks and samples it takes, on which cores, and planted slowdowns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.core.bench.turns import Planted
from ratchet.core.judge.rule import Rule
from ratchet.core.records.run import CaseRun, Side
from tests.fake_workers import (
    SIDES,
    Machine,
    duet_of,
    hosts_end,  # noqa: F401  a fixture
    measured,
    plan,
)

CASE = "adds/small"


@pytest.fixture
def any_time_may_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the calls of these workers, nor takes their time for the length of a block."""
    monkeypatch.setattr("ratchet.core.bench.turns.problem_of", lambda *_: None)
    monkeypatch.setattr("ratchet.core.bench.turns.BLOCK_WALL", 1e9)


def timed(machine: Machine, count: int = 4, **more: Any) -> CaseRun:
    options = {name: more.pop(name) for name in ("planted", "host_cores") if name in more}
    return measured(duet_of(machine, plan(count, **more), **options), [CASE], Rule((count,)))[CASE]


@pytest.mark.parametrize(
    ("clock", "waits", "most", "blocks"),
    [
        ("event", (), 8, 4),
        ("event", ("head",), 8, 8),
        ("event", ("reference",), 8, 8),
        ("event", (), 10, 6),  # half of them, but each order as often as the other
        ("event", (), 4, 4),
        ("event", (), 2, 2),
        ("cpu", (), 8, 8),
    ],
)
def test_half_of_the_blocks_suffice_on_a_gpu(clock: str, waits: tuple[Side, ...], most: int, blocks: int) -> None:
    """Both sides of a pair have as many blocks; one that waits for the host, and the CPU, take all of the plan."""
    case = timed(Machine(clock=clock, waits_for_host=lambda side: side in waits), blocks=most)
    assert {len(worker.blocks) for worker in (*case.head, *case.reference)} == {blocks}


@pytest.mark.parametrize(("call_ms", "samples", "blocks"), [(0.01, 30, 8), (40.0, 3, 8), (70.0, 2, 8), (200.0, 1, 4)])
@pytest.mark.usefixtures("any_time_may_be_true")
def test_long_calls_on_the_cpu_take_fewer_samples(call_ms: float, samples: int, blocks: int) -> None:
    """One call that takes longer than a block should is a block, with no untimed one before it; half of the blocks suffice then.

    Shorter calls come in blocks of these samples or one more, as it is drawn, on both sides alike.
    """
    machine = Machine(call_ms=lambda *_: call_ms)
    case = timed(machine, blocks=8)
    head, reference = ([[len(block.samples_ms) for block in one.blocks] for one in of] for of in (case.head, case.reference))
    assert head == reference
    assert {len(one) for one in head} == {blocks}
    assert {length for one in head for length in one} == ({samples, samples + 1} if samples > 1 else {samples})
    asked = [event.detail for event in machine.happened("timed")]
    assert {words["untimed"] for words in asked if words["samples"] >= samples} == {samples > 1}


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize(("calls", "every"), [(3, 4), (3, 2), (7, 4), (30, 31)])
@pytest.mark.usefixtures("any_time_may_be_true")
def test_a_call_that_is_slow_now_and_then_is_seen(calls: int, every: int, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share among the timed calls is about what it is among all, however long blocks are and whichever call comes first."""
    monkeypatch.setattr("ratchet.core.bench.turns.WARM_S", -1)
    machine = Machine()
    made: dict[tuple[Side, int], int] = {}

    def samples(side: Side, times: Sequence[float]) -> Sequence[float]:
        event = machine.events[-1]
        began = made.get((side, event.pair), first)
        numbers = range(began, began + event.detail["untimed"] + len(times))
        made[side, event.pair] = numbers.stop
        return [0.5 if number % every == 0 else 0.1 for number in numbers[event.detail["untimed"] :]]

    machine.samples = samples
    case = timed(machine, 20, blocks=8, block_ms=0.1 * calls)
    taken = [sample for worker in case.head for block in worker.blocks for sample in block.samples_ms]
    assert taken.count(0.5) / len(taken) == pytest.approx(1 / every, rel=0.25)


class TwoByTwo:
    """A host with as many cores as pairs need."""

    chosen = 0

    def idlest(self) -> tuple[int, int]:
        self.chosen += 2
        return self.chosen, self.chosen + 1


def test_both_sides_are_timed_on_the_same_two_cores() -> None:
    """They move to two cores between building and timing, and back before the check; cases that are not named move nowhere."""
    for names in ({CASE}, {"another/case"}):
        machine, cores = Machine(), TwoByTwo()
        duet: Any = duet_of(machine, host_cores=cores)
        duet.on_two_cores = names
        measured(duet, [CASE], Rule((2,)))
        for pair in range(2):
            moves = [(event.side, event.detail) for event in machine.happened("moved") if event.pair == pair]
            two = [2 * pair + 2, 2 * pair + 3]
            assert sorted(moves) == (sorted((side, to) for side in SIDES for to in (two, [])) if CASE in names else [])
            kinds = list(dict.fromkeys(event.what for event in machine.events if event.pair == pair))
            assert kinds == ["built", *(["moved"] if CASE in names else []), "timed", "checked", "ended"]


@pytest.mark.usefixtures("any_time_may_be_true")
def test_a_planted_slowdown_is_work() -> None:
    """Each turn gives one sample; the head's holds four calls more in twenty, each of the length that the worker reports."""
    machine = Machine()
    case = timed(machine, planted={CASE: Planted(20, 4), "another": Planted(20, 20)})
    turns = 4 * plan().blocks
    asked = [(event.side, event.detail["samples"]) for event in machine.happened("timed")]
    assert [asked.count(one) for one in (("head", 24), ("reference", 20), ("head", 20), ("reference", 24))] == [
        turns,
        turns,
        0,
        0,
    ]
    assert {block.samples_ms for worker in case.reference for block in worker.blocks} == {(1e-4,)}
    assert {block.samples_ms for worker in case.head for block in worker.blocks} == {(math.fsum([1e-4] * 24) / 20,)}
