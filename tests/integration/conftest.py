"""Real repositories in temporary folders, and `ratchet` run in them as a user would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ratchet.github import artifact
from tests.fake_github import FakeGitHub
from tests.integration.playground import ADDS, Finished, Playground, commit, copy_repository, new_repository
from tests.integration.publish_scene import Scene
from tests.integration.zoo import check_zoo
from tests.once import once
from tests.readers import Readers
from tests.warm import warm_ratchet


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """Commands run in forks of one process a worker, which has imported torch once."""
    Playground.warm = warm_ratchet()


@pytest.fixture(scope="session")
def two_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one tiny benchmark and a second commit that changes no code. Copy it, never change it."""
    folder = tmp_path_factory.mktemp("two-commits") / "repo"
    new_repository(folder, {"bench/adds.py": ADDS})
    commit(folder, "second", {"notes.txt": "nothing that is timed\n"})
    return folder


@pytest.fixture
def play(two_commits: Path, tmp_path: Path) -> Playground:
    """A copy of `two_commits`, with a temporary folder and a cache of its own."""
    copy_repository(two_commits, tmp_path / "repo")
    return Playground(tmp_path)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Playground]:
    """Makes a repository from one dictionary of files (path → text) a commit."""

    def build(*commits: dict[str, str], settings: str = "") -> Playground:
        new_repository(tmp_path / "repo", commits[0], settings)
        for number, files in enumerate(commits[1:], 2):
            commit(tmp_path / "repo", f"commit {number}", files)
        return Playground(tmp_path)

    return build


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One check over every kind of bad benchmark; one run for all workers of pytest-xdist."""
    done: Finished = once(tmp_path_factory, "zoo", check_zoo)
    return done


@pytest.fixture(scope="session")
def readers() -> Iterator[Readers]:
    with Readers() as started:
        yield started


@pytest.fixture
def scene(tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A pull request that was measured, and the job that publishes."""
    monkeypatch.setattr(artifact, "run", readers.run)
    with FakeGitHub() as fake:
        yield Scene(tmp_path, fake)


@pytest.fixture
def command(scene: Scene, play: Playground) -> Callable[..., Finished]:
    """``ratchet ci publish`` as a job runs it."""

    def run(*words: str, **env: str) -> Finished:
        done = play.ratchet("publish", str(scene.place), *words, env=scene.environ | env)
        assert scene.fake.token not in done.out + done.err
        return done

    return run
