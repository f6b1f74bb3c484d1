"""Steps that a person takes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ratchet.common.baseline_steps import Move, MoveKind, Person, accept, rename
from ratchet.common.baseline_update import record
from ratchet.core.errors import UsageError
from ratchet.core.judge.chain import problems
from ratchet.core.judge.verdict import judge_run, likely_renames
from ratchet.core.records.baseline import Baseline, BaselineEntry
from ratchet.core.records.environment import Fingerprint, PackageDifference
from ratchet.core.records.run import CaseRun, Failure, RunRecord
from tests import examples
from tests.history_examples import check_of, commit, gone, new, timed

NAME = "attention/training_512"
NOW = examples.STARTED + timedelta(days=9)
PERSON = Person("A Test <test@localhost>", "masked rows were wrong", NOW)
OTHER = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)


def recorded(baseline: Baseline, *runs: RunRecord) -> Baseline:
    return record(baseline, [(run, judge_run(run, baseline)) for run in runs]).baseline


def accepted(
    baseline: Baseline, run: RunRecord, *names: str, person: Person = PERSON
) -> tuple[dict[str, BaselineEntry], list[Move]]:
    after, moved = accept(baseline, run, judge_run(run, baseline), names or (NAME,), person)
    assert problems(after) == []
    return after.entries(examples.FINGERPRINT), moved


FIRST = recorded(Baseline(), check_of(timed(1.0), day=0, head=1))


def test_accept_moves_back() -> None:
    """A slower head becomes the baseline; who, why, when and by how much stay in the chain."""
    entries, (moved,) = accepted(FIRST, check_of(timed(1.1), day=1, head=2, reference=1))
    entry = entries[NAME]
    step = entry.steps[-1]
    assert (entry.git_commit, entry.median_ms) == (commit(2), pytest.approx(1.1, rel=2e-3))
    assert (step.kind, step.by, step.reason, step.timestamp) == ("accepted", PERSON.by, PERSON.reason, NOW)
    assert step.ratio == pytest.approx(1.1, rel=2e-3)
    assert step.predecessor == entry.steps[0].digest
    assert [each.reference for each in step.measurements] == [commit(1)]
    assert (moved.case, moved.kind) == (NAME, MoveKind.ACCEPTED)
    assert (moved.before, moved.after) == (FIRST.entries(examples.FINGERPRINT)[NAME], entry)


def test_accept_against_another_reference() -> None:
    """Measured against another commit, the step says so and claims no ratio to its predecessor."""
    entries, (moved,) = accepted(FIRST, check_of(timed(1.1), day=1, head=3, reference=2))
    step = entries[NAME].steps[-1]
    assert step.ratio is None
    assert [each.reference for each in step.measurements] == [commit(2)]
    assert moved.after == entries[NAME]


def test_accept_without_a_reference_side() -> None:
    """Where the reference could not be measured, the move is allowed and no comparison is claimed."""
    broken = (Failure(side="reference", stage="build", message="x"),)
    for case in (timed(1.1, reference=(), failures=broken), new()):
        step = accepted(FIRST, check_of(case, day=1, head=3, reference=1))[0][NAME].steps[-1]
        assert (step.ratio, step.measurements) == (None, ())


def test_accept_other_work() -> None:
    """Times of different work do not compare, so the step has no ratio."""
    warm = examples.WORKLOAD.model_copy(update={"cache": "warm"})
    case = timed(1.1, workload=warm, reference_workload=warm)
    entries, _ = accepted(FIRST, check_of(case, day=1, head=2, reference=1))
    assert entries[NAME].workload == warm
    assert entries[NAME].steps[-1].ratio is None
    assert accepted(FIRST, check_of(case, day=1, head=1, reference=0))[0][NAME].workload == warm


def test_accept_makes_a_first_step() -> None:
    """A case without a baseline, such as a new one that regressed at once, can be accepted into it."""
    entries, (moved,) = accepted(Baseline(), check_of(timed(1.2), day=1, head=2, reference=1))
    assert [step.predecessor for step in entries[NAME].steps] == [None]
    assert moved.before is None


def test_accept_ends_what_the_case_waited_for() -> None:
    """A case that was removed is there again, and none waits for a second measurement against the former baseline commit."""
    removed = recorded(FIRST, check_of(gone(), day=1, head=2, reference=1))
    assert not accepted(removed, check_of(new(), day=2, head=3))[0][NAME].removed
    waiting = recorded(FIRST, check_of(timed(0.8), day=1, head=2, reference=1))
    assert accepted(waiting, check_of(timed(1.1), day=2, head=3, reference=1))[0][NAME].candidate is None


def test_several_at_once_or_none() -> None:
    """Several cases move together, one named twice moves once, and one that cannot move keeps the others where they are."""
    run = check_of(timed(1.1), timed(1.1, "copy/a"), timed(1.1, "copy/hot", unfit="Hot."), day=1, head=2, reference=1)
    assert [each.case for each in accepted(FIRST, run, NAME, "copy/a", NAME)[1]] == [NAME, "copy/a"]
    with pytest.raises(UsageError, match="copy/hot gave no time that counts: Hot"):
        accepted(FIRST, run, NAME, "copy/hot")


AGAIN = "Fix that, measure again, then accept."
WRONG = (Failure(side="head", stage="check", message="wrong result"),)
UNTIMED = examples.compared(skipped="needs x", workload=None)
THROTTLED = timed(1.0, head=(examples.blocks(0, 1.0, throttled=[0]),))


@pytest.mark.parametrize(
    ("case", "commits", "said"),
    [
        (timed(1.0, failures=WRONG), (2, 1), f" gave no time that counts: Check: wrong result. {AGAIN}"),
        (timed(1.0, unfit="Hot."), (2, 1), f" gave no time that counts: Hot. {AGAIN}"),
        (gone(), (2, 1), f" gave no time that counts: The head no longer has this case. {AGAIN}"),
        (UNTIMED, (2, 1), f" gave no time that counts: Needs x. {AGAIN}"),
        (
            THROTTLED,
            (2, 1),
            " was not timed in this run: Fewer than three pairs were measured, too few for an interval: raise --pairs. "
            "There is nothing to accept.",
        ),
        (
            timed(1.0),
            (2, None),
            " was timed alone, so nobody knows by how much it would move. "
            f"Measure it with `ratchet check --against-baseline {NAME}`, then accept.",
        ),
        (timed(1.0), (1, 0), f": {commit(1)[:10]} is its baseline commit already. Nothing to accept."),
    ],
    ids=["failed", "unfit", "missing", "skipped", "all throttled", "timed alone", "the commit that is there"],
)
def test_what_cannot_be_accepted(case: CaseRun, commits: tuple[int, int | None], said: str) -> None:
    """A case that gave no time which counts, or would not move, is refused, with the reason and what to do."""
    with pytest.raises(UsageError) as caught:
        accepted(FIRST, check_of(case, day=1, head=commits[0], reference=commits[1]))
    assert str(caught.value) == f"{NAME}{said}"


def test_a_run_of_two_environments_moves_nothing() -> None:
    """Its head has the packages of an environment that no commit names."""
    run = check_of(timed(1.1), day=1, head=2, reference=1)
    apart = {"differs": (PackageDifference(name="triton", head="3.6.0", reference="3.5.1"),)}
    with pytest.raises(UsageError, match="two environments"):
        accepted(FIRST, run.model_copy(update={"environment": run.environment.model_copy(update=apart)}))


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_a_reason_is_needed(reason: str | None) -> None:
    """Nothing moves back without a reason."""
    with pytest.raises(UsageError) as caught:
        accepted(FIRST, check_of(timed(1.1), day=1, head=2, reference=1), person=Person("x", reason, NOW))
    assert str(caught.value) == "A baseline moves back only for a reason, and there is none. Give one with --reason."


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("training_512", "Did you mean attention/training_512?"),
        ("attention/traning_512", "Did you mean attention/training_512?"),
        ("attention/*", "Did you mean attention/training_512?"),
        ("x", "Did you mean a/x or b/x or c/x?"),
        ("zzz", ""),
    ],
)
def test_an_unknown_case_is_refused(name: str, meant: str) -> None:
    """Only full names move a baseline; a refusal names the first three that were perhaps meant."""
    others = [timed(1.0, f"{benchmark}/x") for benchmark in "abcd"]
    with pytest.raises(UsageError) as caught:
        accepted(FIRST, check_of(timed(1.1), *others, day=1, head=2, reference=1), name)
    assert caught.value.message == f"The run has no case {name}. {meant}".strip()
    assert caught.value.hint == "Name each as benchmark/config, without patterns."


def test_rename_takes_the_chain_along() -> None:
    """The whole entry goes on under the new name on every machine that has it, with a step that says what it was, who and why."""
    elsewhere = examples.ENVIRONMENT.model_copy(update={"fingerprint": OTHER})
    both = recorded(FIRST, check_of(timed(1.0), day=0, head=3, environment=elsewhere))
    without = OTHER.model_copy(update={"cpu_threads": 4})
    parts = examples.stored({"copy/a": examples.first_entry("copy/a", without)}, without).fingerprints
    after, done = rename(Baseline(fingerprints=parts | both.fingerprints), NAME, "attention/train", commit(5), PERSON)
    assert problems(after) == []
    assert sorted(each.machine for each in done) == sorted([examples.FINGERPRINT.key, OTHER.key])
    for each in done:
        entry, before = after.fingerprints[each.machine].configs["attention/train"], both.fingerprints[each.machine].configs[NAME]
        assert list(after.fingerprints[each.machine].configs) == ["attention/train"]
        assert (each.case, each.kind, each.after) == ("attention/train", MoveKind.RENAMED, entry)
        assert (entry.steps[:-1], entry.days, entry.git_commit) == (before.steps, before.days, before.git_commit)
        step = entry.steps[-1]
        assert (step.previous_name, step.commit, step.timestamp) == (NAME, commit(5), NOW)
        assert (step.by, step.reason) == (PERSON.by, PERSON.reason)
    assert after.fingerprints[without.key] == parts[without.key]


def test_a_first_step_under_the_new_name_gives_way() -> None:
    """Recorded before anyone said that it is the same case, the new name's only step is displaced, and told."""
    run = check_of(gone(), new("attention/train"), day=1, head=2, reference=1)
    after, (done,) = rename(recorded(FIRST, run), NAME, "attention/train", commit(2), PERSON)
    assert done.before.git_commit == commit(2)
    entry = after.entries(examples.FINGERPRINT)["attention/train"]
    assert [step.kind.value for step in entry.steps] == ["first", "removed", "renamed"]
    assert not entry.removed
    assert problems(after) == []


