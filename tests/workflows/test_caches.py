"""What one GPU job leaves on its machine, and what the next one takes from there."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.workflows.results import Run
from tests.workflows.scene import ADDS, QUIET, SLOW_ADDS, Scene, git

POISON = """

import os
for root in {os.environ["XDG_CACHE_HOME"] + "/ratchet", os.environ.get("RATCHET_CACHE_DIR", "/nowhere")}:
    for entry in pathlib.Path(root, "builds").glob("*"):
        bench = entry / "outputs" / "bench"
        bench.mkdir(parents=True, exist_ok=True)
        (bench / "adds.py").write_text(SLOW)
"""
"""Puts a slow benchmark into every build that is kept, so that a slow head looks no slower than its base."""


def building(scene: Scene, count: Path) -> None:
    """Let main have a build command."""
    settings = (scene.repo / "pyproject.toml").read_text()
    command = ["sh", "-c", f"mkdir out; echo built > out/x; echo . >> {shlex.quote(str(count))}"]
    scene.push({"pyproject.toml": f"{settings}build = {command}\nbuild_outputs = ['out/']\n"})


def verdict(run: Run) -> str:
    return run.jobs["measure"].outputs["verdict"]


@pytest.mark.slow
def test_a_job_cannot_poison_the_builds_of_the_next(scene: Scene, tmp_path: Path) -> None:
    """On a machine with a past, benchmarks rewrite every kept build that they find; the next job finds none of it."""
    building(scene, tmp_path / "count")
    evil = f"{ADDS}\nimport pathlib\nSLOW = {SLOW_ADDS!r}\n{POISON}"
    first = scene.measure(scene.open_pull(evil))
    assert verdict(first) == "passed", first.log
    second = scene.measure(scene.open_pull(SLOW_ADDS))
    assert verdict(second) == "regressed", second.log
    assert len((tmp_path / "count").read_text()) == 8
    assert not (tmp_path / "home" / "cache" / "ratchet").exists()


@pytest.mark.slow
def test_only_main_adds_to_the_builds_of_an_ephemeral_machine(scene: Scene, tmp_path: Path) -> None:
    """A pull request finds the build of its base where main has left it, builds its head, and leaves nothing there."""
    volume = tmp_path / "volume"
    scene.actions.environ |= {"RATCHET_EPHEMERAL": "true", "RATCHET_BUILDS_DIR": str(volume)}
    building(scene, tmp_path / "count")
    assert verdict(scene.measure(scene.open_pull(QUIET))) == "passed"
    assert len((tmp_path / "count").read_text()) == 4
    assert not volume.exists()

    before = git(scene.repo, "rev-parse", "main~1")
    assert verdict(scene.pushed("cuda_benchmark_ratchet.yml", scene.main, before)) == "passed"
    kept, builds = sorted(volume.iterdir()), len((tmp_path / "count").read_text())
    assert (len(kept), builds) == (1, 6)  # the commit before has no build command
    assert verdict(scene.measure(scene.open_pull(QUIET))) == "passed"
    assert len((tmp_path / "count").read_text()) == builds + 2
    assert sorted(volume.iterdir()) == kept
