"""Getting pairs ready on a GPU, where whatever is not timed happens at once: no trick changes what is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.survey import survey
from ratchet.core.bench.turns import order_of_pair
from ratchet.core.judge.rule import Rule
from tests.fake_workers import (
    SIDES,
    Machine,
    duet_of,
    hosts_end,  # noqa: F401  a fixture
    measured,
    pairs,
    plan,
)

CASE = "adds/small"
NAMES = (CASE, "adds/large", "scale/small")


OFF = {name: replace(ALL, **{name: False}) for name in vars(ALL)}
CHOICES = {"all": ALL, **OFF, "none": Tricks(**dict.fromkeys(vars(ALL), False))}


@pytest.mark.parametrize("tricks", CHOICES.values(), ids=CHOICES)
def test_no_trick_changes_what_is_measured(tricks: Tricks) -> None:
    """With any of them off, or all, the same pairs of the same cases are measured, in the order of sides that was drawn."""
    machine = Machine(left_changed=("grad_enabled (torch settings)",))
    duet = duet_of(machine, plan(8, gpu=True), tricks=tricks)
    survey(duet.workers, dict.fromkeys(SIDES, NAMES), identify=True, lanes=tricks.lanes(16, 2))
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


@pytest.mark.parametrize(("gpu", "is_spent", "processes"), [(False, False, 3), (True, False, 1), (True, True, 3)])
def test_cases_of_a_pair_in_one_process(gpu: bool, is_spent: bool, processes: int) -> None:
    """On the CPU each case has a process of its own. On a GPU one takes all of a pair, as long as it can be restored."""
    machine = Machine(is_spent=is_spent)
    measured(duet_of(machine, plan(gpu=gpu), sides=("head",)), NAMES, Rule((4,)))
    assert (len(machine.forks), machine.alive) == (processes * 4, 0)


def test_a_case_that_times_its_own_code_is_built_with_nothing_beside_it() -> None:
    """A kernel that chose its configuration beside other work chooses again alone, and both sides never build it at once."""
    machine = Machine(times_itself=True)
    duet = duet_of(machine, plan(gpu=True))
    survey(duet.workers, {side: [CASE] for side in SIDES}, identify=False, lanes=2)
    machine.most_building = 0
    assert pairs(measured(duet, [CASE], Rule((4,)))[CASE]) == list(range(4))
    assert machine.most_building == 1
