"""`ratchet ci command` against a stand-in for GitHub: who may do what, for which head, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import Exit, UsageError
from ratchet.core.records.files import dumps
from ratchet.github.client import GitHub
from ratchet.github.command import CommandReply, answer
from ratchet.github.comment import MARKER, render_comment
from ratchet.github.errors import ForgeError
from ratchet.github.event import parse_event
from ratchet.github.records import Acceptance
from ratchet.github.state import LABEL, acknowledged_in
from tests import examples
from tests.fake_github import Answer, Comment, FakeGitHub
from tests.hostile_comments import HOSTILE
from tests.integration.playground import Finished, Playground
from tests.recorded_runs import recorded

NAME = "attention/training_512"
HEAD, LATER = "a" * 40, "4e" * 20
RUN = 900
BOT = "github-actions[bot]"
ACCEPT = f"/ratchet accept {NAME} masked rows were wrong"
PROFILE = f"/ratchet profile {NAME}"


class Scene:
    """A pull request with our report on its head, and a maintainer."""

    def __init__(self, folder: Path, fake: FakeGitHub) -> None:
        self.fake, self.state, self.folder = fake, fake.state, folder
        self.pull = self.state.add_pull(7, head_sha=HEAD, head_repository="octocat/kernels")
        self.state.permissions["a-maintainer"] = "maintain"
        self.state.workflows += ["ratchet_report.yml", "cuda_profile.yml"]
        self.state.set_file("results/baseline.json", dumps(examples.stored({NAME: examples.first_entry()})).encode())
        self.measured = self.state.add_run(RUN, head_sha=HEAD, artifacts=["benchmark-ratchet-results"])
        self.report = self.state.add_comment(7, BOT, self.report_of(HEAD))

    @staticmethod
    def report_of(sha: str) -> str:
        first = f"{MARKER.format(id='default')}\n<!-- ratchet:run:{RUN}:{sha} -->"
        return f"{first}\n`copy/new` is slower, `copy/wrong` failed.\n\n<!-- ratchet:failed:copy/wrong copy/crashed -->\n"

    def event(self, said: Comment, action: str = "created", on_pull: bool = True) -> tuple[str, dict[str, Any]]:
        issue = {"number": 7} | ({"pull_request": {"url": "x"}} if on_pull else {})
        comment = {"id": said.id, "body": said.body, "user": {"login": said.author}}
        return "issue_comment", {"action": action, "issue": issue, "comment": comment}

    def dispatch(self, sender: str = BOT, **inputs: str) -> tuple[str, dict[str, Any]]:
        given = {"pr": "7", "sha": HEAD, "actor": "a-maintainer"} | inputs
        return "workflow_dispatch", {"ref": "refs/heads/main", "sender": {"login": sender}, "inputs": given}

    def answer(self, event: tuple[str, dict[str, Any]]) -> CommandReply:
        client = GitHub(self.fake.token, self.fake.url, self.state.repository, patience_s=0, sleep=lambda _: None)
        return answer(parse_event(*event), client, {}, "default")

    def say(self, body: str, author: str = "a-maintainer") -> CommandReply:
        """Somebody comments, and the command runs."""
        self.said = self.state.add_comment(7, author, body)
        return self.answer(self.event(self.said))

    def replies(self) -> list[str]:
        return [each.body for each in self.state.comments.values() if each.author == BOT and each is not self.report]

    def acknowledged(self) -> tuple[Acceptance, ...]:
        return acknowledged_in(self.state.comments.values(), BOT)  # type: ignore[arg-type]  # the stand-in's have the same fields

    def refused(self, sentence: str) -> None:
        """One answer with this sentence, nothing acknowledged and nothing started."""
        [reply] = self.replies()
        assert sentence in reply
        assert (self.acknowledged(), self.state.dispatches) == ((), [])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with FakeGitHub() as fake:
        yield Scene(tmp_path, fake)


def test_accept(scene: Scene) -> None:
    """It is acknowledged for the present head, with who and why, and the run is published again."""
    done = scene.say(f"Looks right.\n\n{ACCEPT} @octocat #1")
    assert (done.done, done.sentence) == (True, f"Accepted: {NAME} at {HEAD[:10]}, asked for by a-maintainer.")
    [taken] = scene.acknowledged()
    assert (taken.case, taken.by, taken.sha, taken.comment) == (NAME, "a-maintainer", HEAD, scene.said.id)
    assert taken.reason == "masked rows were wrong @octocat #1"
    [dispatched] = scene.state.dispatches
    assert (dispatched["workflow"], dispatched["ref"], dispatched["inputs"]) == (
        "ratchet_report.yml",
        "main",
        {"run_id": str(RUN)},
    )
    assert scene.said.reactions == [f"{BOT}:eyes", f"{BOT}:+1"]
    shown = scene.replies()[0].split("-->", 1)[1]
    assert HEAD in shown
    assert "@octocat" not in shown


def test_accept_as_a_job_runs_it(scene: Scene, play: Playground) -> None:
    """The command reads the event, token and repository from GitHub's variables, and prints one line."""
    said = scene.state.add_comment(7, "a-maintainer", ACCEPT)
    name, payload = scene.event(said)
    path = scene.folder / "event.json"
    path.write_text(json.dumps(payload), encoding="utf-8")
    env = {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), "GITHUB_TOKEN": scene.fake.token}
    env |= {"GITHUB_API_URL": scene.fake.url, "GITHUB_REPOSITORY": scene.state.repository}
    done: Finished = play.ratchet("command", env=env)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Accepted: {NAME} at {HEAD[:10]}, asked for by a-maintainer.\n"
    without = {name: value for name, value in env.items() if name != "GITHUB_EVENT_PATH"}
    assert "this is not a job of a workflow" in play.ratchet("command", env=without).sentence


