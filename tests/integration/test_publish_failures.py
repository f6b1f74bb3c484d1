"""How `ratchet ci publish` ends where GitHub fails, or ratchet itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import Exit, RatchetError
from ratchet.github.check_run import check_output
from ratchet.github.comment import run_id_of
from ratchet.github.errors import ForgeError
from tests.fake_github import Answer
from tests.integration.playground import HARNESS, Finished
from tests.integration.publish_scene import RED, RUN, SAME, Scene

# ---- errors of GitHub's


@pytest.mark.slow
@pytest.mark.parametrize("status", [401, 403, 404, 409, 422, 429, 500, 502])
@pytest.mark.parametrize("where", ["check", "contents", "compare", "comments", "comment"])
def test_when_github_fails(scene: Scene, where: str, status: int) -> None:
    """Each failure ends in a defined state: no second comment, no check run left open, one sentence, and the right exit code."""
    scene.artifact(SAME)
    method, path = {
        "check": ("POST", r"/check-runs$"),
        "contents": ("GET", r"/contents/pyproject.toml"),
        "compare": ("GET", r"/compare/"),
        "comments": ("GET", r"/issues/7/comments"),
        "comment": ("POST", r"/issues/7/comments"),
    }[where]
    scene.fake.script(method, path, [Answer(status)] * 20)
    failed: RatchetError | None
    try:
        failed = scene.publish().failed
    except ForgeError as error:
        failed = error
    if (where, status) in (("contents", 404), ("compare", 404)):  # a repository without settings, an unknown commit
        assert failed is None
    else:
        assert failed
        assert failed.exit_code == (Exit.USAGE if status in (401, 403) else Exit.NOT_MEASURED)
        assert scene.fake.token not in str(failed)
        assert str(failed).count("\n") == 0
    assert len(scene.ours()) <= 1
    assert all(check.status == "completed" for check in scene.state.checks.values())
    if where == "comment":
        assert scene.check.conclusion == "success"


def test_a_locked_conversation(scene: Scene, command: Callable[..., Finished]) -> None:
    """The check run has the verdict, the log says that the conversation is locked, and no permission is blamed."""
    scene.artifact(SAME)
    scene.pull.locked = True
    done = command()
    assert (done.code, done.err) == (0, "")
    assert "The conversation of #7 is locked: no comment." in done.out
    assert scene.check.conclusion == "success"


@pytest.mark.parametrize("expired", [True, False])
def test_measurements_that_are_gone_leave_the_verdict(
    scene: Scene, command: Callable[..., Finished], tmp_path: Path, expired: bool
) -> None:
    """A run that was published keeps comment and check run where its artifact cannot be fetched again; one reply says so."""
    scene.artifact(RED)
    scene.publish()
    before = (scene.ours(), scene.check.conclusion)
    scene.measured.expired = expired
    scene.place = tmp_path / "nothing"
    for _ in range(2):
        done = command()
        assert (done.code, done.err) == (0, "")
        assert "the verdict stays as it is" in done.out
    assert (scene.ours(), scene.check.conclusion) == before
    [reply] = [each.body for each in scene.state.comments.values() if each.body.startswith("<!-- ratchet:reply:")]
    assert ("have expired" if expired else "could not be fetched this time") in reply
    scene.measured.attempt = 2
    assert command("--run-id", str(RUN)).code == 0
    assert [check.conclusion for check in scene.state.checks.values()] == ["failure", "failure"]
    assert "No verdict" in scene.ours()[0]


def test_a_defect_exits_with_3(scene: Scene, command: Callable[..., Finished]) -> None:
    """It is no regression, and no verdict that was published."""
    scene.artifact(SAME)
    broken = "import ratchet.github.artifact\nratchet.github.artifact.take_in = lambda *_: 1 / 0\n"
    (scene.folder / "sitecustomize.py").write_text(broken, encoding="utf-8")
    done = command(PYTHONPATH=os.pathsep.join([str(scene.folder), str(HARNESS)]))
    assert done.code == 3
    assert "this is a defect in ratchet itself" in done.err
    assert "Publishing ended before there was a verdict" in scene.ours()[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("where", ["publish.page_of", "judge_again.judge_run", "publish.check_output"])
def test_an_end_that_nobody_planned(scene: Scene, monkeypatch: pytest.MonkeyPatch, where: str, kind: type[BaseException]) -> None:
    """A defect of our own, or a job that is cancelled, leaves no check run in progress and no earlier verdict in the comment.

    Both say that there is none, and where to look; nothing of the error's text gets there.
    """
    scene.artifact(SAME)
    scene.environ["GITHUB_RUN_ID"] = "77"
    scene.publish()
    assert scene.check.conclusion == "success"
    scene.state.checks.clear()
    once = [kind("pwned")]
    usual = check_output

    def broken(*words: Any) -> Any:
        if once:
            raise once.pop()
        return usual(*words)

    monkeypatch.setattr(f"ratchet.github.{where}", broken)
    with pytest.raises(kind):
        scene.publish()
    [body] = scene.ours()
    assert (scene.check.conclusion, run_id_of(body)) == ("failure", RUN)
    for told in (body, f"{scene.check.title}\n{scene.check.summary}"):
        assert "Publishing ended before there was a verdict" in told
        assert "pwned" not in told
    assert "https://github.com/octo-org/kernels/actions/runs/77" in body
