"""`ratchet ci publish` against a stand-in for GitHub that keeps to GitHub's own description."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import Exit
from ratchet.core.records.files import dumps, save
from ratchet.core.records.run import CaseRun, Config, Failure, Policy, Tree
from ratchet.github.comment import failed_in, run_id_of
from ratchet.github.publish import PublishRequest, publish
from ratchet.github.state import LABEL
from tests import examples, reports
from tests.history_examples import timed
from tests.integration.playground import Finished
from tests.integration.publish_scene import BOT, FIRST, HEAD, LATER, NAME, RED, RUN, SAME, Scene

# ---- the way it goes


def test_a_red_pull_request_of_a_fork(scene: Scene, command: Callable[..., Finished]) -> None:
    """It gets one comment, one completed check run, annotations, outputs and a summary; publishing a red verdict exits with 0."""
    scene.artifact(RED, timed(0.8, "copy/a"))
    done = command()
    assert (done.code, done.err) == (0, "")
    [body] = scene.ours()
    assert run_id_of(body) == RUN
    assert (scene.check.conclusion, scene.check.name) == ("failure", "ratchet")
    assert "1 of 2 cases slower; worst: attention/training_512 +10 %." in done.out
    outputs = (scene.folder / "outputs").read_text(encoding="utf-8")
    values = dict(piece.split("\n", 2)[:2] for piece in outputs_of(outputs))
    assert {name: values[name] for name in ("verdict", "regressions", "improvements")} == {
        "verdict": "regressed",
        "regressions": "1",
        "improvements": "1",
    }
    said = Path(values["report-path"]).read_text(encoding="utf-8")
    assert "1 of 2 cases slower; worst: attention/training_512" in said
    assert values["comment-url"].startswith("http")
    assert values["check-url"].endswith(f"/runs/{next(iter(scene.state.checks))}")
    assert "+10.0" in (scene.folder / "summary.md").read_text(encoding="utf-8")


def outputs_of(text: str) -> list[str]:
    """``name\\nvalue\\nend`` of each output."""
    pieces = []
    lines = iter(text.splitlines())
    for line in lines:
        name, _, end = line.partition("<<")
        value = []
        for each in lines:
            if each == end:
                break
            value.append(each)
        pieces.append("\n".join([name, "\n".join(value), end]))
    return pieces


def test_a_job_can_fail_with_the_verdict(scene: Scene, command: Callable[..., Finished]) -> None:
    """With --fail-on regression a red verdict exits with 1 after it was published, and no verdict with 3."""
    scene.artifact(RED)
    assert command("--fail-on", "regression").code == 1
    assert scene.check.conclusion == "failure"
    (scene.place / "current.json").write_text("{", encoding="utf-8")
    assert command("--fail-on", "regression").code == 3


def test_without_a_comment(scene: Scene, command: Callable[..., Finished]) -> None:
    """--no-comment, or COMMENT=false as a workflow gives it, leaves the check run alone."""
    scene.artifact(SAME)
    assert command("--no-comment").code == 0
    assert command(COMMENT="false").code == 0
    assert (scene.ours(), len(scene.state.checks)) == ([], 2)
    assert command(COMMENT="").code == 0
    assert len(scene.ours()) == 1


def test_a_run_named_by_hand(scene: Scene, command: Callable[..., Finished]) -> None:
    """--run-id, RUN_ID and the input of a dispatch name the run that is published again."""
    scene.artifact(SAME)
    scene.set_event("workflow_dispatch", {"ref": "refs/heads/main", "sender": {"login": "a-maintainer"}, "inputs": {}})
    assert "Name it with --run-id." in command().sentence
    assert command("--run-id", str(RUN)).code == 0
    assert command(RUN_ID=str(RUN)).code == 0
    inputs = {"run_id": str(RUN)}
    scene.set_event("workflow_dispatch", {"ref": "refs/heads/main", "sender": {"login": "a-maintainer"}, "inputs": inputs})
    assert command(RUN_ID="").code == 0
    assert len(scene.ours()) == 1


@pytest.mark.slow
def test_one_comment_after_several_pushes(scene: Scene) -> None:
    """Among two hundred other comments, and copies of its first line by others, ours is the one that is updated."""
    scene.artifact(SAME)
    copies = [scene.state.add_comment(7, author, f"{FIRST}\ncopied") for author in ("octocat", "another-app[bot]")]
    for number in range(100):
        scene.state.add_comment(7, "octocat", f"{number}")
    scene.publish()
    for number in range(100):
        scene.state.add_comment(7, "octocat", f"{number}")
    for number in range(1, 6):
        sha = f"{number:040x}"
        scene.pull.head_sha = sha
        scene.state.add_run(RUN + number, head_sha=sha, head_branch="topic", head_repository="octocat/kernels")
        scene.artifact(SAME, head=Tree(commit=sha))
        scene.publish(run_id=RUN + number)
    [body] = scene.ours()
    assert run_id_of(body) == RUN + 5
    assert [copy.body for copy in copies] == [f"{FIRST}\ncopied"] * 2


def test_a_merge_queue_and_a_push(scene: Scene) -> None:
    """Runs of a merge queue or a push have no pull request: a check run on their commit, by the rules of their branch."""
    scene.pull.state = "closed"
    scene.state.branches |= {"release": "5" * 40, "main": HEAD}
    scene.state.parents["5" * 40] = [examples.REFERENCE.commit]
    scene.set_settings('regression_threshold = "20%"\n', "release")
    scene.artifact(RED)
    scene.measured.event, scene.measured.head_repository = "merge_group", scene.state.repository
    scene.measured.head_branch = f"gh-readonly-queue/release/pr-7-{HEAD}"
    assert scene.publish().verdict == "pass"
    scene.measured.event, scene.measured.head_branch = "push", "main"
    assert scene.publish().verdict == "regression"
    assert {check.head_sha for check in scene.state.checks.values()} == {HEAD}
    assert scene.ours() == []


def test_a_merge_queue_that_publishes_in_its_own_run(scene: Scene, command: Callable[..., Finished]) -> None:
    """A later job of the very run that measured an entry of the queue publishes it by the event that GitHub sends for it."""
    branch = f"gh-readonly-queue/main/pr-7-{scene.pull.base_sha}"
    scene.measured.event, scene.measured.head_repository = "merge_group", scene.state.repository
    scene.measured.head_branch = branch
    group = {"head_sha": HEAD, "head_ref": f"refs/heads/{branch}", "base_sha": scene.pull.base_sha, "base_ref": "refs/heads/main"}
    author = {"name": "octocat", "email": "octocat@github.com"}
    head = {"id": HEAD, "tree_id": "5" * 40, "message": "Merge pull request #7", "timestamp": "2026-11-21T08:00:00Z"}
    payload = {
        "action": "checks_requested",
        "merge_group": group | {"head_commit": head | {"author": author, "committer": author}},
    }
    scene.set_event("merge_group", payload | {"sender": {"login": "octocat"}})
    scene.artifact(RED, reference=Tree(commit=scene.pull.base_sha))
    assert command(GITHUB_RUN_ID=str(RUN)).code == 0
    assert (scene.check.head_sha, scene.check.conclusion, scene.state.comments) == (HEAD, "failure", {})


# ---- what counts is the base ref's


def test_the_artifact_s_own_policy_says_nothing(scene: Scene) -> None:
    """The gate is the base ref's, or the job's own, not that of the record or of the head's settings."""
    scene.artifact(RED, policy=Policy(regression=0.9))
    scene.set_settings('regression_threshold = "90%"\n', HEAD)
    assert scene.publish().verdict == "regression"
    scene.set_settings('regression_threshold = "20%"\n')
    assert scene.publish().verdict == "pass"
    scene.environ["RATCHET_REGRESSION_THRESHOLD"] = "3%"
    assert scene.publish().verdict == "regression"