@pytest.mark.parametrize("honest", [True, False])
def test_a_report_of_a_run_that_github_does_not_know_is_none(scene: Scene, *, honest: bool) -> None:
    """A comment in our bot's name about a run of another workflow, of another head or of none is no report, even beside one."""
    scene.state.add_run(901, head_sha=HEAD, path=".github/workflows/x.yml", artifacts=["benchmark-ratchet-results"])
    scene.state.add_run(902, head_sha=LATER, artifacts=["benchmark-ratchet-results"])
    for number in (901, 902, 10**12):
        body = scene.report_of(HEAD).replace(f"run:{RUN}:", f"run:{number}:")
        scene.state.add_comment(7, BOT, body)
    if not honest:
        del scene.state.comments[scene.report.id]
    done = scene.say(ACCEPT)
    assert done.done == honest
    assert [order["inputs"] for order in scene.state.dispatches] == [{"run_id": str(RUN)}] * honest
    assert honest or f"There is no report of the head {HEAD[:10]} yet" in done.sentence


def test_the_same_job_again(scene: Scene) -> None:
    """A job that is run again acknowledges nothing twice."""
    scene.say(ACCEPT)
    assert scene.answer(scene.event(scene.said)).done
    assert len(scene.acknowledged()) == 1


def test_two_acceptances_one_after_the_other(scene: Scene) -> None:
    """The report that the first one renews is no reason to refuse the second."""
    first = scene.state.add_comment(7, "a-maintainer", ACCEPT)
    second = scene.state.add_comment(7, "a-maintainer", "/ratchet accept copy/new needed")
    assert scene.answer(scene.event(first)).done
    scene.report.updated_at = scene.state.tick()
    assert scene.answer(scene.event(second)).done
    assert {each.case for each in scene.acknowledged()} == {NAME, "copy/new"}


def test_profile(scene: Scene) -> None:
    """The profile workflow is started at the present head, beside where it left the base, and an answer says so."""
    left = "c" * 40
    scene.state.parents |= {HEAD: (left,), scene.pull.base_sha: (left,)}
    assert scene.say(f"{PROFILE} copy/new").done
    [dispatched] = scene.state.dispatches
    inputs = {"case": f"{NAME} copy/new", "base": left, "sha": HEAD}
    assert (dispatched["workflow"], dispatched["inputs"]) == ("cuda_profile.yml", inputs)
    assert f"Profiling `{NAME}`, `copy/new` at {HEAD}" in scene.replies()[0]


def test_a_case_is_found_in_the_report_as_it_is_written(scene: Scene) -> None:
    """A regression that no baseline knows can be accepted by the name in the report's table, which breaks it for phones."""
    red = recorded("h200_red").comment_page
    report = render_comment(replace(red, run=replace(red.run, head_sha=HEAD, id=RUN)))
    assert "<code>normalize/<wbr>rows_<wbr>16k</code>" in report
    scene.report.body = report
    assert scene.say("/ratchet accept normalize/rows_16k needed").done


@pytest.mark.parametrize("cases", ["copy/wrong", f"{NAME} copy/new copy/wrong"])
def test_a_failed_case_is_not_accepted(scene: Scene, cases: str) -> None:
    """Who accepts a case that gave a wrong result or crashed is told why not, and nothing beside it is accepted either."""
    assert not scene.say(f"/ratchet accept {cases} known").done
    scene.refused("`copy/wrong` failed: it gave a wrong result or did not run. Only a slowdown can be accepted.")


