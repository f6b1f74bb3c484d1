"""Runs + baseline → next baseline."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone

import pytest

from ratchet.common.baseline_steps import BaselineUpdate, MoveKind
from ratchet.common.baseline_update import intact, record
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.judge.chain import problems
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import MOST_DAYS, MOST_MERGES, Baseline, BaselineEntry
from ratchet.core.records.environment import Fingerprint, PackageDifference
from ratchet.core.records.run import CaseRun, Failure, RunRecord, Shard, Tree
from tests import examples, history_examples
from tests.history_examples import check_of, commit, gone, new, timed

NAME = "attention/training_512"
KEY = examples.FINGERPRINT.key
OTHER = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)
OTHER_WORK = examples.WORKLOAD.model_copy(update={"flops": 1e9})


def recorded(baseline: Baseline, *runs: RunRecord) -> BaselineUpdate:
    done = record(baseline, [(run, judge_run(run, baseline)) for run in runs])
    assert problems(done.baseline) == []
    return done


def kinds(done: BaselineUpdate) -> list[MoveKind]:
    return [move.kind for move in done.moves]


def entry_of(done: BaselineUpdate, name: str = NAME) -> BaselineEntry:
    return done.baseline.entries(examples.FINGERPRINT)[name]


def merge(
    ratio: float, head: int, day: float | None = None, reference: int = 1, bench_from: str | None = None, **changes: object
) -> RunRecord:
    """A run of main after a merge, against the commit of the baseline."""
    case = timed(ratio, **changes)
    return check_of(case, day=head if day is None else day, head=head, reference=reference, bench_from=bench_from)


FIRST = recorded(Baseline(), check_of(timed(1.0), day=0, head=1)).baseline
"""The case at commit 1."""


def test_a_new_case_enters() -> None:
    """The first measurement on a machine becomes its baseline, with figures made from the samples themselves and a first step."""
    done = recorded(Baseline(), check_of(timed(1.0), day=0, head=1))
    entry = entry_of(done)
    assert kinds(done) == [MoveKind.FIRST]
    assert (entry.git_commit, entry.timestamp) == (commit(1), examples.STARTED)
    assert entry.median_ms == pytest.approx(1.0, abs=1e-3)
    assert entry.pair_medians_ms == pytest.approx(history_examples.STEADY)
    assert entry.throughput_gflops == pytest.approx(examples.WORKLOAD.flops / entry.median_ms * 1e-6)
    (step,) = entry.steps
    assert (step.kind, step.commit, step.predecessor, step.median_ms) == ("first", commit(1), None, entry.median_ms)
    assert [day.median_ms for day in entry.days] == [entry.median_ms]


@pytest.mark.parametrize("reference", [None, 1, 7])
def test_an_unchanged_case_stays(reference: int | None) -> None:
    """A case that was not proven faster leaves the baseline the very object it was."""
    done = recorded(FIRST, check_of(timed(1.0), day=0.1, head=2, reference=reference))
    assert done.baseline is FIRST
    assert (done.moves, done.unchanged, done.left_out) == ((), (NAME,), {})


def test_two_measurements_move() -> None:
    """Proven faster than the baseline commit twice, the head takes its place: the first time it only waits."""
    once = recorded(FIRST, merge(0.80, 2, day=1))
    waiting = entry_of(once).candidate
    assert kinds(once) == [MoveKind.CANDIDATE]
    assert (waiting.commit, entry_of(once).git_commit) == (commit(2), commit(1))
    twice = recorded(once.baseline, merge(0.82, 2))
    entry = entry_of(twice)
    assert kinds(twice) == [MoveKind.IMPROVED]
    assert (entry.git_commit, entry.candidate, len(entry.steps)) == (commit(2), None, 2)
    assert entry.steps[1].predecessor == entry.steps[0].digest
    assert entry.steps[1].ratio == pytest.approx(math.sqrt(0.80 * 0.82), rel=1e-3)
    assert [each.reference for each in entry.steps[1].measurements] == [commit(1)] * 2
    assert entry.steps[1].measurements[0] == waiting.measurement
    (move,) = twice.moves
    assert (move.machine, move.case, move.note) == (KEY, NAME, "")
    assert (move.before, move.after) == (entry_of(once), entry)


@pytest.mark.parametrize("bench_from", [None, "head"])
def test_both_measurements_at_once(bench_from: str | None) -> None:
    """Runs given together are taken in the order of their time; both sides run the same benchmarks, wherever those are from."""
    done = recorded(FIRST, *(merge(0.8, 2, day=day, bench_from=bench_from) for day in (2, 1)))
    assert kinds(done) == [MoveKind.CANDIDATE, MoveKind.IMPROVED]
    assert entry_of(done).git_commit == commit(2)
    assert entry_of(done).timestamp == examples.STARTED + timedelta(days=2)


def test_the_same_run_counts_once() -> None:
    """A run recorded again is no second measurement."""
    run = merge(0.8, 2, day=1)
    done = recorded(FIRST, run, run)
    assert kinds(done) == [MoveKind.CANDIDATE]
    assert recorded(done.baseline, run).baseline is done.baseline


WALL_S = check_of(day=0, head=1).wall_s


@pytest.mark.parametrize("minutes", [0, 2, -2, WALL_S / 60, -WALL_S / 60])
def test_runs_that_overlap_count_once(minutes: float) -> None:
    """Two runs at the same time share what disturbed the machine, so they are one measurement, up to the end of the first."""
    runs = [check_of(timed(0.8), day=1 + add / 24 / 60, head=2, reference=1) for add in (0, minutes)]
    assert kinds(recorded(FIRST, *runs)) == [MoveKind.CANDIDATE]
    assert recorded(recorded(FIRST, runs[0]).baseline, runs[1]).moves == ()


WRONG = Failure(side="head", stage="check", message="wrong")


@pytest.mark.parametrize(
    "second",
    [timed(0.99), examples.compared(*(0.8,) * 8), timed(1.0, failures=(WRONG,))],
    ids=["no faster", "faster in few pairs", "a wrong result"],
)
def test_a_contradicted_candidate_is_dropped(second: CaseRun) -> None:
    """A second measurement of the same commit that shows no improvement, or fails, ends its candidacy; a third is a new one."""
    runs = [check_of(case, day=day, head=2, reference=1) for day, case in enumerate((timed(0.8), second, timed(0.8)), 1)]
    done = recorded(FIRST, *runs)
    assert kinds(done) == [MoveKind.CANDIDATE, MoveKind.DROPPED, MoveKind.CANDIDATE]
    assert entry_of(done).git_commit == commit(1)
    assert done.moves[1].note == "0002000200 is not shown to be faster a second time"
    elsewhere = check_of(timed(1.0, failures=(WRONG,)), day=2, head=2, reference=7)
    assert kinds(recorded(FIRST, runs[0], elsewhere)) == [MoveKind.CANDIDATE, MoveKind.DROPPED]


def test_what_does_not_contradict_a_candidate() -> None:
    """An unfit machine, a run that is no later, another reference and another commit say nothing about it."""
    once = recorded(FIRST, merge(0.8, 2, day=1)).baseline
    for run in (
        check_of(timed(1.0, unfit="Hot."), day=2, head=2, reference=1),
        merge(1.0, 2, day=0.5),
        merge(1.0, 2, day=1),
        check_of(timed(1.0), day=1.2, head=2, reference=7),
        merge(1.0, 3, day=1.2),
    ):
        done = recorded(once, run)
        assert done.moves == ()
        assert entry_of(done).candidate == once.entries(examples.FINGERPRINT)[NAME].candidate


def test_the_best_commit_contradicts_too() -> None:
    """A case measured once more against the baseline commit refutes a candidate that is not faster than it, and no other."""
    once = recorded(FIRST, merge(0.8, 2, day=1)).baseline
    for ratio, moves in ((1.0, [MoveKind.DROPPED]), (0.8, [])):
        best = timed(ratio, reference_tree=Tree(commit=commit(1)))
        assert kinds(recorded(once, check_of(timed(1.01), day=2, head=2, reference=7, best=(best,)))) == moves


def test_another_candidate_takes_the_place() -> None:
    """A later commit's improvement replaces the candidate; one of the same time or earlier does not."""
    done = recorded(FIRST, *(merge(0.8, head, day=day) for day, head in ((1, 2), (2, 3))))
    waiting = entry_of(done).candidate
    assert waiting.commit == commit(3)
    for day in (1.5, 2):
        assert recorded(done.baseline, merge(0.8, 4, day=day)).moves == ()


