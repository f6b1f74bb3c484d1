"""The baseline file, and what moved in it, as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ratchet.core.judge.baseline.chain import ChainPlace, continued, problems
from ratchet.core.judge.baseline.steps import Person, accept, rename
from ratchet.core.judge.baseline.update import record
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, FingerprintBaseline, Step, StepKind
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import RunRecord
from ratchet.core.report.baseline import (
    accepted_fields,
    accepted_lines,
    baseline_lines,
    history_lines,
    recorded_fields,
    recorded_lines,
    renamed_lines,
    verified_lines,
)
from tests import examples
from tests.history_examples import check_of, commit, gone, new, timed

NAME = "attention/training_512"
FILE = "results/baseline.json"
KEY = examples.FINGERPRINT.key
MACHINE = f"NVIDIA H200 (driver 580.95.05, CUDA 13.0, torch 2.9.1+cu130) [{KEY}]"
PERSON = Person("A Test <test@localhost>", "masked rows were wrong", examples.STARTED + timedelta(days=5))
OTHER = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)
FIRST = check_of(timed(1.0), timed(1.0, "copy/a"), day=0, head=1)
FASTER = [check_of(timed(ratio), day=day, head=2, reference=1) for day, ratio in ((1, 0.8), (2, 0.82))]
SLOWER = check_of(timed(1.1), timed(1.2, "copy/a"), day=4, head=4, reference=2)


def recorded(baseline: Baseline, *runs: RunRecord) -> tuple[Baseline, list[str]]:
    done = record(baseline, [(run, judge_run(run, baseline)) for run in runs])
    return done.baseline, recorded_lines(done, FILE)


def test_nothing_stored() -> None:
    """An empty baseline says which commands fill it."""
    said = [f"{FILE}: no baseline yet. Measure with `ratchet check`, then `ratchet baseline record`."]
    assert baseline_lines(Baseline(), FILE) == history_lines(Baseline(), FILE) == verified_lines(Baseline(), FILE, [], []) == said


def test_lines() -> None:
    """Each machine has a heading with its software, each case a line with time, interval, commit, day and its last step."""
    assert baseline_lines(examples.baseline(), "x") == [
        MACHINE,
        "  attention/training_512  53.00 µs  [51.20 µs, 54.80 µs]  9e8d7c6b5a  2026-03-14  1 step, first 2026-03-14",
    ]


def test_a_cpu_without_cases() -> None:
    """A machine without a GPU is named by its CPU, and an empty part is no error."""
    stored = Baseline(fingerprints={OTHER.key: FingerprintBaseline(fingerprint=OTHER, configs={})})
    assert baseline_lines(stored, "x") == [f"AMD EPYC 9654 (torch 2.9.1+cpu) [{OTHER.key}]"]


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


def test_eventful_cases(golden: Callable[[str, str], None]) -> None:
    """A case with a commit that waits for a second measurement says which, and by how much."""
    golden("baseline_show.txt", "\n".join([*baseline_lines(eventful(), "x"), ""]))


def test_history(golden: Callable[[str, str], None]) -> None:
    """The chain has a line a step: date, kind, commit, time, by how much, who and why; then what waits."""
    lines = history_lines(eventful(), "x")
    golden("baseline_history.txt", "\n".join([*lines, ""]))
    second = lines.index("  copy/b")
    assert history_lines(eventful(), "x", "copy/b") == [MACHINE, *lines[second:]]
    assert history_lines(eventful(), "x", NAME) == lines[:second]
    assert history_lines(eventful(), "x", "copy/c") == ["x: no case is called copy/c. See `ratchet baseline show`."]


def test_recorded() -> None:
    """Recording says what entered, moved and waits, by how much, and what to do about what waits."""
    stored, entered = recorded(Baseline(), FIRST)
    assert entered == [
        f"{FILE}: 2 entered.",
        "  entered  attention/training_512  1.000 ms  at 0001000100",
        "  entered  copy/a                  1.000 ms  at 0001000100",
    ]
    waiting, waits = recorded(stored, FASTER[0], check_of(timed(1.0, "copy/a"), day=1, head=2, reference=1))
    assert waits == [
        f"{FILE}: 1 waiting, 1 as before.",
        "  waiting  attention/training_512  −20.00 % [−20.04, −19.96]  at 0002000200",
        "Cases that are waiting were proven faster once. Run `ratchet check --against-baseline` again, and record that run too.",
    ]
    assert recorded(waiting, FASTER[1])[1] == [
        f"{FILE}: 1 improved.",
        "  improved  attention/training_512  1.000 ms → 820.0 µs  −19.01 %  at 0002000200, in two measurements",
    ]
    assert recorded(waiting, check_of(timed(1.0), day=3, head=2, reference=1))[1] == [
        f"{FILE}: 1 refuted.",
        "  refuted  attention/training_512  0002000200 is not shown to be faster a second time",
    ]
    assert recorded(stored, check_of(day=3, head=2))[1] == [f"{FILE}: nothing to enter."]


def test_recorded_comings_and_goings() -> None:
    """Removed, renamed, changed and left out cases are named, with what to do."""
    stored, _ = recorded(Baseline(), FIRST)
    other = examples.WORKLOAD.model_copy(update={"flops": 1.0})
    cases = (gone(), new("attention/train"), timed(1.2, "gemm/slow"), new("copy/a", workload=other))
    assert recorded(stored, check_of(*cases, day=1, head=2))[1][:4] == [
        f"{FILE}: 1 removed, 1 entered, 1 changed, 1 not entered (gemm/slow regressed).",
        "  removed  attention/training_512            at 0002000200",
        "  entered  attention/train         1.000 ms  at 0002000200",
        "  changed  copy/a                  1.000 ms  at 0002000200; starts again, flops: 34360000000.0 → 1.0",
    ]
    hint = f"attention/train does the work of {NAME}, which is gone. If it is the same case, "
    command = f"run `ratchet baseline rename {NAME} attention/train`."
    assert recorded(stored, check_of(*cases, day=1, head=2))[1][4:] == [hint + command]


def test_an_uncertain_figure_waits() -> None:
    """A case whose own interval is wider than the gate is not entered, and the lines say why."""
    case = new(head=tuple(examples.blocks(pair, 1.0 + pair % 2) for pair in range(12)))
    assert recorded(Baseline(), check_of(case, day=0, head=1))[1] == [
        f"{FILE}: 1 not entered ({NAME} new).",
        "A new case enters once its interval is narrower than the gate. Measure it again on a quieter machine.",
    ]


def test_an_identical_case_has_no_time_to_record() -> None:
    """A first baseline takes a run that timed its cases; the line says which command makes one."""
    case = examples.compared(identity={"head": "a", "reference": "a"}, reference_workload=examples.WORKLOAD)
    assert recorded(Baseline(), check_of(case, day=0, head=1))[1] == [
        f"{FILE}: 1 not entered ({NAME} identical).",
        "A case that is identical was not timed. Time it with `ratchet run`, then record again.",
    ]


def test_recorded_with_other_settings() -> None:
    """The baseline commit measured otherwise says what differs, and how to go on."""
    warm = examples.WORKLOAD.model_copy(update={"cache": "warm"})
    stored, _ = recorded(Baseline(), FIRST)
    case = timed(1.0, workload=warm, reference_workload=warm)
    assert recorded(stored, check_of(case, day=1, head=2, reference=1))[1] == [
        f"{FILE}: 1 differing.",
        "  differing  attention/training_512  cache: cold → warm",
        "Cases that differ were measured with other settings than their baseline, at the same commit. Measure with "
        "the same settings, or start again with `ratchet baseline accept`.",
    ]


def test_recorded_on_several_machines() -> None:
    """Where the runs come from several machines, each line says from which."""
    elsewhere = check_of(timed(1.0), day=0, head=1, environment=examples.ENVIRONMENT.model_copy(update={"fingerprint": OTHER}))
    _, lines = recorded(Baseline(), check_of(timed(1.0), day=0, head=1), elsewhere)
    assert [line.rpartition(" ")[2] for line in lines[1:]] == [f"[{KEY}]", f"[{OTHER.key}]"]


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


def test_accepted() -> None:
    """Accepting says from where to where, by how much, against what, who and why."""
    stored, _ = recorded(Baseline(), FIRST, *FASTER)
    unknown = check_of(*SLOWER.cases, new("gemm/2k"), day=4, head=4, reference=2)
    _, moved = accept(stored, unknown, judge_run(unknown, stored), [NAME, "copy/a", "gemm/2k"], PERSON)
    why = "accepted by A Test <test@localhost>: masked rows were wrong"
    assert accepted_lines(moved, FILE) == [
        f"{NAME}: 820.0 µs → 1.100 ms (+10.00 % [+9.94, +10.06]), {why}",
        f"copy/a: 1.000 ms → 1.200 ms (+20.00 % [+19.94, +20.06] against 0002000200, which is not its baseline), {why}",
        f"gemm/2k: no baseline → 1.000 ms (not measured side by side), {why}",
        f"{FILE}: 3 moved. Commit the file, so that others see it.",
    ]
    fields = accepted_fields(moved, FILE)
    assert [move["step"]["reason"] for move in fields["accepted"]] == [PERSON.reason] * 3
    assert [move["before_ms"] is None for move in fields["accepted"]] == [False, False, True]


def test_renamed() -> None:
    """Renaming says how much history goes along, and what gave way to it."""
    stored, _ = recorded(Baseline(), FIRST)
    after, done = rename(stored, NAME, "attention/train", commit(2), PERSON)
    assert renamed_lines(done, NAME, "attention/train", FILE) == [
        f"{NAME} is now attention/train [{KEY}], with its 1 step.",
        f"{FILE}: 1 renamed. Commit the file together with the change of the name.",
    ]
    _, done = rename(after, "attention/train", "copy/a", commit(2), PERSON)
    (line, _) = renamed_lines(done, "attention/train", "copy/a", FILE)
    assert line.endswith(", with its 2 steps; it replaces 1.000 ms of 0001000100, which had that name.")


def test_verified() -> None:
    """What fits is counted; what does not has a line each, warnings too."""
    stored, _ = recorded(Baseline(), FIRST, *FASTER)
    assert verified_lines(stored, FILE, [], ["x"]) == [
        "Warning: x",
        f"{FILE}: 3 steps of 2 cases on 1 machine: no problems found.",
    ]
    entry = stored.entries(examples.FINGERPRINT)["copy/a"].model_copy(update={"days": ()})
    edited = examples.stored({"copy/a": entry})
    assert verified_lines(edited, FILE, problems(edited), []) == [
        f"copy/a [{KEY}]: its candidate, its days, its merges, its digest or its list of steps was edited. "
        "Undo the edit, or restore the file from git.",
        f"{FILE}: 1 problem in 1 step of 1 case on 1 machine.",
    ]


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
