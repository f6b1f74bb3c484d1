"""After a push to main: what the GPU measured moves the baseline on the origin."""

from __future__ import annotations

import json

import pytest

from tests.workflows.results import Run
from tests.workflows.scene import FAST, QUIET, Scene, git

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
def test_a_dispatch_on_main_moves_the_baseline(scene: Scene) -> None:
    """Started by hand on the default branch, the workflow records what a push would."""
    run = scene.dispatch("ratchet_baseline.yml", {})
    assert run.conclusion == "success", run.log
    assert steps(scene) == [("first", scene.main)]


def assert_only_the_record_can_push(scene: Scene, run: Run) -> None:
    """The GPU job's token may write nothing, and its clone has no credentials."""
    rights = {token: sorted(each.rights) for token, each in scene.fake.state.tokens.items() if str(run.id) in token}
    assert sorted(rights.values()) == [[], ["contents", "pull_requests"]]
    clone = next(path for path in (scene.actions.folder / f"run-{run.id}").iterdir() if path.name.endswith("measure"))
    assert "no-credentials" in git(clone / "work", "remote", "get-url", "--push", "origin")
