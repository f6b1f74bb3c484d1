"""The baseline's way to the remote, in words."""

from __future__ import annotations

from collections.abc import Callable

from ratchet.common.baseline_steps import BaselineUpdate, Move, Person, accept
from ratchet.common.baseline_text import (
    PushSummary,
    commit_message,
    forward_fields,
    forward_lines,
    forward_outputs,
    forward_summary,
    title,
)
from ratchet.common.baseline_update import record
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from tests.examples import STARTED
from tests.history_examples import check_of, new, timed

HOSTILE = "a/[skip ci] `x`\n\nCo-authored-by: @octocat ##[error]"


def moved() -> tuple[BaselineUpdate, tuple[Move, ...]]:
    """A case that was accepted, one that entered, one that waits, and one with a hostile name."""
    first = check_of(new("copy/a"), new("gemm/2k"), day=0, head=0)
    before = record(Baseline(), [(first, judge_run(first, Baseline()))]).baseline
    run = check_of(timed(1.1, "copy/a"), timed(0.8, "gemm/2k"), new("gemm/4k"), new(HOSTILE), day=1, head=1)
    report = judge_run(run, before)
    done = record(before, [(run, report)])
    person = Person("a-maintainer", "rows were wrong [skip ci]", STARTED)
    _, accepted = accept(done.baseline, run, report, ["copy/a"], person)
    return done, tuple(accepted)


def test_commit_and_log(golden: Callable[[str, str], None]) -> None:
    """The commit, the log and the summary say what moved, and where to; no name or reason in them is more than text."""
    done, accepted = moved()
    message = commit_message(done, accepted, "push")
    notes = ("main does not accept a push: a rule. A pull request takes its place.",)
    story = PushSummary(
        "results/baseline.json", "pull-request", "ratchet-baseline", "c" * 40, done, accepted, notes, "https://example.org/7"
    )
    golden("baseline_forward.txt", "\n".join([message, "", "---", *forward_lines(story), "", "---", forward_summary(story)]))
    assert message.count("[skip ci]") == 1
    assert message.splitlines()[0].endswith(" [skip ci]")
    assert "\nCo-authored-by" not in message


def test_a_pull_request_starts_its_checks(golden: Callable[[str, str], None]) -> None:
    """Only a commit that goes to main by itself skips the workflows."""
    assert "[skip ci]" not in commit_message(*moved(), "pull-request")


def test_titles() -> None:
    """Cases that moved are named, then those that wait; without any it is today's times alone."""
    done, accepted = moved()
    hostile = "a/[\u200bskip ci] `x` Co-authored-by: @\u200boctocat ##[\u200berror]"
    assert title(done, accepted) == f"perf: ratchet baseline forward (copy/a, gemm/4k, {hostile})"
    nothing = BaselineUpdate(Baseline(), (), (), {}, {})
    assert title(nothing, ()) == "perf: ratchet baseline notes (times of today)"
    waiting = BaselineUpdate(Baseline(), done.moves[:1], (), {}, {})
    assert title(waiting, ()) == "perf: ratchet baseline notes (gemm/2k)"


def test_for_machines() -> None:
    """Fields and outputs name the cases that moved, the way, the commit and the pull request."""
    done, accepted = moved()
    story = PushSummary("results/baseline.json", "push", "main", None, done, accepted)
    assert forward_fields(story)["commit"] is None
    assert [each["case"] for each in forward_fields(story)["accepted"]] == ["copy/a"]
    outputs = forward_outputs(story)
    assert (outputs["commit"], outputs["branch"], outputs["mode"]) == ("", "main", "push")
    assert outputs["moved"].startswith('["copy/a", "gemm/4k"')
    assert forward_lines(story)[-1] == "main: nothing to push."