@pytest.mark.parametrize(("head", "reference"), [(2, 7), (2, None), (1, 1)])
def test_only_an_improvement_over_the_baseline_commit_counts(head: int, reference: int | None) -> None:
    """Faster than some other commit, twice, proves nothing about the baseline's, which does not improve on itself either."""
    runs = [check_of(timed(0.8), day=day, head=head, reference=reference, kind="check") for day in (0.1, 0.2)]
    assert recorded(FIRST, *runs).moves == ()


def test_the_reference_of_a_case_counts() -> None:
    """Where a case was measured against a commit of its own, that is what it improved upon."""
    case = timed(0.8, reference_tree=Tree(commit=commit(1)))
    assert kinds(recorded(FIRST, *(check_of(case, day=day, head=2, reference=7) for day in (1, 2)))) == [
        MoveKind.CANDIDATE,
        MoveKind.IMPROVED,
    ]


def test_small_wins_accumulate() -> None:
    """Each of two commits is 3 % faster than the one before: only the second is 5 % faster than the baseline, and moves it."""
    runs = [check_of(timed(0.97 ** (head - 1)), day=head + more, head=head, reference=1) for head in (2, 3) for more in (0, 0.5)]
    done = recorded(FIRST, *runs)
    assert kinds(done) == [MoveKind.CANDIDATE, MoveKind.IMPROVED]
    assert entry_of(done).git_commit == commit(3)


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_thousand_unchanged_merges_move_nothing() -> None:
    """Noise of 2 % a pair and 3 % between runs, in 1,000 merges of unchanged code: no candidate, no step, the same figures."""
    rng = random.Random(20260314)
    baseline, before = FIRST, FIRST.entries(examples.FINGERPRINT)[NAME]
    for merge in range(1, 1001):
        day = 1 + rng.gauss(0, 0.03)
        pairs = [(day * (1 + rng.gauss(0, 0.014)), day * (1 + rng.gauss(0, 0.014))) for _ in range(8)]
        sides = {
            side: tuple(examples.blocks(pair, times[at]) for pair, times in enumerate(pairs))
            for at, side in enumerate(("head", "reference"))
        }
        run = check_of(timed(1.0, **sides), day=merge / 5, head=merge + 1, reference=1)
        done = record(baseline, [(run, judge_run(run, baseline))])
        assert done.moves == ()
        baseline = done.baseline
    after = baseline.entries(examples.FINGERPRINT)[NAME]
    assert after.model_copy(update={"days": before.days, "merges": (), "digest": before.digest}) == before
    assert len(after.days) == MOST_DAYS
    assert len(after.merges) <= MOST_MERGES
    assert problems(baseline) == []


