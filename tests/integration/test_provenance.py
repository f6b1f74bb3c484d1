"""Whose samples, checks and comments count, and which base a verdict is about: by GitHub's word, never by a name or a number."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.core.records.files import dumps
from ratchet.github.publish import Publication, PublishRequest, publish, recheck
from ratchet.github.state import LABEL, acknowledged_in
from tests import examples
from tests.fake_github import Answer, Check
from tests.integration.publish_scene import BOT, FIRST, HEAD, LATER, NAME, RED, RUN, SAME, Scene

BASE = examples.REFERENCE.commit
OTHER = ".github/workflows/x.yml"
MEASURES = ".github/workflows/cuda_benchmark_ratchet.yml"


def conclusions(scene: Scene) -> list[str | None]:
    return [check.conclusion for check in scene.state.checks.values() if check.login == BOT]


def body(scene: Scene) -> str:
    [text] = scene.ours()
    return text


# A verdict names its base.


def test_a_verdict_names_its_base(scene: Scene) -> None:
    """Comment and check run name the base branch, and the commit where the head left it."""
    scene.artifact(SAME)
    scene.publish()
    assert f"**Base** `main`, which the head left at {BASE[:10]}" in body(scene)
    assert scene.check.external_id == f"{RUN}.1:{BASE}:main"


def retarget(scene: Scene, *, same: bool) -> None:
    """A green pull request gets another base, of which GitHub sends no event; ``same``: where it left both is one commit."""
    scene.state.branches["release"] = LATER
    scene.state.parents[LATER] = [BASE] if same else []
    scene.state.parents[HEAD] = [BASE] if same else [LATER, BASE]
    scene.pull.base_ref = "release"
    scene.state.workflows.append("ratchet_report.yml")


def test_a_green_check_does_not_survive_another_base(scene: Scene) -> None:
    """Retargeted without an event, with another merge base: the check is taken back and asks for a new run, once."""
    scene.artifact(SAME)
    scene.publish()
    assert conclusions(scene) == ["success"]
    retarget(scene, same=False)
    assert list(recheck((), "default", scene.client(), scene.environ)) == ["#7: Measured against another base: measure again."]
    assert conclusions(scene) == ["success", "action_required"]
    newest = list(scene.state.checks.values())[-1]
    assert "Start the measuring workflow again, or push." in (newest.summary or "")
    assert list(recheck((), "default", scene.client(), scene.environ)) == []
    assert scene.state.dispatches == []


def test_the_same_samples_are_judged_by_the_rules_of_the_new_base(scene: Scene) -> None:
    """Where the merge base is the same, the run is published again, and by the settings of the new base it is red."""
    scene.set_settings("regression_threshold = '50%'")
    scene.artifact(RED)
    assert scene.publish().verdict == "pass"
    retarget(scene, same=True)
    scene.set_settings("", "release")
    assert list(recheck((7,), "default", scene.client(), scene.environ)) == ["#7: Judged for another base."]
    [order] = scene.state.dispatches
    assert (order["workflow"], order["inputs"]) == ("ratchet_report.yml", {"run_id": str(RUN)})
    assert scene.publish(run_id=RUN).verdict == "regression"
    assert conclusions(scene) == ["success", "action_required", "failure"]
    assert "**Base** `release`" in body(scene)
    assert list(recheck((), "default", scene.client(), scene.environ)) == []


def test_a_base_that_stays_is_left_alone(scene: Scene) -> None:
    """A base branch that only moved forward changes no verdict, nor does a pull request without one."""
    scene.state.add_pull(8, head_sha=LATER, head_ref="other")
    scene.artifact(SAME)
    scene.publish()
    scene.state.branches["main"] = "5" * 40
    scene.state.parents["5" * 40] = [scene.pull.base_sha]
    assert list(recheck((), "default", scene.client(), scene.environ)) == []
    assert conclusions(scene) == ["success"]


def test_a_second_branch_with_the_same_head_gives_no_verdict_by_another_base(scene: Scene) -> None:
    """A check run is of a commit, so a red head stays red by the default branch, whatever pull requests it is the head of."""
    scene.artifact(RED)
    scene.publish()
    scene.state.branches["lenient"] = LATER
    scene.state.parents[LATER] = [BASE]
    scene.set_settings("regression_threshold = '50%'", "lenient")
    again: dict[str, Any] = {"head_sha": HEAD, "head_repository": "octocat/kernels"}
    scene.state.add_pull(8, head_ref="topic-again", base_ref="lenient", **again)
    run = scene.state.add_run(RUN + 1, head_branch="topic-again", **again)
    run.artifacts.append("benchmark-ratchet-results")
    scene.publish(run_id=RUN + 1)
    assert conclusions(scene) == ["failure", "failure"]


def test_a_base_that_changes_while_it_is_judged(scene: Scene) -> None:
    """The verdict was about the base of before, so there is none."""
    scene.artifact(SAME)

    def moves(_: object) -> None:
        scene.pull.base_ref = "release"

    scene.fake.script("GET", r"/pulls/7$", [Answer(usual=True, meanwhile=moves)])
    assert scene.publish().verdict == "none"
    assert scene.check.conclusion == "failure"
    assert "The base changed from main to release while this was judged" in body(scene)


def test_an_old_verdict_is_not_kept_for_a_new_base(scene: Scene) -> None:
    """Without the samples a green verdict stays; after a change of the base it does not."""
    scene.artifact(SAME)
    scene.publish()
    for path in scene.place.iterdir():
        path.unlink()
    assert scene.publish().verdict == "kept"
    retarget(scene, same=False)
    assert scene.publish(run_id=RUN).verdict == "none"
    assert conclusions(scene) == ["success", "failure"]


# State that only we can write.


def foreign_check(scene: Scene, external_id: str, login: str = BOT) -> None:
    made = Check(scene.state.fresh_id(), "ratchet", HEAD, None, external_id, "completed", "success", login=login)
    scene.state.checks[made.id] = made


@pytest.mark.parametrize("number", ["999999999999.1", "901.1", f"{RUN}.7", f"999999999999.1:{BASE}:main"])
def test_a_check_that_names_a_run_that_did_not_report(scene: Scene, number: str) -> None:
    """A check run of our name that names no run, a run of another workflow, or a later attempt, silences nothing."""
    scene.state.add_run(901, head_sha=HEAD, path=OTHER)
    foreign_check(scene, number)
    scene.artifact(RED)
    assert scene.publish().verdict == "regression"
    assert conclusions(scene)[-1] == "failure"
    assert scene.ours()


def test_a_check_of_another_app(scene: Scene) -> None:
    """Not even the id of a true later run counts in the check run of another App."""
    scene.state.add_run(RUN + 1, head_sha=HEAD)
    foreign_check(scene, f"{RUN + 1}.1", "another-app[bot]")
    scene.artifact(RED)
    assert scene.publish().verdict == "regression"
    foreign_check(scene, f"{RUN + 1}.1")  # the same from our own: then the older run changes nothing
    assert scene.publish().verdict == "older"


@pytest.mark.parametrize("number", [RUN + 1, 10**12])
def test_an_echo_of_our_comment_says_nothing_beside_ours(scene: Scene, number: int) -> None:
    """A comment of our bot that another workflow wrote, with a later run in it, is overwritten, and no copy stays."""
    scene.state.add_run(RUN + 1, head_sha=HEAD, path=OTHER)
    for _ in range(2):
        scene.state.add_comment(7, BOT, f"{FIRST}\n<!-- ratchet:run:{number}:{HEAD} -->\n### ✅ all good")
    scene.artifact(RED)
    done = scene.publish()
    assert done.verdict == "regression"
    assert done.notes == ()
    assert "❌" in body(scene)
    assert not any("all good" in each.body for each in scene.state.comments.values())


@pytest.mark.parametrize("by_label", [False, True])
def test_an_edited_acknowledgement_does_not_count(scene: Scene, by_label: bool) -> None:
    """Somebody with write access who edits our acknowledgement, so that it names another person, accepts nothing."""
    scene.artifact(RED)
    scene.pull.labels += [LABEL] * by_label  # then no comment of the person says who it was
    scene.accept(**{"comment": None} if by_label else {})
    assert scene.publish().verdict == "pass"
    acknowledged = next(each for each in scene.state.comments.values() if "ratchet:accept" in each.body and each.author == BOT)
    scene.state.permissions["another"] = "admin"
    acknowledged.body = acknowledged.body.replace("a-maintainer", "another")
    acknowledged.updated_at = scene.state.tick()
    assert acknowledged_in(scene.client().comments(7), BOT) == ()
    assert scene.publish().verdict == "regression"


# Provenance.


def test_samples_of_another_workflow_are_not_published(scene: Scene) -> None:
    """After an honest red run, a workflow of the pull request that uploads invented samples changes nothing."""
    scene.artifact(RED)
    scene.publish()
    there = {"head_branch": "topic", "head_repository": "octocat/kernels"}
    scene.state.add_run(RUN + 1, head_sha=HEAD, path=OTHER, artifacts=["benchmark-ratchet-results"], **there)
    scene.artifact(SAME)
    done = scene.publish(run_id=RUN + 1)
    assert done.verdict == "foreign"
    assert f"is of {OTHER}, not of {MEASURES}" in done.subject.why
    assert conclusions(scene) == ["failure"]
    assert "❌" in body(scene)


def test_a_workflow_of_another_name_may_be_the_one_that_measures(scene: Scene) -> None:
    """MEASURING_WORKFLOW names it; then the usual one does not count."""
    scene.environ["MEASURING_WORKFLOW"] = "x.yml"
    scene.artifact(SAME)
    assert scene.publish().verdict == "foreign"
    scene.measured.path = OTHER
    done = scene.publish()
    assert (done.verdict, done.page and done.page.problem) == ("pass", "")


CHANGED = {
    "The measuring workflow was changed in this pull request": (MEASURES, b"jobs: {}"),
    "This pull request changes files of jobs": (".github/actions/x/action.yml", b"x"),
    "This pull request changes the benchmarks": ("bench/deep/scale.py", b"x"),
    "This pull request changes the settings": ("pyproject.toml", b"[tool.ratchet]\npairs = 9\n"),
    "This pull request edits the baseline file": ("results/baseline.json", dumps(examples.baseline()).encode()),
}


@pytest.mark.slow
@pytest.mark.parametrize("said", CHANGED)
@pytest.mark.parametrize("beside", [0, 3_200])
def test_what_a_pull_request_changes_of_its_measurement(scene: Scene, said: str, beside: int) -> None:
    """The comment says it, however many other files the pull request touches; and nothing of the other kinds."""
    path, content = CHANGED[said]
    for commit in (BASE, HEAD):
        scene.state.set_file("pyproject.toml", b"[project]\nname = 'x'\n", commit)
    for number in range(beside):
        scene.state.set_file(f"a/{number}.cu", b"x", HEAD)
    scene.state.set_file(path, content, HEAD)
    scene.artifact(SAME)
    scene.publish()
    assert [each for each in CHANGED if each in body(scene)] == [said]
    alerts = [line for line in body(scene).splitlines() if line.startswith("> ⚠️")]
    assert said in alerts[0]


def test_a_changed_workflow_stands_first(scene: Scene) -> None:
    """Of all warnings: whoever changed it can have any samples uploaded."""
    for path, content in CHANGED.values():
        scene.state.set_file(path, content, HEAD)
    scene.artifact(SAME)
    client = scene.client()
    publish(PublishRequest(scene.place), client, scene.environ)
    alerts = [line for line in body(scene).splitlines() if line.startswith("> ⚠️")]
    assert "The measuring workflow was changed" in alerts[0]
    assert len(alerts) == 4  # the workflow's folder is not told of a second time


def test_settings_for_other_tools_are_no_change(scene: Scene) -> None:
    """Only [tool.ratchet] counts; a file that cannot be read counts as changed."""
    scene.state.set_file("pyproject.toml", b"[project]\nname = 'x'\n", BASE)
    for text, told in ((b"[project]\nname = 'y'\n", False), (b"[project\n", True), (b"tool = 3\n", True), (b"\xff", True)):
        scene.state.set_file("pyproject.toml", text, HEAD)
        scene.artifact(SAME)
        scene.publish()
        assert ("changes the settings" in body(scene)) == told, text


def test_the_workflow_of_an_old_base(scene: Scene) -> None:
    """A base branch with another measuring workflow than the default branch's is said too."""
    scene.state.set_file(MEASURES, b"new", scene.pull.base_sha)
    scene.state.branches["release"] = "5" * 40
    scene.state.parents["5" * 40] = [BASE]
    scene.pull.base_ref = "release"
    scene.artifact(SAME)
    scene.publish()
    assert "The measuring workflow of `release` is not that of the default branch" in body(scene)


# A merge queue.


def published_from_queue(scene: Scene, event: str) -> Publication:
    scene.pull.state = "closed"
    scene.state.branches["main"] = BASE
    scene.measured.event, scene.measured.head_repository = event, scene.state.repository
    scene.measured.head_branch = f"gh-readonly-queue/main/pr-7-{LATER}"
    scene.state.parents = {HEAD: [LATER], LATER: [BASE]}
    scene.artifact(SAME, reference=examples.REFERENCE.model_copy(update={"commit": LATER}))
    return scene.publish()


def test_a_merge_queue_is_known_by_its_event(scene: Scene) -> None:
    """A push to a branch that is only called as one of a queue's is no entry: the commit in its name is no base of main."""
    done = published_from_queue(scene, "merge_group")
    assert (done.verdict, done.subject.queued_onto) == ("pass", LATER)
    assert (done.subject.base_ref, NAME in done.names()) == ("main", False)


def test_a_push_to_a_branch_of_that_name_is_a_push(scene: Scene) -> None:
    """Anybody with write access may push it; slow commits below it are not what it is compared with."""
    done = published_from_queue(scene, "push")
    assert done.subject.queued_onto == ""
    assert done.verdict == "not measured"
    assert scene.check.conclusion == "action_required"