def test_a_verdict_in_the_artifact_says_nothing(scene: Scene) -> None:
    """A report that calls the run green changes nothing: only samples are read."""
    scene.artifact(RED)
    save(scene.place / "report.json", reports.report((), verdict="pass"))
    assert scene.publish().verdict == "regression"


def test_a_baseline_edited_by_hand(scene: Scene) -> None:
    """The comment says that the pull request changes the baseline; our own pull request of it is not called so."""
    scene.artifact(SAME)
    scene.state.set_file("results/baseline.json", b"{}", HEAD)
    page = scene.publish().page
    assert page
    assert page.changes == ("baseline",)
    assert "edits the baseline file" in scene.ours()[0]
    ours = {"author": BOT, "head_repository": scene.state.repository, "head_ref": "ratchet-baseline"}
    for name, value in ours.items():
        setattr(scene.pull, name, value)
    scene.measured.head_repository, scene.measured.head_branch = scene.state.repository, "ratchet-baseline"
    page = scene.publish().page
    assert page
    assert page.changes == ()


def test_a_baseline_on_its_own_branch(scene: Scene) -> None:
    """In the mode `branch` the baseline is read there, and from the base ref until there is one."""
    scene.set_settings('baseline_mode = "branch"\n')
    scene.artifact(timed(1.0, "copy/a"))
    main, side = (dumps(examples.stored({name: examples.first_entry(name)})).encode() for name in ("on/main", "on/side"))
    scene.state.set_file("results/baseline.json", main)
    report = scene.publish().report
    assert report
    assert "on/main" in report.headline
    scene.state.branches["ratchet-baseline"] = "5" * 40
    scene.state.set_file("results/baseline.json", side, "ratchet-baseline")
    report = scene.publish().report
    assert report
    assert "on/side" in report.headline


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("pyproject.toml", b"[tool.ratchet\n", "pyproject.toml of main: not valid TOML"),
        ("pyproject.toml", b"[tool.ratchet]\nresults = '../x'\n", "lies outside the repository"),
        ("results/baseline.json", b"{", "results/baseline.json of main is not JSON"),
    ],
)
def test_rules_that_cannot_be_read(scene: Scene, path: str, content: bytes, said: str) -> None:
    """A base ref whose settings or baseline are broken gives no verdict: check run and comment say so, and the job fails."""
    scene.artifact(SAME)
    scene.state.set_file(path, content)
    done = scene.publish()
    assert done.failed
    assert (done.failed.exit_code, scene.check.conclusion) == (Exit.USAGE, "failure")
    assert said in str(done.failed)
    assert "No verdict" in scene.ours()[0]


