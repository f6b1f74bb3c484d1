"""Workflows that people start: a profile, and a search whose result comes as a draft pull request."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from ratchet.core.records.files import dumps
from ratchet.tune.records import tuning_path
from tests import tuning_examples as sample
from tests.workflows.results import Run
from tests.workflows.scene import SLOW_ADDS, Scene, git

TUNED = """\
import time

import torch
from ratchet import Workload, benchmark


@benchmark(configs={"small": {"size": 2048}}, devices=("cpu",))
def adds(*, device, size):
    x = torch.randn(size, device=device)

    def run(TURNS):
        for _ in range(TURNS):
            out = x + 1
        time.sleep(TURNS * 1e-4)
        return out

    return Workload(
        run=run, reference=lambda: x.double() + 1, dtype="float32", flops=size, bytes=8 * size,
        tune={"TURNS": (1, 40)}, tuning={"TURNS": 40},
    )
"""


@pytest.mark.slow
def test_a_maintainer_has_a_case_profiled(slow: tuple[Scene, Run]) -> None:
    """`/ratchet profile CASE` starts cuda_profile.yml with the case, the base and the head of the pull request."""
    scene, run = slow
    scene.fake.state.permissions["a-maintainer"] = "admin"
    scene.report(run)
    answered = scene.command("/ratchet profile adds/small")
    assert answered.conclusion == "success", answered.log
    order = scene.fake.state.dispatches[-1]
    assert order["workflow"] == "cuda_profile.yml"
    assert order["inputs"] == {"case": "adds/small", "base": scene.main, "sha": run.sha}


@pytest.mark.slow
def test_a_commit_is_profiled(scene: Scene) -> None:
    """The workflow profiles the commit that it is given, and uploads what it found."""
    sha = scene.open_pull(SLOW_ADDS)["pull_request"]["head"]["sha"]
    run = scene.dispatch("cuda_profile.yml", {"case": "adds/small", "sha": sha})
    assert run.conclusion == "success", run.log
    found = scene.actions.store.names[run.id]["ratchet-profile"]
    assert list((found / "nsight").iterdir())


@pytest.mark.slow
def test_an_idle_machine_soaks(scene: Scene) -> None:
    """The workflow measures main, and uploads its decisions: unchanged code, and code that was slowed."""
    run = scene.dispatch("ratchet_soak.yml", {"time": "90s"})
    found = scene.actions.store.names[run.id]["ratchet-soak"]
    (lines,) = (found / "soak").glob("*.jsonl")
    checks = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert {check["planted"] for check in checks} == {0.0, 1 / 29}, run.log
    assert {check["code"]["commit"] for check in checks} == {scene.main}
    assert run.conclusion == (
        "success" if all(check["exit_code"] == 0 for check in checks if not check["planted"]) else "failure"
    )


@pytest.mark.slow
def test_a_search_is_proposed_as_a_draft(scene: Scene) -> None:
    """What the search recommends stands on a branch of its own, with its record, in a draft pull request; main is as it was."""
    main = scene.push({"bench/adds.py": TUNED})
    run = scene.dispatch("cuda_autotune.yml", {"case": "adds/small", "budget": "3m", "draft_pr": True})
    assert run.conclusion == "success", run.log
    pull = next(iter(scene.fake.state.pulls.values()))
    assert (pull.draft, pull.base_ref, pull.head_ref) == (True, "main", f"ratchet/tune-{run.id}")
    changed = git(scene.origin, "diff", "--name-only", "main", pull.head_ref).splitlines()
    assert "bench/tuned.json" in changed
    assert "tuning/suggestions.md" in changed
    assert all(name.startswith(("bench/tuned.json", "tuning/")) for name in changed)
    tuned = json.loads(git(scene.origin, "show", f"{pull.head_ref}:bench/tuned.json"))
    assert tuned["cases"]["adds/small"]
    assert git(scene.origin, "rev-parse", "main") == main


@pytest.mark.slow
def test_a_search_of_what_was_tuned_before(scene: Scene) -> None:
    """A record that is on the branch is replaced by that of the new search; what is said of other cases stays."""
    other, machine = sample.record(), sample.record().environment.fingerprint
    path = tuning_path(PurePosixPath("tuning"), other.case, machine).as_posix()
    scene.push({"bench/adds.py": TUNED, path: dumps(other)})
    order = {"case": "adds/small", "budget": "3m", "draft_pr": True}
    assert scene.dispatch("cuda_autotune.yml", order).conclusion == "success"
    first = next(iter(scene.fake.state.pulls.values())).head_ref
    record = next(each for each in git(scene.origin, "ls-tree", "--name-only", first, "tuning/").splitlines() if "adds" in each)
    scene.push({name: git(scene.origin, "show", f"{first}:{name}") for name in (record, "tuning/suggestions.md")})
    run = scene.dispatch("cuda_autotune.yml", order)
    assert run.conclusion == "success", run.log
    second = list(scene.fake.state.pulls.values())[-1].head_ref
    assert git(scene.origin, "diff", "--name-only", "main", second, "--", "tuning").splitlines() == [
        record,
        "tuning/suggestions.md",
    ]
    text = git(scene.origin, "show", f"{second}:tuning/suggestions.md")
    assert text.count("# Autotune Report") == 2