def merges_of(done: BaselineUpdate) -> list[tuple[str, float]]:
    return [(each.commit, round(each.measurement.ratio, 3)) for each in entry_of(done).merges]


def test_merges_slower_than_the_baseline_are_kept() -> None:
    """Merges that are slower than the baseline commit by a quarter of the gate, or past it, stand in its entry, oldest first."""
    done = recorded(FIRST, merge(1.0076, 2), merge(1.012, 3), merge(1.1, 4))
    assert merges_of(done) == [(commit(2), 1.008), (commit(3), 1.012), (commit(4), 1.1)]
    assert (done.moves, entry_of(done).git_commit, len(entry_of(done).steps)) == ((), commit(1), 1)
    assert [each.measurement.reference for each in entry_of(done).merges] == [commit(1)] * 3


@pytest.mark.parametrize("ratio", [1.0, 1.0074, 0.97])
def test_a_merge_that_is_not_slower_ends_the_creep(ratio: float) -> None:
    """A merge that is not slower by a part that counts forgets the earlier ones, and where there are none, writes nothing."""
    crept = recorded(FIRST, merge(1.01, 2), merge(1.02, 3))
    assert merges_of(recorded(crept.baseline, merge(ratio, 4))) == []
    assert recorded(FIRST, merge(ratio, 2, day=0.1)).baseline is FIRST


