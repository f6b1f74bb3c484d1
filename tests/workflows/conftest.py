"""A repository with workflows, a stand-in for GitHub, and a runner."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_github import FakeGitHub
from tests.once import once
from tests.workflows import bridge as bridges
from tests.workflows.results import Run
from tests.workflows.scene import SLOW_ADDS, Scene


@pytest.fixture(scope="session")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bridges.Bridge]:
    """GitHub's own parser and evaluator. On a developer's machine its tests are skipped without it, in CI they fail."""
    why = bridges.missing()
    if why:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)
    with bridges.Bridge(tmp_path_factory.mktemp("bridge")) as started:
        yield started


@pytest.fixture
def scene(tmp_path: Path, bridge: bridges.Bridge) -> Iterator[Scene]:
    """A repository with one tiny benchmark, its origin, a stand-in for GitHub and a runner."""
    with FakeGitHub() as fake:
        yield Scene(tmp_path, fake, bridge)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory, bridge: bridges.Bridge) -> tuple[Path, Run]:
    """A scene in which the GPU job of a slow pull request has run. Copy the folder, never change it."""

    def measure(folder: Path) -> tuple[Path, Run]:
        with FakeGitHub() as fake:
            scene = Scene(folder, fake, bridge)
            return folder, scene.measure(scene.open_pull(SLOW_ADDS))

    done: tuple[Path, Run] = once(tmp_path_factory, "measured", measure)
    return done


@pytest.fixture
def slow(measured: tuple[Path, Run], tmp_path: Path, bridge: bridges.Bridge) -> Iterator[tuple[Scene, Run]]:
    """A scene with a slow pull request, and the run of its GPU job, still to be reported."""
    folder, run = measured
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    with FakeGitHub() as fake:
        scene = Scene(tmp_path, fake, bridge)
        scene.announce(run.sha)
        scene.actions.store.adopt(run.id)
        yield scene, run