# ---- heads that move, pull requests that end


def test_a_head_that_moves_meanwhile(scene: Scene) -> None:
    """A push between verdict and comment makes the comment say that it is about an earlier head."""
    scene.artifact(SAME)
    client = scene.client()
    looks: list[int] = []
    pull = client.pull

    def moved(number: int) -> Any:
        looks.append(number)
        return replace(pull(number), head_sha=LATER)

    client.pull = moved  # type: ignore[method-assign]
    publish(PublishRequest(scene.place), client, scene.environ)
    assert set(looks) == {7}
    assert LATER[:7] in scene.ours()[0]
    assert scene.check.conclusion == "success"


def test_a_later_run_has_reported(scene: Scene) -> None:
    """The comment of a later run stays when an earlier one is published again."""
    scene.artifact(SAME)
    scene.state.add_run(RUN + 1, head_sha=HEAD)
    scene.state.add_comment(7, BOT, f"{FIRST}\n<!-- ratchet:run:{RUN + 1}:{HEAD} -->\n")
    done = scene.publish()
    assert f"The later run {RUN + 1} has reported already" in done.notes[0]
    assert run_id_of(scene.ours()[0]) == RUN + 1


@pytest.mark.parametrize("ended", ["closed", "gone", "forked away"])
def test_a_pull_request_that_ended(scene: Scene, ended: str) -> None:
    """A closed pull request, a deleted branch or a deleted fork: nothing is published, which is said."""
    scene.artifact(SAME)
    scene.pull.state = "closed"
    if ended == "gone":
        scene.state.pulls.clear()
    if ended == "forked away":
        scene.measured.head_repository = scene.pull.head_repository = None
    done = scene.publish()
    assert (done.verdict, done.exit_code("regression")) == ("closed", 0)
    assert "No open pull request has the head" in done.subject.why
    assert (scene.state.comments, scene.state.checks) == ({}, {})


