"""Gates on what a check times besides calls, in real processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ratchet.common.baseline_steps import with_digest
from ratchet.core.judge.chain import ChainPlace
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import dumps, load
from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, LENIENT, Playground

GATES = 'gates = { compile_time = "20%", host_time = "20%" }\n'
COMPILES = ADDS.replace(
    "@benchmark",
    """COMPILED = {}
COMPILING_S = 0.2


@benchmark""",
).replace(
    "    def run():\n",
    """    def run():
        if not COMPILED:
            COMPILED["code"] = time.sleep(COMPILING_S)
""",
)
"""Its first call waits, as if it compiled something."""
SLOWER = COMPILES.replace("COMPILING_S = 0.2", "COMPILING_S = 0.35")
EDITED = COMPILES.replace("REPEAT = 40", "REPEAT = 20 + 20")


@pytest.mark.slow
def test_a_longer_first_use_fails_its_gate(make: Callable[..., Playground]) -> None:
    """What a process does once does not count as time, and is caught by the gate on it, with both figures and an interval."""
    play = make({"bench/adds.py": COMPILES}, {"bench/adds.py": SLOWER}, settings=GATES)
    done = play.check(*LENIENT)
    case = done.verdict("adds/small")
    assert (done.code, case.outcome) == (1, Outcome.FAILED)
    assert case.reason.startswith(
        "Its first use takes 350.0 ms more than its second one, as it compiles; in the reference 200.0 ms"
    )
    assert "past the gate of 20 % more" in case.reason
    assert "past the gate of 20 % more" in done.markdown


@pytest.mark.slow
def test_the_same_first_use_passes_and_is_kept(make: Callable[..., Playground]) -> None:
    """Code that takes as long passes; the figures stand in the record, those of the host only where a GPU could run ahead."""
    play = make({"bench/adds.py": COMPILES}, {"bench/adds.py": EDITED}, settings=GATES)
    done = play.check(*LENIENT)
    assert done.code == 0
    taken = done.case("adds/small").overheads
    assert list(taken) == ["compile_time"]
    assert {round(pair.head_ms / 10) for pair in taken["compile_time"]} == {20}


@pytest.mark.slow
def test_a_change_does_not_raise_its_own_gate(play: Playground) -> None:
    """Gates that follow the history are those of the reference's baseline; the head's file may say what it likes."""
    auto = ("--gate", "auto")
    play.check()
    assert play.ratchet("baseline", "record", "results/current.json").code == 0
    path = play.repo / "results/baseline.json"
    stored = load(path, Baseline)

    def commit_gate(gate: float) -> None:
        machine = next(iter(stored.fingerprints.values()))
        entries = {
            name: with_digest(entry.model_copy(update={"gate": gate}), ChainPlace(machine.fingerprint.key, name))
            for name, entry in machine.configs.items()
        }
        play.commit({"results/baseline.json": dumps(stored.with_entries(machine.fingerprint, entries))})

    commit_gate(0.02)
    commit_gate(0.9)
    done = play.check(*auto)
    assert done.run.policy.case_gates == {"adds/small": 0.02}
    assert "2 %, by case" in done.markdown


def test_nothing_more_is_timed_without_a_gate(play: Playground) -> None:
    """Gates that are off cost no time."""
    assert play.check().case("adds/small").overheads == {}
