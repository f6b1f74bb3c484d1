"""How a published run ends: each state that docs/github.md lists, published against the stand-in for GitHub."""

from __future__ import annotations

import contextlib
import html
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.records.baseline import Day
from ratchet.core.records.files import dumps
from ratchet.core.records.run import CaseRun, Config, Failure, Tree
from ratchet.github.state import PublishedState, state_of
from tests import examples
from tests.fake_github import Answer
from tests.history_examples import STEADY, gone, new, timed
from tests.integration.publish_scene import HEAD, LATER, NAME, RED, RUN, SAME, Scene

PAGE = (Path(__file__).parents[2] / "docs" / "github.md").read_text(encoding="utf-8")
_LISTS = re.findall(r"^(`\w+`|none):\n\n((?:- .*\n)+)", PAGE.split("### How a run ends")[1], re.MULTILINE)
ROWS = {line.removeprefix("- "): conclusion for conclusion, lines in _LISTS for line in lines.splitlines()}
"""State → conclusion."""
_RULE = re.search(r"`(\w+)` and `(\w+)` block a required check; `(\w+)` and `(\w+)` satisfy it;", PAGE)
assert _RULE
BLOCKING, SATISFYING = {_RULE[1], _RULE[2]}, {_RULE[3], _RULE[4]}
REFERENCE = examples.REFERENCE.commit
Arrange = Callable[[Scene, pytest.MonkeyPatch], Any]
UNFIT = "The GPU is shared."
VAGUE = (1.06, 0.94, 1.01, 1.05, 0.95, 1.0, 1.07, 0.93)


def _baseline(scene: Scene, *names: str, **changes: Any) -> None:
    entries = {name: examples.first_entry(name, **changes) for name in names}
    scene.state.set_file("results/baseline.json", dumps(examples.stored(entries)).encode())


def _unfit(name: str) -> CaseRun:
    return timed(1.0, name, unfit=UNFIT)


def _skipped_case() -> CaseRun:
    return timed(1.0, "a/b", skipped="No fp8.", head=(), reference=(), performance=None, reference_performance=None)


def _failed() -> CaseRun:
    failure = Failure(side="head", stage="check", message="The result is wrong.")
    return CaseRun(name="gemm/2k", benchmark="gemm", config=Config(name="2k"), failures=(failure,))


def _died(scene: Scene, _: object) -> None:
    scene.measured.conclusion = "failure"
    scene.measured.artifacts.clear()


