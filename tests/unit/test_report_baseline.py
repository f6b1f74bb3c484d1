"""The baseline file, and what moved in it, as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ratchet.common.baseline_steps import BaselineUpdate, Person, Uncertainty, accept, continued, rename
from ratchet.common.baseline_text import (
    accepted_fields,
    accepted_lines,
    baseline_lines,
    history_lines,
    recorded_fields,
    recorded_lines,
    renamed_lines,
    verified_lines,
)
from ratchet.common.baseline_update import record
from ratchet.core.judge.chain import ChainPlace, problems
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, FingerprintBaseline, Step, StepKind
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import Outcome
from tests import examples
from tests.history_examples import check_of, commit, gone, new, timed

NAME = "attention/training_512"
FILE = "results/baseline.json"
KEY = examples.FINGERPRINT.key
PERSON = Person("A Test <test@localhost>", "masked rows were wrong", examples.STARTED + timedelta(days=5))
OTHER = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)
FIRST = check_of(timed(1.0), timed(1.0, "copy/a"), day=0, head=1)
FASTER = [check_of(timed(ratio), day=day, head=2, reference=1) for day, ratio in ((1, 0.8), (2, 0.82))]
SLOWER = check_of(timed(1.1), timed(1.2, "copy/a"), day=4, head=4, reference=2)


def recorded(baseline: Baseline, *runs: RunRecord) -> tuple[Baseline, list[str]]:
    done = record(baseline, [(run, judge_run(run, baseline)) for run in runs])
    return done.baseline, recorded_lines(done, FILE)


def eventful() -> Baseline:
    """Two cases with nearly every kind of step."""
    stored, _ = recorded(Baseline(), FIRST, *FASTER)
    stored, _ = accept(stored, SLOWER, judge_run(SLOWER, stored), [NAME, "copy/a"], PERSON)
    stored, _ = rename(stored, "copy/a", "copy/b", commit(5), PERSON)
    other = examples.WORKLOAD.model_copy(update={"bytes": 1e6})
    stored, _ = recorded(
        stored,
        check_of(timed(0.9), gone("copy/b"), day=6, head=6, reference=4),
        check_of(new("copy/b"), day=7, head=7),
        check_of(new("copy/b", workload=other), day=8, head=8),
    )
    return stored


def texts() -> dict[str, list[str]]:
    """Everything that is said of a baseline and its moves: what was done → the lines."""
    stored, entered = recorded(Baseline(), FIRST)
    waiting, waits = recorded(stored, FASTER[0], check_of(timed(1.0, "copy/a"), day=1, head=2, reference=1))
    moved_on, improved = recorded(waiting, FASTER[1])
    other = examples.WORKLOAD.model_copy(update={"flops": 1.0})
    warm = {side: examples.WORKLOAD.model_copy(update={"cache": "warm"}) for side in ("workload", "reference_workload")}
    goings = (gone(), new("attention/train"), timed(1.2, "gemm/slow"), new("copy/a", workload=other))
    wide = new(head=tuple(examples.blocks(pair, 1.0 + pair % 2) for pair in range(12)))
    identical = examples.compared(identity={"head": "a", "reference": "a"}, reference_workload=examples.WORKLOAD)
    elsewhere = check_of(timed(1.0), day=0, head=1, environment=examples.ENVIRONMENT.model_copy(update={"fingerprint": OTHER}))
    unknown = check_of(*SLOWER.cases, new("gemm/2k"), day=4, head=4, reference=2)
    _, accepted = accept(moved_on, unknown, judge_run(unknown, moved_on), [NAME, "copy/a", "gemm/2k"], PERSON)
    renamed, once = rename(stored, NAME, "attention/train", commit(2), PERSON)
    _, again = rename(renamed, "attention/train", "copy/a", commit(2), PERSON)
    edited = examples.stored({"copy/a": moved_on.entries(examples.FINGERPRINT)["copy/a"].model_copy(update={"days": ()})})
    empty = Baseline(fingerprints={OTHER.key: FingerprintBaseline(fingerprint=OTHER, configs={})})
    return {
        "show: nothing stored": baseline_lines(Baseline(), FILE),
        "history: nothing stored": history_lines(Baseline(), FILE),
        "verify: nothing stored": verified_lines(Baseline(), FILE, [], []),
        "show: one case": baseline_lines(examples.baseline(), FILE),
        "show: a CPU without cases": baseline_lines(empty, FILE),
        "show: nearly every kind of step": baseline_lines(eventful(), FILE),
        "history: nearly every kind of step": history_lines(eventful(), FILE),
        "history: one case": history_lines(eventful(), FILE, "copy/b"),
        "history: no such case": history_lines(eventful(), FILE, "copy/c"),
        "record: entered": entered,
        "record: waiting": waits,
        "record: improved": improved,
        "record: refuted": recorded(waiting, check_of(timed(1.0), day=3, head=2, reference=1))[1],
        "record: nothing": recorded(stored, check_of(day=3, head=2))[1],
        "record: removed, perhaps renamed, changed, left out": recorded(stored, check_of(*goings, day=1, head=2))[1],
        "record: an uncertain figure": recorded(Baseline(), check_of(wide, day=0, head=1))[1],
        "record: an identical case": recorded(Baseline(), check_of(identical, day=0, head=1))[1],
        "record: other settings": recorded(stored, check_of(timed(1.0, **warm), day=1, head=2, reference=1))[1],
        "record: several machines": recorded(Baseline(), check_of(timed(1.0), day=0, head=1), elsewhere)[1],
        "accept": accepted_lines(accepted, FILE),
        "rename": renamed_lines(once, NAME, "attention/train", FILE),
        "rename over another case": renamed_lines(again, "attention/train", "copy/a", FILE),
        "verify": verified_lines(moved_on, FILE, [], ["x"]),
        "verify: an edited entry": verified_lines(edited, FILE, problems(edited), []),
    }


def test_lines(golden: Callable[[str, str], None]) -> None:
    """Each command says what is stored, what moved, by how much, who and why, and what to do next."""
    golden("baseline.txt", "\n".join(f"======== {what}\n" + "\n".join(lines) + "\n" for what, lines in texts().items()))


def test_accepted_for_machines() -> None:
    """As JSON: the reason of each move, and the time before it where there was one."""
    stored, _ = recorded(Baseline(), FIRST, *FASTER)
    unknown = check_of(*SLOWER.cases, new("gemm/2k"), day=4, head=4, reference=2)
    _, moved = accept(stored, unknown, judge_run(unknown, stored), [NAME, "copy/a", "gemm/2k"], PERSON)
    fields = accepted_fields(moved, FILE)
    assert [move["step"]["reason"] for move in fields["accepted"]] == [PERSON.reason] * 3
    assert [move["before_ms"] is None for move in fields["accepted"]] == [False, False, True]


def test_recorded_for_machines() -> None:
    """As JSON: every move with its case, machine, kind, times and ratio."""
    stored, _ = recorded(Baseline(), FIRST)
    done = record(stored, [(run, judge_run(run, stored)) for run in FASTER])
    fields = recorded_fields(done, FILE)
    assert [(move["kind"], move["git_commit"], bool(move["candidate"])) for move in fields["moves"]] == [
        ("candidate", commit(1), True),
        ("improved", commit(2), False),
    ]
    assert fields["moves"][1]["ratio"] == done.moves[1].after.steps[-1].ratio
    assert (fields["path"], fields["unchanged"], fields["left_out"]) == (FILE, (), {})


def test_hostile_text() -> None:
    """A name, a person or a reason cannot break out of its line, nor give an order to the runner that prints it."""
    evil = f"::error::x ##[group] {examples.HOSTILE}"
    entry = examples.first_entry(evil)
    step = Step(kind=StepKind.RENAMED, commit=commit(2), timestamp=examples.STARTED, by=evil, reason=evil, previous_name=evil)
    stored = examples.stored({evil: continued(entry, step, ChainPlace(KEY, evil))})
    run = check_of(timed(1.2, evil), gone("a/b"), new(evil), day=1, head=2)
    moved = record(stored, [(run, judge_run(run, stored))])
    _, accepted = accept(stored, run, judge_run(run, stored), [evil], Person(evil, evil, PERSON.now))
    _, renamed = rename(examples.stored({evil: entry}), evil, "a/b", commit(2), PERSON)
    for lines in (
        baseline_lines(stored, evil),
        history_lines(stored, evil),
        history_lines(stored, evil, "::warning::"),
        verified_lines(stored, evil, [evil], [evil]),
        recorded_lines(moved, evil),
        accepted_lines(accepted, evil),
        renamed_lines(renamed, evil, evil, evil),
    ):
        for line in lines:
            assert line.isprintable()
            assert "##[" not in line
            assert not line.lstrip().startswith("::")


def test_how_quiet_is_quiet_enough() -> None:
    """A figure that is too uncertain is told with what it reaches and what it may, and how many processes may do."""
    done = BaselineUpdate(Baseline(), (), (), {NAME: Outcome.NEW}, {}, {NAME: Uncertainty(0.06, 0.03, 8)})
    line = recorded_lines(done, FILE)[-1]
    assert "reaches 6.0 % above its median; to enter, it may reach 3 %, the gate" in line
    assert f"`ratchet run {NAME} --pairs 32`" in line
    assert recorded_fields(done, FILE)["uncertain"] == {NAME: {"above_median": 0.06, "limit": 0.03}}
