"""The GPU job of our workflow files, run step by step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.playground import commit
from tests.workflows.results import Run
from tests.workflows.scene import ADDS, FAST, QUIET, Scene, git

SHOUTS = """\
import os
from pathlib import Path
LINES = "::set-output name=verdict::passed\\n::error::pwned\\n##[error]pwned\\n::add-mask::a\\n::stop-commands::x\\n::x::\\n"
print(LINES, flush=True)
os.write(1, LINES.encode())
os.write(2, LINES.encode())
Path(os.environ["HOME"], "seen").write_text("\\n".join(os.environ))
for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_ENV"):
    if name in os.environ:
        Path(os.environ[name]).write_text("verdict=passed\\n")
"""
LIES = ADDS.replace("reference=lambda: x.double() + 1 + REPEAT", "reference=lambda: (_ for _ in ()).throw(ValueError(LINES))")


def test_a_slow_pull_request_turns_its_gpu_job_red(slow: tuple[Scene, Run]) -> None:
    """The GPU job fails, has uploaded the run, and tells in its outputs what regressed."""
    scene, run = slow
    job = run.jobs["measure"]
    assert job.result == "failure", job.log
    assert job.outputs == {"verdict": "regressed", "regressions": "1", "improvements": "0"}
    assert "current.json" in {path.name for path in scene.actions.store.names[run.id]["benchmark-ratchet-results"].iterdir()}


def test_the_gpu_machine_installs_wheels_with_known_digests_alone(slow: tuple[Scene, Run]) -> None:
    """pip is asked once, for the pinned packages, and builds nothing: ratchet itself is a copy of the commit that is running."""
    (asked,) = slow[1].jobs["measure"].pip
    assert "--require-hashes --only-binary :all:" in asked
    assert "--no-deps" in asked
    assert asked.count("--requirement") == 1
    assert "requirements-gpu.txt" in asked


@pytest.mark.slow
def test_the_head_is_measured_against_where_it_left_its_base(scene: Scene) -> None:
    """What main did since is neither measured nor held against the pull request; nor is what an earlier push to it had."""
    before = scene.open_pull(FAST)["pull_request"]["head"]["sha"]
    sha = commit(scene.repo, "another change", {"bench/adds.py": QUIET})
    git(scene.repo, "push", "--quiet", "origin", "HEAD:refs/heads/topic")
    event = scene.announce(sha) | {"action": "synchronize", "before": before, "after": sha}
    event["pull_request"]["base"]["sha"] = scene.push({"bench/adds.py": FAST})
    run = scene.measure(event)
    assert run.jobs["measure"].result == "success", run.log
    record = json.loads((scene.actions.store.names[run.id]["benchmark-ratchet-results"] / "current.json").read_text())
    assert record["head"]["commit"] == event["pull_request"]["head"]["sha"]
    assert record["reference"]["commit"] == git(scene.repo, "rev-parse", "origin/main~1")


@pytest.mark.slow
def test_measured_code_commands_nothing(scene: Scene, tmp_path: Path) -> None:
    """Whatever measured code prints, the runner obeys none of it; it sees no token, and none of the runner's files."""
    run = scene.measure(scene.open_pull(SHOUTS + LIES))
    job = run.jobs["measure"]
    assert "pwned" in job.log  # it was printed, as the reason of a failure
    assert job.commands == []
    assert job.outputs["verdict"] == "regressed"
    assert job.summary == ""
    seen = (tmp_path / "home" / "seen").read_text().splitlines()
    assert "PATH" in seen
    assert not [name for name in seen if name.startswith(("GITHUB_", "ACTIONS_", "RUNNER_"))]


@pytest.mark.slow
def test_words_from_outside_are_words(scene: Scene, tmp_path: Path) -> None:
    """Cases and a base that a shell or an option parser would act on are taken as names that nothing has.

    Nor is a module of the checkout imported in place of ratchet's own.
    """
    words = {"cases": "--help", "base": "HEAD"}, {"cases": "$(touch${IFS}pwned) `touch pwned` ;touch\npwned", "base": "--help"}
    scene.push({"click.py": "open('pwned', 'w')\n", "ratchet/__init__.py": "open('pwned', 'w')\n"})
    for each in words:
        run = scene.dispatch("cuda_benchmark_ratchet.yml", each)
        assert run.jobs["measure"].result == "failure", run.log
        assert "exited with 2" in run.log
    assert not list(tmp_path.rglob("pwned*"))


def test_a_push_is_measured_against_the_commit_before_the_push(scene: Scene) -> None:
    """Three commits pushed at once are compared with what main was; after a forced push there is nothing to name."""
    before = scene.main
    for number in range(3):
        sha = scene.push({"notes.txt": f"{number}\n"})
    scene.actions.edited = {"BASELINE_PATH": "/nowhere"}  # which ends the job before it measures
    for start, named in ((before, {"before": before}), ("0" * 40, {})):
        assert scene.pushed("cuda_benchmark_ratchet.yml", sha, start).jobs["measure"].steps["base"].outputs == named


def test_a_branch_is_measured_by_hand_as_its_pull_request_is(scene: Scene) -> None:
    """Against the commit where it left main, not against its own one before; main itself against the one before."""
    scene.open_pull(FAST)
    sha = commit(scene.repo, "another change", {"bench/adds.py": QUIET})
    git(scene.repo, "push", "--quiet", "origin", "HEAD:refs/heads/topic")
    scene.actions.edited = {"BASELINE_PATH": "/nowhere"}  # which ends the job before it measures
    for branch, head, left in (("topic", sha, {"left": "origin/main"}), ("main", scene.main, {})):
        event = {"ref": f"refs/heads/{branch}", "inputs": {}, "sender": {"login": "octocat"}}
        run = scene.run("cuda_benchmark_ratchet.yml", "workflow_dispatch", event, sha=head, ref=event["ref"], inputs={})
        assert run.jobs["measure"].steps["base"].outputs == left
