"""A hosted job without a GPU answers first: main keeps the record, pull requests measure what it does not prove."""

from __future__ import annotations

import json

import pytest

from tests.workflows.results import Run
from tests.workflows.scene import ADDS, SLOW_ADDS, Scene, git
from tests.workflows.test_setup import written

RECORD = "results/static.json"
SUBS = ADDS.replace("def adds", "def subs")


@pytest.fixture
def asked(scene: Scene) -> Scene:
    """A repository of two benchmarks whose workflows ask for this, and whose main has been measured."""
    scene.workflows = written(scene.repo.parent / "workflows")
    for name in ("cuda_benchmark_ratchet.yml", "ratchet_baseline.yml"):
        path = scene.workflows / name
        path.write_text(f"{path.read_text()}      static: true\n", encoding="utf-8")
    scene.push({"bench/subs.py": SUBS})
    run = scene.pushed("ratchet_baseline.yml", scene.main)
    assert run.conclusion == "success", run.log
    git(scene.repo, "fetch", "--quiet", "origin")
    git(scene.repo, "branch", "--force", "main", "origin/main")
    scene.main = git(scene.repo, "rev-parse", "main")
    return scene


def pull(scene: Scene, files: dict[str, str]) -> Run:
    """Open a pull request with these files, or give it these, and run the measuring workflow for it."""
    git(scene.origin, "update-ref", "-d", "refs/heads/topic")
    return scene.measure(scene.announce(scene.push(files, "topic")))


def results(run: Run) -> dict[str, str]:
    return {name.rpartition("/")[2]: job.result for name, job in run.jobs.items()}


def outcomes(scene: Scene, run: Run) -> set[str]:
    """The cases of the artifact of the GPU job."""
    folder = scene.actions.store.names[run.id]["benchmark-ratchet-results"]
    return {case["name"] for case in json.loads((folder / "current.json").read_text())["cases"]}


@pytest.mark.slow
def test_the_story_of_a_verdict_without_a_gpu(asked: Scene) -> None:
    """Main keeps its record. A change that no case sees is green without the GPU; of one that a case sees, this case alone is
    measured, and the verdict is about both; the word of the job without a GPU does not stand in for a measurement.
    """
    assert git(asked.origin, "log", "-1", "--format=%s", "main").startswith("perf: ratchet static record of ")
    run = pull(asked, {"README.md": "a word\n"})
    assert results(run) == {"static": "success", "measure": "skipped"}, run.log
    report = asked.report(run)
    assert report.jobs["report/publish"].outputs == {"verdict": "passed", "regressions": "0"}, report.log
    assert (asked.check().head_sha, asked.check().conclusion) == (run.sha, "success")
    assert "2 cases run the same code on both sides" in asked.comment()
    assert "by what was recorded of" in report.jobs["report/publish"].summary

    run = pull(asked, {"bench/adds.py": SLOW_ADDS})
    assert results(run) == {"static": "success", "measure": "failure"}, run.log
    assert outcomes(asked, run) == {"adds/small"}
    report = asked.report(run)
    assert report.jobs["report/publish"].outputs == {"verdict": "regressed", "regressions": "1"}, report.log
    assert asked.check().conclusion == "failure"
    assert "1 case runs the same code on both sides" in asked.comment()

    del asked.actions.store.names[run.id]["benchmark-ratchet-results"]
    claim = asked.actions.store.names[run.id]["benchmark-ratchet-static"] / "static_report.json"
    claim.write_text(
        claim.read_text().replace('"identical": false', '"identical": true').replace('"identical":false', '"identical":true')
    )
    report = asked.report(run)
    assert report.jobs["report/publish"].outputs["verdict"] == "unmeasured", report.log
    assert asked.check().conclusion == "failure"
    assert "it is needed for adds/small" in asked.comment()


@pytest.mark.slow
def test_what_cannot_be_asked_is_measured(scene: Scene) -> None:
    """Where main has no record, and where the hosted job fails, the GPU job measures every case, as without this."""
    scene.workflows = written(scene.repo.parent / "workflows")
    path = scene.workflows / "cuda_benchmark_ratchet.yml"
    path.write_text(f"{path.read_text()}      static: true\n", encoding="utf-8")
    run = pull(scene, {"README.md": "a word\n"})
    assert results(run) == {"static": "success", "measure": "success"}, run.log
    assert "There is no record of the cases" in run.log
    assert outcomes(scene, run) == {"adds/small"}
    report = scene.report(run)
    assert report.jobs["report/publish"].outputs["verdict"] == "passed", report.log
