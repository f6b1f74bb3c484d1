"""Two trees side by side, gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ratchet.core.errors import GitError, OutputError
from ratchet.core.git import Repository, Snapshot, worktrees
from ratchet.core.records.run import Tree

pytestmark = pytest.mark.no_cover


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of this test alone."""
    folder = tmp_path / "temporary folder"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path, temporary: Path) -> Repository:
    """A repository of two commits."""
    folder = tmp_path / "repo"
    folder.mkdir()
    named = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*named, "commit", "-qm", "1"], ["add", "-A"], [*named, "commit", "-qm", "2"]):
        with (folder / "a.txt").open("a") as file:
            file.write("x")
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    return Repository(folder)


def left(repository: Repository, temporary: Path) -> tuple[list[Path], int]:
    """What remains: folders, and the worktrees that git knows of."""
    listed = subprocess.run(["git", "worktree", "list"], cwd=repository.root, check=True, capture_output=True, text=True)
    return list(temporary.iterdir()), len(listed.stdout.splitlines())


def test_two_trees(repository: Repository, temporary: Path) -> None:
    """Both sides are checked out at paths of one length, and are gone afterwards."""
    head, reference = repository.commit_snapshot("HEAD"), repository.commit_snapshot("HEAD~1")
    with worktrees(repository, head, reference) as trees:
        assert (trees.head / "a.txt").read_text() == "xxxx"
        assert (trees.reference / "a.txt").read_text() == "xx"
        assert len(str(trees.head)) == len(str(trees.reference))
        assert trees.head.parent == trees.reference.parent == trees.logs
        assert trees.logs.is_relative_to(temporary)
        (trees.head / "built.so").touch()
        (trees.logs / "head.log").touch()
    assert left(repository, temporary) == ([], 1)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_gone_after_an_error(repository: Repository, temporary: Path, error: type[BaseException]) -> None:
    """An error, Ctrl-C or an exit inside leaves nothing behind."""
    snapshot = repository.commit_snapshot("HEAD")
    with pytest.raises(error), worktrees(repository, snapshot, snapshot):
        raise error
    assert left(repository, temporary) == ([], 1)


def test_gone_after_a_failed_checkout(repository: Repository, temporary: Path) -> None:
    """A head that cannot be checked out takes the reference's tree with it."""
    missing = Snapshot("0" * 39 + "1", Tree(commit="0" * 39 + "1"))
    with pytest.raises(GitError), worktrees(repository, missing, repository.commit_snapshot("HEAD")):
        pass
    assert left(repository, temporary) == ([], 1)


def test_no_room(repository: Repository, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no folder can be made, there is a sentence that names TMPDIR."""
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    with (
        pytest.raises(OutputError, match="The temporary folder cannot be used") as caught,
        worktrees(repository, repository.commit_snapshot("HEAD"), None),
    ):
        pass
    assert "TMPDIR" in caught.value.hint


def dead_pid() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    return child.pid


def test_abandoned_trees_are_removed(repository: Repository, temporary: Path) -> None:
    """The trees of a check that was killed are removed by the next one, and git forgets them."""
    abandoned = temporary / f"ratchet-trees-{dead_pid()}-abc_1234"
    abandoned.mkdir()
    repository.add_worktree(abandoned / "head", "HEAD")
    repository.add_worktree(abandoned / "base", "HEAD~1")
    assert left(repository, temporary)[1] == 3
    with worktrees(repository, repository.commit_snapshot("HEAD"), None):
        assert not abandoned.exists()
    assert left(repository, temporary) == ([], 1)


def test_trees_of_the_living_stay(repository: Repository, temporary: Path) -> None:
    """The trees of a check that still runs, and folders of another name, are left alone."""
    kept = [
        temporary / name
        for name in (f"ratchet-trees-{os.getpid()}-abcd1234", "ratchet-trees-x-abcd", f"ratchet-trees-{dead_pid()}", "other")
    ]
    for folder in kept:
        (folder / "head").mkdir(parents=True)
    with worktrees(repository, repository.commit_snapshot("HEAD"), None):
        pass
    assert all((folder / "head").is_dir() for folder in kept)


def test_links_are_not_followed(repository: Repository, temporary: Path, tmp_path: Path) -> None:
    """A link with the name of an abandoned folder does not have what it points at removed."""
    precious = tmp_path / "precious"
    (precious / "head").mkdir(parents=True)
    (temporary / f"ratchet-trees-{dead_pid()}-abcd1234").symlink_to(precious)
    with worktrees(repository, repository.commit_snapshot("HEAD"), None):
        pass
    assert (precious / "head").is_dir()