def test_the_artifacts_of_several_models_can_be_judged_again(scene: Scene) -> None:
    """Each has the name of its model at its end, and none has the plain one; another artifact is none of them."""
    scene.measured.artifacts = ["benchmark-ratchet-resultsets"]
    assert "have expired, or there were none" in scene.say(ACCEPT).sentence
    scene.measured.artifacts = ["benchmark-ratchet-results-h200", "benchmark-ratchet-results-l4"]
    assert scene.say(ACCEPT).done


def test_an_expired_artifact_leaves_nothing_to_judge(scene: Scene) -> None:
    """Where the measurements are gone, nothing is accepted or published again: the verdict stays, and the reply says so."""
    scene.measured.expired = True
    scene.say(ACCEPT)
    scene.refused(
        f"The measurements of run {RUN} have expired, or there were none, so they cannot be judged again: the verdict stays"
    )


def test_a_locked_conversation_is_named(scene: Scene) -> None:
    """GitHub takes no comment there: the error says so, and blames no permission."""
    scene.pull.locked = True
    with pytest.raises(ForgeError, match=r"the conversation is locked .* Unlock it") as caught:
        scene.say(ACCEPT)
    assert "permissions" not in str(caught.value)
    assert caught.value.exit_code is Exit.NOT_MEASURED
    assert (scene.replies(), scene.state.dispatches) == ([], [])


@pytest.mark.parametrize("body", ["Thanks!", f"I would say {ACCEPT}", *HOSTILE.values()])
def test_what_is_no_command(scene: Scene, body: str) -> None:
    """Talk, quotations, code and what is hidden are answered by silence, though a maintainer wrote it."""
    assert not scene.say(body).done
    assert (scene.replies(), scene.said.reactions, scene.state.dispatches) == ([], [], [])


@pytest.mark.parametrize("role", ["none", "read", "triage"])
@pytest.mark.parametrize("body", [ACCEPT, PROFILE, "/ratchet rm"])
def test_somebody_without_rights(scene: Scene, body: str, role: str) -> None:
    """Write access decides, asked of GitHub; without it a comment gets one reaction, and no reply however often it is said."""
    scene.state.permissions |= {} if role == "none" else {"octocat": role}
    for _ in range(3):
        assert not scene.say(body, "octocat").done
        scene.answer(scene.event(scene.said))
        assert scene.said.reactions == [f"{BOT}:confused"]
    assert (scene.replies(), scene.state.dispatches) == ([], [])


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("/ratchet", "There is no such command."),
        ("/ratchet accept", "It names no case."),
        (f"/ratchet accept {NAME}", "there is none: say why"),
        ("/ratchet accept * because", "name each case"),
        ("/ratchet accept attention/nothing because", "There is no case `attention/nothing`"),
        ("/ratchet profile attention/nothing", "There is no case `attention/nothing`"),
        (f"{PROFILE} and more", "takes cases and nothing else"),
        (f"{ACCEPT}\n{PROFILE}", "has several"),
    ],
)
def test_bad_commands(scene: Scene, body: str, sentence: str) -> None:
    """Each is answered by one sentence that says what to write."""
    scene.say(body)
    scene.refused(sentence)


def test_an_edited_comment(scene: Scene) -> None:
    """A comment that was edited by the time it is read may not be what its author meant."""
    said = scene.state.add_comment(7, "a-maintainer", ACCEPT)
    said.updated_at += timedelta(seconds=5)
    scene.answer(scene.event(said))
    scene.refused("The comment was edited")


def test_a_deleted_comment(scene: Scene) -> None:
    """One that is gone by the time it is read is no command."""
    said = scene.state.add_comment(7, "a-maintainer", ACCEPT)
    del scene.state.comments[said.id]
    assert not scene.answer(scene.event(said)).done
    assert scene.replies() == []


def test_the_payload_is_not_believed(scene: Scene) -> None:
    """Author and words are those that GitHub has, not those of the payload."""
    said = scene.state.add_comment(7, "octocat", "Nice.")
    name, payload = scene.event(said)
    payload["comment"] |= {"body": ACCEPT, "user": {"login": "a-maintainer"}}
    assert not scene.answer((name, payload)).done
    assert scene.acknowledged() == ()


@pytest.mark.parametrize(("action", "on_pull"), [("edited", True), ("deleted", True), ("created", False)])
def test_other_events_of_comments(scene: Scene, action: str, on_pull: bool) -> None:
    """Only new comments on pull requests count."""
    said = scene.state.add_comment(7, "a-maintainer", ACCEPT)
    assert not scene.answer(scene.event(said, action, on_pull)).done
    assert scene.replies() == []