def test_a_part_is_one_of_the_gate_of_the_case() -> None:
    """A case with a gate of its own has merges in its entry from a quarter of that on."""
    policy = merge(1.0, 2).policy.model_copy(update={"case_gates": {NAME: 0.08}})
    runs = [merge(ratio, head).model_copy(update={"policy": policy}) for ratio, head in ((1.012, 2), (1.03, 3))]
    assert merges_of(recorded(FIRST, *runs)) == [(commit(3), 1.03)]


def test_only_the_latest_merges_are_kept() -> None:
    """Of many merges the latest ten stand in the entry."""
    done = recorded(FIRST, *(merge(1.01 + number / 1000, number) for number in range(2, 18)))
    assert [each for each, _ in merges_of(done)] == [commit(number) for number in range(8, 18)]


def test_the_best_commit_of_a_check_counts() -> None:
    """Where a check measured a case once more against the baseline commit, that is its merge's measure, and tells of the day."""
    best = timed(1.02, reference_tree=Tree(commit=commit(1)))
    done = recorded(FIRST, check_of(timed(1.005), day=5, head=5, reference=4, best=(best,)))
    assert merges_of(done) == [(commit(5), 1.02)]
    assert len(entry_of(done).days) == 2


def test_what_is_no_measurement_of_a_merge() -> None:
    """A failure, an unfit machine, another reference, the baseline commit itself and a run that is no later leave the merges."""
    crept = recorded(FIRST, merge(1.02, 3)).baseline
    for run in (
        merge(1.05, 4, failures=(WRONG,)),
        merge(1.05, 4, unfit="Hot."),
        merge(1.05, 4, reference=7),
        merge(1.01, 1, day=4),
        merge(1.05, 2, day=2),
        merge(1.0, 2, day=2),
        merge(1.02, 3),
    ):
        assert merges_of(recorded(crept, run)) == [(commit(3), 1.02)]


def test_a_step_forgets_the_merges() -> None:
    """A new baseline commit starts without merges: they were measured against the one before."""
    crept = recorded(FIRST, merge(1.02, 2))
    faster = recorded(crept.baseline, *(merge(0.8, 3, day=day) for day in (3, 4)))
    assert kinds(faster) == [MoveKind.CANDIDATE, MoveKind.IMPROVED]
    assert merges_of(faster) == []


def test_merges_leave_the_digests_of_entries_without_them() -> None:
    """An entry that was written before merges were recorded has the digest that it had; one with merges is sealed with them."""
    assert examples.first_entry().digest == "13dbd84c5d76dd884ebef11593f5f4ae"
    crept = recorded(FIRST, merge(1.02, 2))
    entry = entry_of(crept)
    edited = entry.model_copy(update={"merges": ()})
    told = problems(crept.baseline.with_entries(examples.FINGERPRINT, {NAME: edited}))
    assert len(told) == 1
    assert "was edited" in told[0]


def test_a_run_that_adds_nothing_seals_nothing() -> None:
    """An entry that somebody edited is still found after a run that leaves it as it is."""
    edited = FIRST.entries(examples.FINGERPRINT)[NAME].model_copy(update={"digest": "0" * 32})
    stored = FIRST.with_entries(examples.FINGERPRINT, {NAME: edited})
    run = merge(1.0, 2, day=0.1)
    assert record(stored, [(run, judge_run(run, stored))]).baseline is stored
    assert len(problems(stored)) == 1


