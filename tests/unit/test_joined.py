"""Two baseline files that went on from the same steps."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.common.baseline_steps import joined
from ratchet.common.baseline_update import record
from ratchet.core.judge.chain import problems
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import RunRecord
from tests import examples
from tests.history_examples import check_of, commit, new, timed

NAME = "attention/training_512"


def after(baseline: Baseline, *runs: RunRecord) -> Baseline:
    return record(baseline, [(run, judge_run(run, baseline)) for run in runs]).baseline


FIRST = after(Baseline(), check_of(new(), day=0, head=0))
FASTER = [check_of(timed(0.8), day=day, head=1) for day in (1, 2)]
CANDIDATE = after(FIRST, FASTER[0])
IMPROVED = after(CANDIDATE, FASTER[1])


def steps(baseline: Baseline, name: str = NAME) -> list[str]:
    return [step.kind.value for step in baseline.entries(examples.FINGERPRINT)[name].steps]


def test_the_longer_chain_goes_on() -> None:
    """Whichever side took more steps from the same ones is kept, whole."""
    assert joined(FIRST, IMPROVED) == IMPROVED
    assert joined(IMPROVED, FIRST) is IMPROVED
    assert problems(joined(FIRST, IMPROVED)) == []


def test_what_only_waits_comes_along() -> None:
    """With the same steps on both sides, the entry that knows the newer candidate or day is kept."""
    assert joined(FIRST, CANDIDATE) == CANDIDATE
    assert joined(CANDIDATE, FIRST) is CANDIDATE


def test_newer_merges_come_along() -> None:
    """With the same steps and days, the entry that knows the newer merge is kept."""
    once = after(FIRST, check_of(timed(1.015), day=1, head=2, reference=0))
    twice = after(once, check_of(timed(1.02), day=1.1, head=3, reference=0))
    assert joined(once, twice) == twice
    assert joined(twice, once) is twice


def test_where_both_went_on_main_counts() -> None:
    """A chain that main does not have the beginning of is left out, however long it is: main's stays."""
    other = after(FIRST, *(check_of(timed(0.7), day=day, head=2) for day in (3, 4)))
    longer = after(other, *(check_of(timed(0.7), day=day, head=3, reference=2) for day in (5, 6)))
    assert [len(steps(each)) for each in (IMPROVED, other, longer)] == [2, 2, 3]
    for each in (other, longer):
        assert joined(IMPROVED, each) is IMPROVED
        assert joined(each, IMPROVED) is each


def test_new_cases_and_machines_enter() -> None:
    """What only one side has is in the result, on whichever machine."""
    case = after(Baseline(), check_of(new("copy/a"), day=1, head=1))
    machine = after(Baseline(), check_of(new(), day=1, head=1, environment=examples.CPU_ENVIRONMENT))
    both = joined(joined(FIRST, case), machine)
    assert {(key, name) for key, name, _ in both.every()} == {
        (examples.FINGERPRINT.key, NAME),
        (examples.FINGERPRINT.key, "copy/a"),
        (examples.CPU_ENVIRONMENT.fingerprint.key, NAME),
    }
    assert problems(both) == []


def test_the_days_decide_between_equal_steps() -> None:
    """Of two entries that differ in their days alone, the one with the latest day is kept."""
    run = check_of(timed(1.0), day=5, head=3)
    later = after(FIRST, run)
    assert later != FIRST
    assert run.started_at - examples.STARTED == timedelta(days=5)
    assert joined(FIRST, later) == later
    assert commit(0) == later.entries(examples.FINGERPRINT)[NAME].git_commit


RUNS = (
    *FASTER,
    *(check_of(timed(0.7), day=day, head=2) for day in (3, 4)),
    check_of(new("copy/a"), day=5, head=3),
    *(check_of(timed(0.8, "copy/a"), day=day, head=4, reference=3) for day in (6, 7)),
)
some_runs = st.lists(st.sampled_from(RUNS), max_size=5)


@settings(max_examples=60, deadline=None)
@given(some_runs, some_runs)
def test_whatever_both_recorded(main: list[RunRecord], waiting: list[RunRecord]) -> None:
    """Each entry is the one of a side, no step of main's is lost, the file verifies, and joining again changes nothing."""
    one, other = after(FIRST, *main), after(FIRST, *waiting)
    both = joined(one, other)
    assert problems(both) == []
    assert joined(both, other) is both
    sides = (one.entries(examples.FINGERPRINT), other.entries(examples.FINGERPRINT))
    entries = both.entries(examples.FINGERPRINT)
    assert set(entries) == set(sides[0]) | set(sides[1])
    for name, entry in entries.items():
        assert entry in (sides[0].get(name), sides[1].get(name))
        digests = [step.digest for step in entry.steps]
        before = [step.digest for step in sides[0][name].steps] if name in sides[0] else []
        assert digests[: len(before)] == before
