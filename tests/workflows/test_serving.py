"""runners/serve.sh: one job after the other, each by a runner of its own, with a stand-in for GitHub's runner."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.fake_github import Answer, FakeGitHub, Token
from tests.integration.playground import PATIENCE_S, wait_until
from tests.workflows.reading import ROOT

SERVE = ROOT / "runners" / "serve.sh"
TOKEN = "github_pat_of_the_machine"
PATH = r"/actions/runners/generate-jitconfig"
RUNNER = """\
#!/bin/sh
printf '%s\\n' "$ACTIONS_RUNNER_INPUT_JITCONFIG" >> {folder}/jobs
tr '\\0' '\\n' < /proc/$$/environ > {folder}/environ
tr '\\0' ' ' < /proc/$PPID/cmdline >> {folder}/parents
{then}
"""


@contextmanager
def serving(fake: FakeGitHub, folder: Path, then: str = "exit 0") -> Iterator[subprocess.Popen[str]]:
    """The loop, with a runner that writes down its jobs and ends as ``then`` says."""
    fake.state.tokens[TOKEN] = Token("a-machine", frozenset({"administration"}))
    (folder / "token").write_text(f"{TOKEN}\n")
    program = folder / "run.sh"
    program.write_text(RUNNER.format(folder=folder, then=then))
    host = folder / "bin" / "hostname"
    host.parent.mkdir()
    host.write_text("#!/bin/sh\necho ratchet-gpu-0123456789.europe-west4-a.c.a-project-of-ours.internal\n")
    for each in (program, host):
        each.chmod(0o755)
    path = f"{host.parent}{os.pathsep}{os.environ['PATH']}"
    environ = {"PATH": path, "REPOSITORY": fake.state.repository, "LABELS": '["self-hosted", "gpu"]',
               "TOKEN_FILE": str(folder / "token"), "GITHUB_API_URL": fake.url, "PAUSE_S": "0"}  # fmt: skip
    log = folder / "log"
    with log.open("w") as out:
        loop = subprocess.Popen(["bash", SERVE, program], env=environ, stdout=out, stderr=subprocess.STDOUT, text=True)
        try:
            yield loop
        finally:
            loop.send_signal(signal.SIGTERM)
            loop.wait(PATIENCE_S)


def jobs(folder: Path) -> list[str]:
    """The configurations that the runner was started with."""
    path = folder / "jobs"
    return path.read_text().splitlines() if path.exists() else []


def test_each_job_has_a_runner_of_its_own(tmp_path: Path) -> None:
    """When one has done its job the next is made, with another name, the labels of the workflows, and no trace of the token."""
    with FakeGitHub() as fake, serving(fake, tmp_path) as loop:
        wait_until(lambda: len(jobs(tmp_path)) >= 3, "the loop serves no third job")
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(PATIENCE_S) == 0
        asked = [request.body for request in fake.sent("POST", PATH)]
    assert {json.dumps(each["labels"]) for each in asked} == {'["self-hosted", "gpu"]'}
    assert len({each["name"] for each in asked}) == len(asked) >= 3
    assert {len(each["name"]) for each in asked} == {64}  # of a longer one GitHub makes no runner
    names = [json.loads(base64.b64decode(each))["name"] for each in jobs(tmp_path)]
    assert names[:3] == [each["name"] for each in asked][:3]
    assert not fake.state.runners
    seen = (tmp_path / "environ").read_text() + (tmp_path / "parents").read_text() + (tmp_path / "log").read_text()
    assert TOKEN not in seen
    assert "TOKEN_FILE" not in seen


def test_a_signal_ends_the_runner_that_waits(tmp_path: Path) -> None:
    """The runner gets the signal, and is taken off GitHub's list."""
    then = f"trap 'kill $!; exit 3' TERM\ntouch {tmp_path}/ready\nsleep 60 & wait"
    with FakeGitHub() as fake, serving(fake, tmp_path, then) as loop:
        wait_until((tmp_path / "ready").exists, "no runner was started")
        assert len(fake.state.runners) == 1
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(PATIENCE_S) == 0
        assert "ended with status 3" in (tmp_path / "log").read_text()
        assert not fake.state.runners
        assert len(jobs(tmp_path)) == 1


def test_a_signal_while_github_is_asked_starts_no_runner(tmp_path: Path) -> None:
    """The answer comes when the loop is to end: the runner that it made is ended and taken off the list."""
    with FakeGitHub() as fake:
        fake.script("POST", PATH, [Answer(done=True, delay_s=1)])
        with serving(fake, tmp_path, "sleep 60") as loop:
            wait_until(lambda: bool(fake.sent("POST", PATH)), "nothing was asked")
            loop.send_signal(signal.SIGTERM)
            assert loop.wait(PATIENCE_S) == 0
        assert not fake.state.runners


def test_a_runner_that_fails_is_followed_by_another(tmp_path: Path) -> None:
    """Whatever its status, its registration is removed and the next one is asked for."""
    with FakeGitHub() as fake, serving(fake, tmp_path, "exit 1"):
        wait_until(lambda: len(jobs(tmp_path)) >= 2, "one failure ends the loop")
    assert not fake.state.runners


@pytest.mark.parametrize(
    "answer", [Answer(401), Answer(403), Answer(404), Answer(409), Answer(422), Answer(502), Answer(cut=True)]
)
def test_an_answer_without_a_configuration_is_tried_again(answer: Answer, tmp_path: Path) -> None:
    """The log has the status, and what to do about a token without rights; then a job is served."""
    with FakeGitHub() as fake:
        fake.script("POST", PATH, [answer, answer])
        with serving(fake, tmp_path):
            wait_until(lambda: bool(jobs(tmp_path)), "the loop gave up")
    said = [line for line in (tmp_path / "log").read_text().splitlines() if "no configuration" in line]
    assert len(said) == 2
    assert all(f"(status {'000' if answer.cut else answer.status})" in line for line in said)
    assert ("Administration: read and write" in said[0]) == (answer.status in (401, 403, 404) and not answer.cut)


@pytest.mark.parametrize("missing", ["REPOSITORY", "LABELS", "TOKEN_FILE"])
def test_a_setting_that_is_missing_is_named(missing: str) -> None:
    """Without repository, labels or token the loop does not begin."""
    environ = {"PATH": os.environ["PATH"], "REPOSITORY": "a/b", "LABELS": "[]", "TOKEN_FILE": "/x"}
    del environ[missing]
    done = subprocess.run(["bash", SERVE, "true"], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert missing in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze on this machine")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    """The unit has no fault; it runs the loop with a token that only the loop can read."""
    text = (ROOT / "runners" / "ratchet-runner.service").read_text()
    unit = tmp_path / "ratchet-runner.service"
    unit.write_text(text.replace("/opt/ratchet-runner/serve.sh", str(SERVE)))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "LoadCredential=token:" in text
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert "TOKEN" not in command
    assert "--rm" in command
    assert "RATCHET_EPHEMERAL=true" in command


def test_the_values_for_kubernetes_make_an_ephemeral_machine() -> None:
    """Each pod has one GPU, says that it is ephemeral, and has no account on the cluster."""
    spec = yaml.safe_load((ROOT / "runners" / "arc-values.yaml").read_text())["template"]["spec"]
    (runner,) = spec["containers"]
    assert {"name": "RATCHET_EPHEMERAL", "value": "true"} in runner["env"]
    assert runner["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert spec["automountServiceAccountToken"] is False