def test_days_are_learnt_from_references() -> None:
    """A run against the baseline commit adds its reference's median, one a day; so does a run of that commit alone."""
    runs = [
        merge(1.1, 2, day=0.1),
        merge(1.1, 2, day=1),
        merge(1.1, 3, day=1.1),
        check_of(timed(1.2), day=2, head=1, reference=None),
        check_of(timed(1.2), day=3, head=4, reference=7),
        check_of(timed(1.2, unfit="Hot."), day=4, head=4, reference=1),
        check_of(timed(1.0, head=(examples.blocks(0, 1.0, throttled=[0]),)), day=5, head=1, reference=None),
    ]
    entry = entry_of(recorded(FIRST, *runs))
    assert [day.median_ms for day in entry.days] == pytest.approx([1.0, 1.0, 1.2], rel=2e-3)
    assert [(day.timestamp - examples.STARTED).days for day in entry.days] == [0, 1, 2]
    assert len(entry.steps) == 1


def test_other_work_enters() -> None:
    """A case whose workload changed starts anew: the step names its predecessor, what changed, and no ratio."""
    other = OTHER_WORK.model_copy(update={"dtype": "float16"})
    for case in (timed(1.0, workload=other, reference=()), timed(1.0, workload=other, reference_workload=other)):
        done = recorded(FIRST, check_of(case, day=1, head=3, reference=2))
        entry = entry_of(done)
        assert kinds(done) == [MoveKind.CHANGED]
        assert (entry.workload, entry.git_commit, len(entry.days)) == (other, commit(3), 1)
        assert (entry.steps[1].predecessor, entry.steps[1].ratio) == (entry.steps[0].digest, None)
        assert entry.steps[1].reason == "dtype: bfloat16 → float16; flops: 34360000000.0 → 1000000000.0"


def test_other_settings_do_not_start_anew() -> None:
    """The baseline commit itself measured with other settings moves nothing, whichever side it stood on: its code is the same."""
    warm = examples.WORKLOAD.model_copy(update={"cache": "warm", "dtype": "float16"})
    case = timed(1.0, workload=warm, reference_workload=warm)
    for sides in ({"head": 2, "reference": 1}, {"head": 1, "reference": 0}):
        done = recorded(FIRST, check_of(case, day=1, **sides))
        assert kinds(done) == [MoveKind.APART]
        assert done.moves[0].note == "dtype: bfloat16 → float16; cache: cold → warm"
        assert done.baseline is FIRST


def test_a_reference_with_the_heads_benchmarks() -> None:
    """Measured with the head's benchmarks, a reference tells nothing of its own figures: no day, and no reason to stay apart."""
    for run in (
        check_of(timed(1.1), day=1, head=2, reference=1, bench_from="head"),
        check_of(
            timed(1.02), day=1, head=5, reference=4, bench_from="head", best=(timed(1.0, reference_tree=Tree(commit=commit(1))),)
        ),
    ):
        assert len(entry_of(recorded(FIRST, run)).days) == 1
    other = timed(1.0, workload=OTHER_WORK, reference_workload=OTHER_WORK)
    done = recorded(FIRST, check_of(other, day=1, head=2, reference=1, bench_from="head"))
    assert kinds(done) == [MoveKind.CHANGED]
    assert (entry_of(done).git_commit, entry_of(done).workload) == (commit(2), OTHER_WORK)


def test_a_removed_case_keeps_its_chain() -> None:
    """A case that only the reference has is removed once, its figures stay, and nothing waits for a second measurement."""
    done = recorded(FIRST, *(check_of(gone(), day=day, head=2, reference=1) for day in (1, 2)))
    entry = entry_of(done)
    assert kinds(done) == [MoveKind.REMOVED]
    assert entry.removed
    assert (entry.median_ms, len(entry.steps)) == (FIRST.entries(examples.FINGERPRINT)[NAME].median_ms, 2)
    waiting = recorded(FIRST, merge(0.8, 2, day=1))
    assert entry_of(waiting).candidate is not None
    assert entry_of(recorded(waiting.baseline, check_of(gone(), day=2, head=3, reference=1))).candidate is None


