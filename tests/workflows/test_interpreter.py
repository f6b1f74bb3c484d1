"""The Python that `python:` names, a virtual environment's too, measures as it is."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.workflows.results import Run
from tests.workflows.scene import QUIET, Scene
from tests.workflows.shims import make_environment

CALLER = """\
name: CUDA benchmark ratchet
on: pull_request
permissions: {{}}
jobs:
  caller:
    permissions:
      contents: read
    uses: octo-org/ratchet/.github/workflows/cuda_benchmark_ratchet.yml@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    with:
      python: {python}
"""
TELLS = (
    QUIET
    + """

import pathlib, click, ratchet
pathlib.Path.home().joinpath("seen").write_text("\\n".join(each.__file__ for each in (torch, click, ratchet)))
"""
)


def measured(scene: Scene, python: Path, source: str = QUIET) -> Run:
    """Run the workflow of a repository whose file names this Python."""
    scene.workflows = scene.repo.parent / "workflows"
    scene.workflows.mkdir()
    (scene.workflows / "cuda_benchmark_ratchet.yml").write_text(CALLER.format(python=python))
    del scene.actions.environ["PYTHONPATH"]
    return scene.measure(scene.open_pull(source))


@pytest.mark.slow
def test_a_virtual_environment_is_used_as_it_is(scene: Scene, tmp_path: Path) -> None:
    """Its own torch is measured with; ratchet is the copy of its commit, and what the environment lacks comes from the pins."""
    python = make_environment(tmp_path / "user")
    run = measured(scene, python, TELLS)
    assert run.conclusion == "success", run.log
    torch, click, ratchet = map(Path, (tmp_path / "home" / "seen").read_text().splitlines())
    assert torch.is_relative_to(tmp_path / "user")
    assert click.parts[-4:-1] == ("ratchet", "packages", "click")
    assert ratchet.parts[-3:-1] == ("site-packages", "ratchet")
    assert not ratchet.is_relative_to(tmp_path / "user")
    assert f"/user/bin/python3 measures with torch {version('torch')} (" in run.log


def test_another_torch_is_refused(scene: Scene, tmp_path: Path) -> None:
    """Where the torch that was there before is not found afterwards, one sentence names both, and nothing is measured."""
    make_environment(tmp_path / "other", {"torch": "9.9.9"})
    python = make_environment(tmp_path / "user", {})
    wrapper = tmp_path / "wrapper"
    place = next((tmp_path / "other" / "lib").glob("python*/site-packages"))
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={place} exec {python} "$@"\n')
    wrapper.chmod(0o755)
    run = measured(scene, wrapper)
    assert run.conclusion == "failure"
    said = [text for name, text in run.jobs["caller/measure"].commands if name == "error"]
    assert len(said) == 1, run.log
    assert "has torch 9.9.9 (" in said[0]
    assert "beside ratchet it would be no torch" in said[0]
    assert run.id not in scene.actions.store.names


def test_a_package_that_is_too_old_is_named(scene: Scene, tmp_path: Path) -> None:
    """The environment's packages come first, so one that ratchet cannot use ends the job with its name and version."""
    run = measured(scene, make_environment(tmp_path / "user", {"torch": "9.9.9", "click": "7.0"}))
    said = [text for name, text in run.jobs["caller/measure"].commands if name == "error"]
    assert said == [f"{tmp_path}/user/bin/python3 has click 7.0, and ratchet needs click>=8.1: change that package there."], (
        run.log
    )


@pytest.mark.slow
@pytest.mark.parametrize("found", ["3.10.13", "3.14.0"])
def test_a_python_that_ratchet_does_not_know(found: str, scene: Scene, tmp_path: Path) -> None:
    """Its version is named before pip looks for packages."""
    python = make_environment(tmp_path / "user", {"torch": "9.9.9"})
    site = next((tmp_path / "user" / "lib").glob("python*/site-packages"))
    numbers = tuple(map(int, found.split(".")))
    (site / "sitecustomize.py").write_text(f"import sys\nsys.version_info = {numbers}\nsys.version = {found!r}\n")
    run = measured(scene, python)
    said = [text for name, text in run.jobs["caller/measure"].commands if name == "error"]
    assert said == [
        f"{tmp_path}/user/bin/python3 is Python {found}, and ratchet needs 3.11 to 3.13: name another one in python."
    ], run.log