def _leftover(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    scene.measured.attempt, scene.measured.started_at = 2, "2026-11-21T09:00:00Z"
    event = scene.folder / "event.json"
    event.write_text(event.read_text(encoding="utf-8").replace('"run_attempt": 1', '"run_attempt": 2'), encoding="utf-8")


def _damaged(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    (scene.place / "current.json").write_text("{", encoding="utf-8")


def _off_base(scene: Scene, _: object) -> None:
    scene.state.parents |= {HEAD: [LATER], LATER: [REFERENCE]}
    scene.artifact(SAME, reference=Tree(commit=LATER))


def _earlier(scene: Scene, _: object) -> None:
    scene.state.parents[REFERENCE] = [LATER]
    scene.artifact(SAME, reference=Tree(commit=LATER))


def _undecided(scene: Scene, _: object) -> None:
    scene.set_settings('on_inconclusive = "fail"\n')
    scene.artifact(examples.compared(*VAGUE))


def _muted(scene: Scene, _: object) -> None:
    scene.set_settings(f'mute = [{{case = "{NAME}", owner = "jo", reason = "driver 590", until = 9999-12-31}}]\n')
    scene.artifact(RED)


def _broken_settings(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    scene.set_settings("= 3\n")


def _defect(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.artifact(SAME)
    patch.setattr("ratchet.github.judge_again.judge_run", lambda *_: 1 / 0)


def _left_out(scene: Scene, _: object) -> None:
    _baseline(scene, NAME, "copy/a")
    scene.artifact(SAME)


def _skipped_though_known(scene: Scene, _: object) -> None:
    _baseline(scene, NAME, "a/b")
    scene.artifact(SAME, _skipped_case())


def _removed(scene: Scene, _: object) -> None:
    _baseline(scene, NAME, "copy/a")
    scene.artifact(SAME, gone("copy/a"))


def _stored(scene: Scene, _: object) -> None:
    days = tuple(Day(timestamp=examples.STARTED + timedelta(days=day), median_ms=1.0 + day / 10_000) for day in range(6))
    usual = {"median_ms": 1.0, "ci_95_low": 0.999, "ci_95_high": 1.001, "pair_medians_ms": (0.999, 1.0, 1.001)}
    entry = examples.first_entry(**usual).model_copy(update={"days": days})
    scene.state.set_file("results/baseline.json", dumps(examples.stored({NAME: entry})).encode())
    scene.artifact(timed(1.0, reference=(), reference_performance=None), reference_missing="The reference could not be measured.")


def _accepted(scene: Scene, _: object) -> None:
    scene.artifact(RED)
    scene.accept()


def _newer(scene: Scene, _: object) -> None:
    scene.state.add_run(
        RUN + 1, head_sha=HEAD, head_branch="topic", head_repository="octocat/kernels", artifacts=["benchmark-ratchet-results"]
    )
    scene.artifact(RED)
    scene.publish(run_id=RUN + 1)
    scene.artifact(SAME)


def _expired(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    scene.publish()
    shutil.rmtree(scene.place)
    scene.measured.expired = True
    scene.state.add_comment(7, "github-actions[bot]", f"<!-- ratchet:reply:gone:{RUN}.1 -->\nsaid before")


def _next_attempt(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    scene.measured.attempt, scene.measured.conclusion = 2, None


def _moved(scene: Scene, _: object) -> None:
    scene.pull.head_sha = LATER


def _closed(scene: Scene, _: object) -> None:
    scene.pull.state = "closed"


def _skipped(scene: Scene, _: object) -> None:
    scene.measured.conclusion = "skipped"


def _waiting(scene: Scene, _: object) -> None:
    scene.measured.conclusion = "action_required"


def _retargeted(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    scene.fake.script("GET", r"/pulls/7$", [Answer(usual=True, meanwhile=lambda _: setattr(scene.pull, "base_ref", "release"))])


def _foreign(scene: Scene, _: object) -> None:
    scene.artifact(SAME)
    scene.measured.path = ".github/workflows/x.yml"


SCENES: dict[str, Arrange] = {
    "a case is proven slower": lambda scene, _: scene.artifact(RED),
    "a case gives a wrong result, or none": lambda scene, _: scene.artifact(_failed()),
    "the GPU job left no results": _died,
    "the results are of an earlier attempt": _leftover,
    "the results cannot be fetched": lambda scene, _: None,
    "the results are damaged or unsafe": _damaged,
    "the results are of another commit": lambda scene, _: scene.artifact(SAME, head=Tree(commit=LATER)),
    "the results compare nothing": lambda scene, _: scene.artifact(SAME, kind="run", reference=None),
    "a case does not name its reference": lambda scene, _: scene.artifact(SAME, reference=None),
    "the reference is not on the base branch": _off_base,
    "GitHub does not know the reference": lambda scene, _: scene.artifact(SAME, reference=Tree(commit="5" * 40)),
    "the head was compared with itself": lambda scene, _: scene.artifact(SAME, reference=Tree(commit=HEAD)),
    "the base changed while it was judged": _retargeted,
    "nothing was measured": lambda scene, _: scene.artifact(_unfit("a/a"), _skipped_case()),
    "less than half was measured": lambda scene, _: scene.artifact(SAME, _unfit("a/a"), _unfit("a/b")),
    "inconclusive, and `on_inconclusive` is `fail`": _undecided,
    "the base branch's settings or baseline are broken": _broken_settings,
    "publishing ended in the middle": _defect,
    "slower, but not proven": lambda scene, _: scene.artifact(examples.compared(*(1.1 * each for each in STEADY[:8]))),
    "the reference is another commit of the base": _earlier,
    "cases of the baseline were left out": _left_out,
    "cases of the baseline were skipped or new": _skipped_though_known,
    "some cases are unfit": lambda scene, _: scene.artifact(SAME, _unfit("a/a")),
    "the reference could not be measured": _stored,
    "the head removes cases of the baseline": _removed,
    "a case is inconclusive": lambda scene, _: scene.artifact(examples.compared(*VAGUE)),
    "every slowdown is muted": _muted,
    "nothing could be compared": lambda scene, _: scene.artifact(new()),
    "every slowdown was accepted": _accepted,
    "nothing is slower": lambda scene, _: scene.artifact(SAME),
    "a newer run or attempt has reported": _newer,
    "the measurements of a verdict have expired": _expired,
    "the next attempt has begun": _next_attempt,
    "the head has moved before this job began": _moved,
    "the pull request was closed, or its branch is gone": _closed,
    "the run is of another workflow": _foreign,
    "the run was skipped": _skipped,
    "the run waits for approval": _waiting,
}
TITLES = {
    "a case is proven slower": "1 of 1 case slower; worst: ….",
    "a case gives a wrong result, or none": "1 of 1 case failed: ….",
    "the GPU job left no results": "The job that measures ended with “failure” and left no results: its log says why.",
    "the results are of an earlier attempt": (
        "The results of run 900 are those of an earlier attempt: attempt 2 left none. Its log says why."
    ),
    "the results cannot be fetched": "Run 900 left an artifact, but it could not be fetched: it may have expired. Measure again.",
    "the results are damaged or unsafe": "…",
    "the results are of another commit": "The artifact is of …, but run 900 is of ….",
    "the results compare nothing": (
        "The artifact holds times of one commit alone, which compare with nothing: measure with `ratchet check`."
    ),
    "a case does not name its reference": "The run does not say which commit … was compared with: measure again.",
    "the reference is not on the base branch": "The run compares with …, which is not on main: measure against a commit of main.",
    "GitHub does not know the reference": (
        "GitHub does not know …, which the run compares with: measure against a commit of main."
    ),
    "the head was compared with itself": "The run compares … with itself: measure against another commit.",
    "the base changed while it was judged": "The base changed from main to release while this was judged: start Ratchet report…",
    "nothing was measured": "Nothing was measured: 1 unfit, 1 skipped.",
    "less than half was measured": "Only 1 of 3 cases was measured, less than half: 2 unfit.",
    "inconclusive, and `on_inconclusive` is `fail`": "1 of 1 case inconclusive….",
    "the base branch's settings or baseline are broken": "pyproject.toml of main: not valid TOML: ….",
    "publishing ended in the middle": "Publishing ended before there was a verdict: the log of the job that publishes says why.",
    "slower, but not proven": "1 of 1 case slower, but not proven; worst: ….",
    "the reference is another commit of the base": (
        "Compared with …: a pass takes the commit where the head left main, …, or the one that the baseline names for the case."
    ),
    "cases of the baseline were left out": "Not measured, though the baseline has them: ….",
    "cases of the baseline were skipped or new": "Skipped or called new, though the baseline has them: ….",
    "some cases are unfit": "1 of 2 cases could not be measured….",
    "the reference could not be measured": "Compared with stored times alone, since the reference could not be measured. ….",
    "the head removes cases of the baseline": "The head removes what the baseline has: …. …",
    "a case is inconclusive": "1 of 1 case inconclusive….",
    "every slowdown is muted": "1 of 1 case slower or undecided, but muted; …",
    "nothing could be compared": "Nothing to compare: 1 new.",
    "every slowdown was accepted": "1 of 1 case slower, but accepted; ….",
    "nothing is slower": "No case is slower by over 3 %: 1 unchanged.",
    "a newer run or attempt has reported": (
        "Attempt 1 of run 901 has reported on … already: attempt 1 of run 900 changes nothing."
    ),
    "the measurements of a verdict have expired": (
        "The measurements of run 900 have expired, or there were none, so they cannot be judged again: …"
    ),
    "the next attempt has begun": "Attempt 1 of run 900 has ended, and attempt 2 has begun since: that one reports.",
    "the head has moved before this job began": "… was measured, but the head of #7 is … by now: its own run reports.",
    "the pull request was closed, or its branch is gone": (
        "No open pull request has the head …: it was closed or merged, or its branch is gone. Nothing is published."
    ),
    "the run is of another workflow": "Run 900 is of .github/workflows/x.yml, not of …: only samples of that workflow….",
    "the run was skipped": "Run 900 was skipped, so nothing was measured and nothing is published.",
    "the run waits for approval": "Run 900 waits until a person with write access approves it, so nothing is published yet.",
}
"""State → title of the check run, or the sentence in the log where there is none; … stands for anything."""


def plain(text: str) -> str:
    """What a reader sees of a heading or a title."""
    return html.unescape(text).replace("\u200b", "").replace("\u00a0", " ")


MARKS = {"failure": "❌", "action_required": "🟠", "neutral": "⚠️", "success": "✅"}


@pytest.mark.slow
@pytest.mark.parametrize("state", ROWS)
def test_each_state_ends_as_the_page_says(scene: Scene, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Check run, comment and outputs agree with each other, with the list, and with what the page says of a required check."""
    conclusion, sentence = ROWS[state], TITLES[state]
    SCENES[state](scene, monkeypatch)
    checks, bodies = [vars(check).copy() for check in scene.state.checks.values()], scene.ours()
    done = None
    with contextlib.suppress(ZeroDivisionError):
        done = scene.publish()
    pattern = ".*".join(map(re.escape, sentence.split("…")))
    if conclusion == "none":
        assert done
        assert re.fullmatch(pattern, done.subject.why)
        assert [vars(check) for check in scene.state.checks.values()] == checks
        assert scene.ours() == bodies
        return
    end, title = scene.check.conclusion or "", scene.check.title or ""
    assert f"`{end}`" == conclusion
    assert end in BLOCKING | SATISFYING
    assert re.fullmatch(pattern, title)
    heading = next(line for line in scene.ours()[0].splitlines() if line.startswith("### "))
    assert heading.startswith(f"### {MARKS[end]} ")
    said = plain(heading).split(" ", 2)[2].removeprefix("No verdict: ").removesuffix(".")
    assert plain(title).startswith(said)  # the comment has the reasons below
    if done:
        passed = end in SATISFYING
        assert (done.verdict == "pass", done.exit_code("regression") == 0) == (passed, passed)


def test_the_page_lists_each_state() -> None:
    """Every state of the page has a scene here, and every scene a state."""
    assert set(ROWS) == set(SCENES) == set(TITLES)


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_older_run_that_finishes_later_changes_nothing(scene: Scene, attempt: int) -> None:
    """Run 901 is red; run 900, which is older but green, changes neither check run nor comment, nor does its next attempt."""
    _newer(scene, None)
    scene.measured.attempt = attempt
    [body] = scene.ours()
    done = scene.publish(run_id=RUN)
    assert done.verdict == "older"
    assert [check.conclusion for check in scene.state.checks.values()] == ["failure"]
    assert scene.ours() == [body]


def test_the_newest_run_may_be_published_again(scene: Scene) -> None:
    """The same run and attempt, as after an acceptance, and a later attempt of it, have a check run of their own."""
    scene.artifact(RED)
    assert scene.publish().verdict == "regression"
    scene.accept()
    assert scene.publish().verdict == "pass"
    scene.measured.attempt = 2
    assert scene.publish(run_id=RUN).verdict == "pass"
    assert [check.external_id for check in scene.state.checks.values()] == [
        f"{RUN}.{attempt}:{REFERENCE}:main" for attempt in (1, 1, 2)
    ]


@pytest.mark.parametrize("event", ["workflow_dispatch", "push"])
def test_another_run_on_the_head_of_a_pull_request_is_the_pull_request_s(scene: Scene, event: str) -> None:
    """A dispatch or a push to a branch puts a check run on the same commit: it is no newer pass unless it took the merge base."""
    scene.state.parents |= {HEAD: [LATER], LATER: [REFERENCE]}
    scene.artifact(RED)
    scene.publish()
    scene.state.add_run(RUN + 1, event=event, head_sha=HEAD, head_branch="elsewhere", artifacts=["benchmark-ratchet-results"])
    for commit, conclusion in ((HEAD, "failure"), (LATER, "failure"), (REFERENCE, "success")):
        scene.artifact(SAME, reference=Tree(commit=commit))
        scene.publish(run_id=RUN + 1)
        assert [check.conclusion for check in scene.state.checks.values()][-1] == conclusion
        [body] = scene.ours()
        assert f"ratchet:run:{RUN + 1}:" in body


def test_a_check_before_there_is_a_pull_request(scene: Scene) -> None:
    """A commit that is on no base branch and in no pull request yet is no pass beside its own parent either."""
    scene.pull.state = "closed"
    scene.state.parents |= {HEAD: [LATER], LATER: [REFERENCE]}
    scene.measured.event, scene.measured.head_repository = "workflow_dispatch", scene.state.repository
    scene.artifact(SAME, reference=Tree(commit=LATER))
    scene.publish()
    assert scene.check.conclusion == "action_required"


def test_a_case_that_came_to_main_later_is_not_missed(scene: Scene) -> None:
    """What the baseline got after the head had left main is not expected of it."""
    later = examples.first_entry("copy/new", git_commit=scene.pull.base_sha)
    stored = examples.stored({NAME: examples.first_entry(), "copy/new": later})
    scene.state.set_file("results/baseline.json", dumps(stored).encode())
    scene.artifact(SAME)
    assert scene.publish().verdict == "pass"


def test_a_case_is_not_new_because_the_run_says_so(scene: Scene) -> None:
    """One that the baseline has from a commit where the head branched off is compared, or the run is no pass."""
    _baseline(scene, NAME, "copy/a")
    scene.artifact(SAME, new("copy/a"))
    assert scene.publish().verdict == "not measured"
    assert scene.check.title == "Skipped or called new, though the baseline has them: copy/a."


def test_a_reference_that_the_baseline_names_is_no_gap(scene: Scene) -> None:
    """A case may be compared with the commit that the base branch's baseline names for it, and with no other case's."""
    scene.state.parents[REFERENCE] = [LATER]
    _baseline(scene, NAME, git_commit=LATER)
    scene.artifact(SAME, reference=Tree(commit=LATER))
    assert scene.publish().verdict == "pass"
    scene.artifact(SAME, timed(1.0, "copy/a"), reference=Tree(commit=LATER))
    assert scene.publish().verdict == "not measured"


def test_a_stale_merge_base_is_the_pull_request_s(scene: Scene) -> None:
    """Where main got a part of the head since, the commit where it left main as GitHub last saw it will still do."""
    scene.state.parents |= {HEAD: [LATER], LATER: [REFERENCE], "6e" * 20: [LATER, scene.pull.base_sha]}
    scene.state.branches["main"] = "6e" * 20
    for commit in (LATER, REFERENCE):
        scene.artifact(SAME, reference=Tree(commit=commit))
        assert scene.publish().verdict == "pass"


def test_a_regression_stays_a_regression(scene: Scene) -> None:
    """What is missing from a red run is said beside the regression, and does not hide it."""
    _baseline(scene, NAME, "copy/a")
    scene.artifact(RED)
    report = scene.publish().report
    assert report
    assert report.verdict == "regression"
    assert report.warnings[0] == "Not measured, though the baseline has them: copy/a."


def test_an_acceptance_fills_no_gap(scene: Scene) -> None:
    """A slowdown that was accepted is no pass where the run left cases out."""
    _left_out(scene, None)
    scene.artifact(RED)
    scene.accept()
    done = scene.publish()
    assert (done.verdict, scene.check.conclusion) == ("not measured", "action_required")
    assert done.page
    assert state_of(done.page.report, {NAME}, done.page.gaps) is PublishedState.LEFT_OUT