def test_a_case_that_returns() -> None:
    """With the same workload its chain goes on, even where it is slower; with another one it starts anew."""
    removed = recorded(FIRST, check_of(gone(), day=1, head=2, reference=1)).baseline
    for case in (new(), timed(1.2)):
        done = recorded(removed, check_of(case, day=2, head=3, reference=2))
        assert kinds(done) == [MoveKind.RETURNED]
        assert not entry_of(done).removed
        assert entry_of(done).git_commit == commit(1)
    assert kinds(recorded(removed, check_of(new(workload=OTHER_WORK), day=2, head=3))) == [MoveKind.CHANGED]
    assert recorded(removed, check_of(new(failures=(WRONG,)), day=2, head=3)).moves == ()


@pytest.mark.parametrize("day", [-1, 0])
@pytest.mark.parametrize("case", [gone(), new(workload=OTHER_WORK)])
def test_an_older_run_changes_nothing(case: CaseRun, day: float) -> None:
    """What a run did not have, or had differently, says nothing about now unless it is later than the last step."""
    assert recorded(FIRST, check_of(case, day=day, head=2, reference=7)).baseline is FIRST
    removed = recorded(FIRST, check_of(gone(), day=1, head=2, reference=1)).baseline
    assert recorded(removed, check_of(new(), day=0.5, head=3)).baseline is removed


def test_a_likely_renaming_is_told() -> None:
    """A case that went and one that came with the same work are recorded as such, and named together."""
    renamed = check_of(gone(), new("attention/train"), day=1, head=2, reference=1)
    done = recorded(FIRST, renamed)
    assert kinds(done) == [MoveKind.REMOVED, MoveKind.FIRST]
    assert done.renames == {"attention/train": NAME}
    assert recorded(FIRST, renamed, check_of(timed(1.0, "attention/train"), day=2, head=2)).renames == done.renames


@pytest.mark.parametrize(
    "case",
    [
        timed(1.0, failures=(WRONG,)),
        timed(1.0, unfit="Hot."),
        timed(1.2),
        examples.compared(),
        examples.compared(head=(examples.blocks(0, 1.0, throttled=[0]),)),
        examples.compared(skipped="needs x", workload=None, performance=None),
        gone(),
    ],
    ids=["failed", "unfit", "regressed", "nothing measured", "all throttled", "skipped", "missing"],
)
def test_what_never_enters(case: CaseRun) -> None:
    """What failed, was unfit, regressed or has no samples is no baseline; a case of the head that is left out is named."""
    done = recorded(Baseline(), check_of(case, day=0, head=1))
    assert (done.baseline, done.moves) == (Baseline(), ())
    assert list(done.left_out) == ([] if case.skipped or not case.in_head else [NAME])
    assert (
        recorded(FIRST, check_of(case, day=0.1, head=2, reference=7)).baseline.entries(examples.FINGERPRINT)[NAME].median_ms
        == 1.0
    )