def test_our_own_comments_are_no_commands(scene: Scene) -> None:
    """The bot does not answer itself."""
    scene.state.permissions[BOT] = "write"
    assert not scene.say(ACCEPT, BOT).done
    assert len(scene.replies()) == 1


def test_a_closed_pull_request(scene: Scene) -> None:
    """There is nothing to accept any more."""
    scene.pull.state = "closed"
    scene.say(ACCEPT)
    scene.refused("The pull request is closed")


@pytest.mark.parametrize("how", ["no report", "another head", "a copy", "a newer report"])
def test_nothing_is_accepted_unseen(scene: Scene, how: str) -> None:
    """There has to be our report of the present head, and it has to be older than the comment."""
    said = scene.state.add_comment(7, "a-maintainer", ACCEPT)
    match how:
        case "no report":
            scene.report.body = "Something else."
        case "another head":
            scene.pull.head_sha = LATER
        case "a copy":
            scene.report.author = "octocat"
        case "a newer report":
            scene.report.updated_at = scene.state.tick()
    scene.answer(scene.event(said))
    sentence = "came after the comment" if how == "a newer report" else "There is no report of the head"
    assert sentence in next(body for body in scene.replies() if body.startswith("<!-- ratchet:reply:"))
    assert (scene.acknowledged(), scene.state.dispatches) == ((), [])


# ---- the label


@pytest.mark.parametrize("how", ["dispatched", "direct"])
def test_the_label(scene: Scene, how: str) -> None:
    """The label accepts every regression of that head, in the name of who set it, once."""
    scene.pull.labels.append(LABEL)
    payload = {"action": "labeled", "label": {"name": LABEL}, "sender": {"login": "a-maintainer"}}
    direct = ("pull_request_target", payload | {"pull_request": {"number": 7, "head": {"sha": HEAD}}})
    for _ in range(2):
        assert scene.answer(scene.dispatch() if how == "dispatched" else direct).done
    [taken] = scene.acknowledged()
    assert (taken.case, taken.by, taken.sha, taken.comment) == ("*/*", "a-maintainer", HEAD, None)
    assert {each["workflow"] for each in scene.state.dispatches} == {"ratchet_report.yml"}


def test_the_label_by_hand(scene: Scene) -> None:
    """Whoever starts the workflow by hand speaks for nobody else."""
    scene.pull.labels.append(LABEL)
    scene.answer(scene.dispatch(sender="octocat"))
    scene.refused("`octocat` set the label")


def test_a_label_that_means_nothing(scene: Scene) -> None:
    """One that was taken off again is passed over; one of an earlier head, or set without rights, is refused."""
    assert not scene.answer(scene.dispatch()).done
    assert scene.replies() == []
    scene.pull.labels.append(LABEL)
    scene.answer(scene.dispatch(sha=LATER))
    scene.refused("The head has moved since")


@pytest.mark.parametrize("inputs", [{"pr": "7; rm"}, {"sha": "HEAD"}, {"actor": "@x"}, {"pr": ""}])
def test_inputs_that_are_none(scene: Scene, inputs: dict[str, str]) -> None:
    """What is no number, hash or login is refused."""
    with pytest.raises(UsageError, match="is missing or not valid"):
        scene.answer(scene.dispatch(**inputs))


def test_another_event(scene: Scene) -> None:
    """A push holds no command."""
    payload = {"ref": "refs/heads/main", "after": HEAD, "before": LATER}
    with pytest.raises(UsageError, match="holds no command"):
        scene.answer(("push", payload))


# ---- errors of GitHub's


@pytest.mark.slow
@pytest.mark.parametrize("status", [401, 403, 404, 422, 429, 502])
@pytest.mark.parametrize(
    "where", [("GET", "/permission"), ("GET", "/issues/7/comments"), ("POST", "/issues/7/comments"), ("POST", "/dispatches")]
)
def test_when_github_fails(scene: Scene, where: tuple[str, str], status: int) -> None:
    """Each failure is an error of its kind; nothing is acknowledged or started twice, and a second job carries it out."""
    scene.fake.script(*where, [Answer(status)])
    failed: ForgeError | None = None
    try:
        scene.say(ACCEPT)
    except ForgeError as error:
        failed = error
        scene.answer(scene.event(scene.said))
    if failed:
        assert failed.exit_code == (Exit.USAGE if status in (401, 403) else Exit.NOT_MEASURED)
        assert scene.fake.token not in str(failed)
    nobody = (where[1], status) == ("/permission", 404)  # GitHub knows no such person
    assert (len(scene.acknowledged()), len(scene.state.dispatches)) == ((0, 0) if nobody else (1, 1))
