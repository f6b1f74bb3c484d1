"""The state of a walk through a range of commits, and its text."""

from __future__ import annotations

from typing import Any

from ratchet.core.records.run import Tree
from ratchet.core.records.verdict import Outcome
from ratchet.history.fill_records import FilledCase, FilledCommit, FillRecord, fill_lines, fill_page
from ratchet.history.records import RatioTo
from tests.examples import FINGERPRINT, HOSTILE, STARTED
from tests.history_examples import commit

CASE = "norm/rows_4k"


def ratio(other: int, value: float) -> RatioTo:
    return RatioTo(commit=commit(other), ratio=value, low=value * 0.99, high=value * 1.01, pairs=16)


def done(number: int, *cases: FilledCase, **changes: Any) -> FilledCommit:
    usual = {"result": "timed" if cases else "identical", "reason": "It was measured.", "seconds": 20.0, "machine": FINGERPRINT}
    tree, same = Tree(commit=commit(number), subject=f"number {number}"), () if cases else (CASE,)
    about = {"tree": tree, "before": commit(number - 1), "cases": cases, "same": same} | usual | changes
    return FilledCommit(**about)


def changed(against: int, value: float, anchor: RatioTo | None, *, confirmed: bool | None) -> FilledCase:
    outcome = Outcome.REGRESSED if value > 1 else Outcome.IMPROVED
    return FilledCase(
        name=CASE, outcome=outcome, reason="Slower.", reference=ratio(against, value), anchor=anchor, confirmed=confirmed
    )


def walk(*commits: FilledCommit, count: int = 9) -> FillRecord:
    ends = {"older": Tree(commit=commit(0)), "newer": Tree(commit=commit(count))}
    return FillRecord(**ends, benchmarks="b", commits=tuple(map(commit, range(1, count + 1))), done=commits, started_at=STARTED)


def test_the_level_is_that_of_the_last_confirmed_change() -> None:
    """The anchor is where the case was first seen; what was not confirmed, or seen on another machine, moves no level."""
    first, slower = done(1), done(2, changed(1, 1.5, ratio(0, 1.52), confirmed=True))
    perhaps = done(3, changed(2, 1.1, ratio(0, 1.5), confirmed=False))
    elsewhere = done(4, changed(3, 0.5, ratio(0, 0.7), confirmed=True), machine=FINGERPRINT.model_copy(update={"gpu": "another"}))
    for commits, anchor, level in (((), None, None), ((first,), 0, 1.0), ((first, slower, perhaps, elsewhere), 0, 1.52)):
        found = walk(*commits).level_of(CASE, FINGERPRINT)
        assert (found and (found.commit, found.ratio)) == (None if anchor is None else (commit(anchor), level))


def test_a_case_that_was_only_proved_the_same_has_a_level() -> None:
    """So a change that hides behind a commit that fails is measured against the last one that was known."""
    found = walk(done(1, machine=None), done(2, result="failed", same=())).level_of(CASE, FINGERPRINT)
    assert found
    assert (found.commit, found.ratio) == (commit(0), 1)


def test_the_next_commit_is_compared_with_the_last_that_could_be_measured() -> None:
    """A failed one is passed over; where none was measured yet, the older end of the range counts."""
    failed = done(2, result="failed", same=())
    assert walk().before == commit(0)
    assert walk(done(1), failed).before == commit(1)
    assert walk(done(1), failed).left == tuple(map(commit, range(3, 10)))


def test_text_of_commits_and_cases_stays_text() -> None:
    """A subject, a reason and a cause that hold markup make neither links nor columns of the tables."""
    case = changed(0, 1.5, ratio(0, 1.5), confirmed=True).model_copy(update={"cause": HOSTILE})
    hostile = Tree(commit=commit(1), subject=HOSTILE)
    record = walk(done(1, case, tree=hostile), done(2, result="failed", reason=HOSTILE, same=(), tree=hostile))
    page = fill_page(record, "https://example.org/a/b")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert [row.count("|") for row in rows] == [6, 3]
    assert "<img" not in page
    assert "](https://evil" not in page
    assert "\x1b" not in page + "".join(fill_lines(record))


def test_the_lines_say_what_was_found_and_what_is_left() -> None:
    """Each change has both measurements, an unconfirmed one says so, and the last line counts every commit."""
    lines = list(
        fill_lines(
            walk(
                done(1),
                done(2, changed(1, 1.5, ratio(0, 1.52), confirmed=True)),
                done(3, changed(2, 0.5, ratio(0, 1.5), confirmed=False)),
                done(4, result="failed", same=()),
            )
        )
    )
    assert "+50.0 %" in lines[0]
    assert "confirmed: +52.0 %" in lines[0]
    assert "not confirmed: +50.0 %" in lines[1]
    assert lines[2].startswith("9 commits: 1 identical (20 s each), 2 timed (20 s each), 1 failed (20 s each); 5 left")