RUN = "The run of 2026-03-14 15:09"
TWO_ENVIRONMENTS = examples.ENVIRONMENT.model_copy(
    update={"differs": (PackageDifference(name="triton", head="3.6.0", reference="3.5.1"),)}
)
NO_COMMIT = "so it cannot be tied to a commit. Commit, then run it again."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"head": Tree(commit=commit(1), dirty=True)}, f"{RUN} measured uncommitted changes, {NO_COMMIT}"),
        ({"head": Tree(commit="")}, f"{RUN} was measured where no commit was checked out, {NO_COMMIT}"),
        ({"head": Tree(commit="--upload-pack=x")}, f"{RUN} was measured where no commit was checked out, {NO_COMMIT}"),
        (
            {"environment": TWO_ENVIRONMENTS},
            "This run compared two environments, so it says nothing of a commit. Check without --env first.",
        ),
        (
            {"shard": Shard(number=2, of=3)},
            f"{RUN} is shard 2/3 of a check. Join all shards with `ratchet ci merge` first.",
        ),
        ({"wall_s": 1e300}, "A run cannot take 1e+300 s from 2026-03-14 on. Measure again."),
        (
            {"started_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), "wall_s": 9.0},
            "A run cannot take 9 s from 1-01-01 on. Measure again.",
        ),
    ],
)
def test_runs_that_no_baseline_can_name_are_refused(changes: dict[str, object], said: str) -> None:
    """Uncommitted changes, code without a commit, two environments, a part of a check, and dates beyond the first or the last."""
    run = check_of(timed(1.0), day=0, head=1).model_copy(update=changes)
    with pytest.raises(UsageError) as caught:
        recorded(Baseline(), run)
    assert str(caught.value) == said


def test_what_was_edited_is_left_as_it_is() -> None:
    """A baseline whose chain verifies is given back; another is refused with its name, what is wrong, and what shows it."""
    assert intact(FIRST, "a.json") is FIRST
    entry = FIRST.entries(examples.FINGERPRINT)[NAME].model_copy(update={"days": ()})
    with pytest.raises(RecordError) as caught:
        intact(FIRST.with_entries(examples.FINGERPRINT, {NAME: entry}), "a.json")
    assert str(caught.value).startswith("a.json does not verify, and was left as it is: ")
    assert NAME in caught.value.message
    assert caught.value.hint == "See `ratchet baseline verify`."


def test_how_uncertain_a_left_out_figure_is() -> None:
    """It is told with how far its interval reaches above its median, the gate of this case, and its processes; others are not."""
    ratios = [4.0, 6.4, 2.8, 5.6, 3.2, 6.0, 2.4, 5.2]
    restless = examples.compared(*ratios, reference=(), reference_workload=None, in_reference=False)
    run = check_of(restless, new("gemm/2k"), day=0, head=1)
    policy = run.policy.model_copy(update={"case_gates": {NAME: run.policy.regression * 2}})
    run = run.model_copy(update={"policy": policy})
    done = recorded(Baseline(), run)
    ((name, uncertainty),) = done.uncertain.items()
    assert (name, uncertainty.limit, uncertainty.processes) == (NAME, run.policy.regression * 2, len(ratios))
    assert uncertainty.limit < uncertainty.above < max(ratios) / min(ratios) - 1


def test_order_of_the_file() -> None:
    """Cases stand in the file by name, so that a new one does not move the others; one that was not selected stays."""
    done = recorded(FIRST, check_of(timed(1.0, "softmax/b"), timed(1.0, "copy/a"), day=1, head=2))
    assert [move.case for move in done.moves] == ["softmax/b", "copy/a"]
    assert list(done.baseline.entries(examples.FINGERPRINT)) == [NAME, "copy/a", "softmax/b"]
    assert entry_of(done) == FIRST.entries(examples.FINGERPRINT)[NAME]


def test_machines_live_side_by_side() -> None:
    """Recording for one machine leaves the parts of the others the very objects they were."""
    elsewhere = examples.ENVIRONMENT.model_copy(update={"fingerprint": OTHER})
    both = recorded(FIRST, check_of(timed(1.0), day=0, head=3, environment=elsewhere)).baseline
    assert both.fingerprints[KEY] is FIRST.fingerprints[KEY]
    runs = [merge(0.8, 2, day=day) for day in (1, 2)]
    after = recorded(both, *runs).baseline
    assert after.fingerprints[OTHER.key] is both.fingerprints[OTHER.key]
    assert after.entries(OTHER)[NAME].git_commit == commit(3)
    assert after.entries(examples.FINGERPRINT)[NAME].git_commit == commit(2)