def test_closed_between_verdict_and_comment(scene: Scene) -> None:
    """The check run is completed; a pull request that was closed meanwhile gets no comment."""
    scene.artifact(SAME)
    client = scene.client()
    pull = client.pull
    client.pull = lambda number: replace(pull(number), state="closed")  # type: ignore[method-assign]
    done = publish(PublishRequest(scene.place), client, scene.environ)
    assert done.notes == ("#7 was closed meanwhile: no comment.",)
    assert (scene.ours(), scene.check.conclusion) == ([], "success")


def test_a_branch_with_two_pull_requests(scene: Scene) -> None:
    """Of two with the same head, the one onto the default branch is told."""
    scene.artifact(SAME)
    scene.state.branches["release"] = "5" * 40
    scene.state.add_pull(3, head_sha=HEAD, head_ref="topic", head_repository="octocat/kernels", base_ref="release")
    scene.publish()
    assert [each.number for each in scene.state.comments.values()] == [7]


def test_the_number_in_the_artifact_or_payload_says_nothing(scene: Scene) -> None:
    """The pull request is found by head repository and branch; whatever number the payload has is not looked at."""
    scene.artifact(SAME)
    scene.state.add_pull(1, head_sha=LATER, head_ref="other")
    payload = json.loads((scene.folder / "event.json").read_text(encoding="utf-8"))
    payload["workflow_run"]["pull_requests"] = [{"number": 1}]
    scene.set_event("workflow_run", payload)
    scene.publish()
    assert [each.number for each in scene.state.comments.values()] == [7]


# ---- acceptances


def test_a_failed_case_stays_red_whoever_accepted_it(scene: Scene) -> None:
    """The comment names failed cases where `ratchet ci command` finds them, and says so where one was accepted all the same."""
    broken = Failure(side="head", stage="correctness", message="wrong result")
    scene.artifact(RED, CaseRun(name="copy/wrong", benchmark="copy", config=Config(name="wrong"), failures=(broken,)))
    scene.accept("copy/wrong")
    done = scene.publish()
    assert (done.verdict, scene.check.conclusion) == ("regression", "failure")
    assert failed_in(scene.ours()[0]) == ("copy/wrong",)
    assert "copy/wrong failed, so the acceptance by a-maintainer changes nothing" in scene.ours()[0].replace("\\", "")


def test_the_label_accepts_every_regression(scene: Scene) -> None:
    """While the label is there, every regression of that head is accepted; without it, none."""
    scene.artifact(RED, timed(1.2, "copy/a"))
    scene.accept("*/*", comment=None)
    assert scene.publish().verdict == "regression"
    scene.pull.labels.append(LABEL)
    done = scene.publish()
    assert done.verdict == "pass"
    assert done.page
    assert {each.case for each in done.page.acceptances} == {NAME, "copy/a"}


@pytest.mark.parametrize("how", ["another head", "no rights", "edited", "deleted", "forged"])
def test_what_is_no_acceptance(scene: Scene, how: str) -> None:
    """It expires with the head and with the rights of the person, and a comment that was changed or forged is none."""
    scene.artifact(RED)
    if how == "another head":
        scene.accept(sha=LATER)
    else:
        scene.accept()
    said, told = scene.state.comments.values()
    match how:
        case "no rights":
            scene.state.permissions["a-maintainer"] = "read"
        case "edited":
            said.updated_at = scene.state.tick()
        case "deleted":
            del scene.state.comments[said.id]
        case "forged":
            told.author = "octocat"
    assert scene.publish().verdict == "regression"
