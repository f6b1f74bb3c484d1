"""After a push to main: what the GPU measured moves the baseline on the origin."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.workflows.results import Run
from tests.workflows.scene import ADDS, FAST, QUIET, Scene, git

BASELINE = "results/baseline.json"


def recorded(scene: Scene, sha: str) -> Run:
    """Run ratchet_baseline.yml for a push to main."""
    return scene.pushed("ratchet_baseline.yml", sha)


def steps(scene: Scene, branch: str = "main") -> list[tuple[str, str]]:
    """Kind and commit of every step of the one case."""
    machines = json.loads(git(scene.origin, "show", f"{branch}:{BASELINE}"))["fingerprints"]
    return [(step["kind"], step["commit"]) for machine in machines.values() for step in machine["configs"]["adds/small"]["steps"]]


@pytest.mark.slow
def test_an_improvement_on_main_moves_the_baseline(scene: Scene) -> None:
    """The first push enters the case; a faster one is measured twice and becomes the baseline, in commits that start nothing."""
    first = recorded(scene, scene.main)
    assert first.conclusion == "success", first.log
    assert steps(scene) == [("first", scene.main)]
    assert_only_the_record_can_push(scene, first)
    git(scene.repo, "pull", "--quiet", "origin", "main")
    scene.main = git(scene.repo, "rev-parse", "HEAD")
    sha = scene.push({"bench/adds.py": FAST})
    run = recorded(scene, sha)
    assert run.conclusion == "success", run.log
    assert set(scene.actions.store.names[run.id]) == {"benchmark-ratchet-results", "benchmark-ratchet-results-again"}
    assert [kind for kind, _ in steps(scene)] == ["first", "improved"]
    assert steps(scene)[-1][1] == sha
    subjects = git(scene.origin, "log", "--format=%s", "main").splitlines()
    assert subjects[0] == "perf: ratchet baseline forward (adds/small) [skip ci]"
    assert git(scene.origin, "diff", "--name-only", "main~1", "main") == BASELINE
    assert git(scene.origin, "merge-base", "--is-ancestor", sha, "main") == ""


@pytest.mark.slow
def test_two_pushes_that_race_lose_no_step(scene: Scene) -> None:
    """Two runs record at the same time, and main moves on meanwhile: both arrive, one after the other, and nothing is forced."""
    pushed = [scene.main, scene.push({"bench/subs.py": ADDS.replace("def adds", "def subs")})]
    runs: list[Run] = []
    threads = [threading.Thread(target=lambda sha=sha: runs.append(recorded(scene, sha))) for sha in pushed]
    for thread in threads:
        thread.start()
    moved = scene.push({"notes.txt": "main moves on\n"})
    for thread in threads:
        thread.join()
    assert [run.conclusion for run in runs] == ["success", "success"], "\n".join(run.log for run in runs)
    machines = json.loads(scene.on_main(BASELINE))["fingerprints"]
    assert {name for machine in machines.values() for name in machine["configs"]} == {"adds/small", "subs/small"}
    assert git(scene.origin, "merge-base", "--is-ancestor", moved, "main") == ""


@pytest.mark.slow
def test_a_protected_main_gets_a_pull_request(scene: Scene) -> None:
    """Where a rule of main refuses the push, the baseline comes as a pull request, and main stays as it was."""
    protect(scene.origin)
    run = recorded(scene, scene.main)
    assert run.conclusion == "success", run.log
    assert git(scene.origin, "rev-parse", "main") == scene.main
    pull = next(iter(scene.fake.state.pulls.values()))
    assert (pull.head_ref, pull.base_ref, pull.author) == ("ratchet-baseline", "main", "github-actions[bot]")
    assert steps(scene, "ratchet-baseline") == [("first", scene.main)]


@pytest.mark.slow
def test_a_baseline_on_a_branch_of_its_own(scene: Scene) -> None:
    """It is entered there though the branch is not there yet, and found there by the next push, and by a pull request that says
    otherwise of it; main never has the file.
    """
    settings = (scene.repo / "pyproject.toml").read_text()
    scene.push({"pyproject.toml": f'{settings}baseline_mode = "branch"\n'})
    first = recorded(scene, scene.main)
    assert first.conclusion == "success", first.log
    assert "There is no branch ratchet-baseline yet" in first.log
    assert steps(scene, "ratchet-baseline") == [("first", scene.main)]

    entered = scene.main
    run = recorded(scene, scene.push({"bench/adds.py": QUIET}))
    assert run.conclusion == "success", run.log
    assert "results/baseline.json is that of ratchet-baseline." in run.log
    assert steps(scene, "ratchet-baseline") == [("first", entered)]
    assert git(scene.origin, "ls-tree", "--name-only", "main", "results/") == ""

    scene.push({"pyproject.toml": settings, BASELINE: "{}"}, "topic")
    pull = scene.announce(git(scene.origin, "rev-parse", "topic"))
    assert "results/baseline.json is that of ratchet-baseline." in scene.measure(pull).log


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["branch", "pull-request"])
def test_a_dispatch_on_another_branch_moves_nothing(scene: Scene, mode: str) -> None:
    """A feature branch makes no baseline of its own commit, and sends no file along: the job says that only main does."""
    settings = (scene.repo / "pyproject.toml").read_text()
    scene.push({"pyproject.toml": f'{settings}baseline_mode = "{mode}"\n'})
    topic = scene.push({"bench/adds.py": FAST}, "topic")
    before = git(scene.origin, "for-each-ref")
    event = {"ref": "refs/heads/topic", "inputs": {}, "sender": {"login": "octocat"}}
    run = scene.run("ratchet_baseline.yml", "workflow_dispatch", event, sha=topic, ref="refs/heads/topic")
    assert run.jobs["record"].result == "failure"
    assert "of the event workflow_dispatch on topic: only pushes to main, and dispatches on it, move the baseline." in run.log
    assert git(scene.origin, "for-each-ref") == before
    assert not scene.fake.state.pulls


def test_a_dispatch_on_main_moves_the_baseline(scene: Scene) -> None:
    """Started by hand on the default branch, the workflow records what a push would."""
    run = scene.dispatch("ratchet_baseline.yml", {})
    assert run.conclusion == "success", run.log
    assert steps(scene) == [("first", scene.main)]


@pytest.mark.slow
def test_a_history_that_was_rewritten_records_nothing(scene: Scene) -> None:
    """What was measured is on main no longer: the job says so, and main is left alone."""
    measured = scene.push({"notes.txt": "a mistake\n"})
    kept = git(scene.repo, "rev-parse", "HEAD~1")
    other = git(scene.repo, "commit-tree", f"{kept}^{{tree}}", "-p", kept, "-m", "another history")
    git(scene.repo, "push", "--quiet", "--force", "origin", f"{other}:refs/heads/main", f"{measured}:refs/heads/lost")
    run = recorded(scene, measured)
    assert run.jobs["record"].result == "failure"
    assert "no longer" in run.log
    assert git(scene.origin, "rev-parse", "main") == other


def assert_only_the_record_can_push(scene: Scene, run: Run) -> None:
    """The GPU job's token may write nothing, and its clone has no credentials."""
    rights = {token: sorted(each.rights) for token, each in scene.fake.state.tokens.items() if str(run.id) in token}
    assert sorted(rights.values()) == [[], ["contents", "pull_requests"]]
    clone = next(path for path in (scene.actions.folder / f"run-{run.id}").iterdir() if path.name.endswith("measure"))
    assert "no-credentials" in git(clone / "work", "remote", "get-url", "--push", "origin")


def protect(origin: Path) -> None:
    """As a branch rule does: main takes no push."""
    hook = origin / "hooks" / "pre-receive"
    hook.write_text(
        "#!/bin/sh\nwhile read before after ref; do\n  if [ $ref = refs/heads/main ]; then\n"
        "    echo 'error: GH006: Protected branch update failed for refs/heads/main.' >&2\n    exit 1\n  fi\ndone\n"
    )
    hook.chmod(0o755)
