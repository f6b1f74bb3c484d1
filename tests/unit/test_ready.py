"""Getting pairs ready on a GPU, where whatever is not timed happens at once: no trick changes what is measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.survey import survey
from ratchet.core.bench.turns import order_of_pair
from ratchet.core.judge.rule import Rule
from ratchet.core.records.run import Side
from tests.fake_workers import (
    SAID,
    SIDES,
    Fault,
    Machine,
    duet_of,
    hosts_end,  # noqa: F401  a fixture
    measured,
    pairs,
    plan,
)

CASE = "adds/small"
NAMES = (CASE, "adds/large", "scale/small")


def ready(machine: Machine, names: tuple[str, ...] = (CASE,), count: int = 8, **more: Any) -> dict[str, Any]:
    """Cases on a GPU that has room for four pairs at a time."""
    cases = measured(duet_of(machine, plan(count, gpu=True), together=4, **more), names, Rule((count,)))
    assert machine.alive == 0
    return cases


OFF = {name: replace(ALL, **{name: False}) for name in vars(ALL)}
CHOICES = {"all": ALL, **OFF, "none": Tricks(**dict.fromkeys(vars(ALL), False))}


@pytest.mark.parametrize("tricks", CHOICES.values(), ids=CHOICES)
def test_no_trick_changes_what_is_measured(tricks: Tricks) -> None:
    """With any of them off, or all, the same pairs of the same cases are measured, in the order of sides that was drawn."""
    machine = Machine(left_changed=("grad_enabled (torch settings)",))
    duet = duet_of(machine, plan(8, gpu=True), tricks=tricks)
    survey(duet.workers, dict.fromkeys(SIDES, NAMES), identify=True, lanes=tricks.lanes(16, 2))
    duet.ready.together = tricks.pairs_together([1], 100, 16)
    duet.workers.one_queue = True
    machine.forks.clear()
    for name, case in measured(duet, NAMES, Rule((8,))).items():
        assert pairs(case) == pairs(case, "reference") == list(range(8))
        for pair, (head, reference) in enumerate(zip(case.head, case.reference, strict=True)):
            forks, times = order_of_pair(plan().order_seed, name, pair)
            assert (head.started_first, reference.started_first) == (forks, not forks)
            first = next(event for event in machine.happened("timed") if (event.case, event.pair) == (name, pair))
            assert first.side == ("head" if times else "reference")
    assert machine.alive == 0
    assert {note.partition(" ")[0] for note in duet.workers.notes} == set(NAMES)
    assert set(machine.forks) == {tricks.one_queue}
    assert len(machine.forks) == 2 * 8 * (1 if tricks.keep_workers else len(NAMES))


@pytest.mark.parametrize(
    ("need_gib", "free_gib", "cores", "together"),
    [
        ((5, 9), 140, 16, 4),
        ((5, 9), 140, 8, 2),
        ((5, 9), 140, 2, 1),
        ((5, 30), 140, 64, 2),
        ((5, 100), 140, 64, 1),
        ((), 140, 64, 1),
        ((5,), None, 64, 1),
    ],
)
def test_pairs_get_ready_together_as_far_as_memory_and_cores_allow(
    need_gib: tuple[int, ...], free_gib: int | None, cores: int, together: int
) -> None:
    """Half of the free memory holds the largest case of every pair; four cores a pair; on a CPU each is alone."""
    free = None if free_gib is None else free_gib << 30
    assert ALL.pairs_together([gib << 30 for gib in need_gib], free, cores) == together


def test_workers_of_several_pairs_get_ready_at_once_and_wait_for_their_turn() -> None:
    """Timing never overlaps: all blocks of a pair come before those of the next; no process ends before the last was timed."""
    machine = Machine()
    ready(machine)
    steps = [
        [event.what for event in machine.happened("built", "timed", "ended") if event.pair in of]
        for of in (range(4), range(4, 8))
    ]
    assert [[what for what, _ in groupby(of)] for of in steps] == [["built", "timed", "ended"]] * 2
    of_pairs = [event.pair for event in machine.happened("timed")]
    assert of_pairs == sorted(of_pairs)
    assert machine.most_building > 2


def test_all_workers_build_their_next_case_before_one_of_them_times_it() -> None:
    """Processes of four pairs do so side by side, for the second case as for the first; each pair has its own order of cases."""
    machine = Machine()
    cases = ready(machine, NAMES, 4)
    assert [pairs(case, side) for case in cases.values() for side in SIDES] == [list(range(4))] * 6
    assert [what for what, _ in groupby(event.what for event in machine.happened("built", "timed"))] == ["built", "timed"] * 3
    assert len(machine.forks) == 8


@pytest.mark.parametrize(("gpu", "is_spent", "processes"), [(False, False, 3), (True, False, 1), (True, True, 3)])
def test_cases_of_a_pair_in_one_process(gpu: bool, is_spent: bool, processes: int) -> None:
    """On the CPU each case has a process of its own. On a GPU one takes all of a pair, as long as it can be restored."""
    machine = Machine(is_spent=is_spent)
    measured(duet_of(machine, plan(gpu=gpu), sides=("head",)), NAMES, Rule((4,)))
    assert (len(machine.forks), machine.alive) == (processes * 4, 0)


def test_what_is_lost_beside_other_pairs_counts_for_no_try() -> None:
    """Where there is no memory to get several pairs ready, a case gets ready alone from then on, and has all its repeats."""

    def fault(side: Side, pair: int, tries: int) -> Fault | None:
        return "no memory" if (side, tries) == ("head", 1) and pair < 4 else "killed" if (pair, tries) == (5, 1) else None

    case = ready(Machine(fault))[CASE]
    assert pairs(case) == pairs(case, "reference") == list(range(8))
    lost = [(one.pair, one.how) for one in case.lost]
    assert lost[:4] == [(pair, SAID["no memory"]) for pair in range(4)]
    assert {pair for pair, _ in lost[4:]} == {5}


def test_a_side_that_failed_gets_ready_no_more() -> None:
    """A reference that raises in its first pair is built in no pair of the next ones, and the head goes on alone."""
    machine = Machine(lambda at, *_: "raises" if at == "reference" else None)
    assert pairs(ready(machine)[CASE]) == list(range(8))
    assert {event.pair for event in machine.happened("built") if event.side == "reference"} <= {0, 1, 2, 3}


def test_a_case_that_times_its_own_code_is_built_with_nothing_beside_it() -> None:
    """A kernel that chose its configuration beside other work chooses again alone, and both sides never build it at once."""
    machine = Machine(times_itself=True)
    duet = duet_of(machine, plan(gpu=True), together=4)
    survey(duet.workers, {side: [CASE] for side in SIDES}, identify=False, lanes=2)
    machine.most_building = 0
    assert pairs(measured(duet, [CASE], Rule((4,)))[CASE]) == list(range(4))
    assert machine.most_building == 1