NEW_NAME = "Name it as `ratchet doctor cases` does: benchmark/config."
FULL_NAMES = "Name each as benchmark/config, without patterns."


@pytest.mark.parametrize(
    ("old", "new_name", "said"),
    [
        ("gemm/2k", "a/b", f"The baseline has no case gemm/2k. {FULL_NAMES}"),
        ("training_512", "a/b", f"The baseline has no case training_512. Did you mean {NAME}? {FULL_NAMES}"),
        (NAME, "copy/long", f"copy/long has a chain of 2 steps of its own on {examples.FINGERPRINT.key}. Choose another name."),
        *((NAME, name, f"{name} is not a new name for a case. {NEW_NAME}") for name in (NAME, "a", "a/", "/a", "a/b/c", "a/*")),
    ],
)
def test_what_cannot_be_renamed(old: str, new_name: str, said: str) -> None:
    """An unknown case, a name that no case can have and a name with a history of its own are refused."""
    runs = [check_of(timed(1.0, "copy/long"), day=0, head=1), check_of(gone("copy/long"), day=1, head=2, reference=1)]
    with pytest.raises(UsageError) as caught:
        rename(recorded(FIRST, *runs), old, new_name, commit(5), PERSON)
    assert str(caught.value) == said


def test_likely_renames() -> None:
    """A new case that does the work of exactly one missing case was perhaps that case; in doubt nothing is said."""
    other = examples.WORKLOAD.model_copy(update={"flops": 1.0})
    run = check_of(gone("a/old"), new("a/new"), new("b/new", workload=other), timed(1.0), day=1, head=2)
    assert likely_renames(run) == {"a/new": "a/old"}
    assert likely_renames(check_of(gone("a/old"), gone("b/old"), new("a/new"), day=1, head=2)) == {}
    assert likely_renames(check_of(gone("a/old"), new("a/new"), new("b/new"), day=1, head=2)) == {}
    assert likely_renames(check_of(timed(1.0), day=1, head=2)) == {}
