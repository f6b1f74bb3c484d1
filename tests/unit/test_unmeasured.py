"""Changes that a check cannot see."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.core.git import Repository
from ratchet.core.trees import unmeasured
from tests.integration.playground import commit, git, new_repository

PROJECT = '[project]\nname = "a"\nversion = "{}"\ndependencies = ["triton=={}"]\n[project.entry-points.x]\nfast = "a:{}"\n'
FIRST = {"requirements.txt": "torch==2\n", "docs/requirements.txt": "sphinx\n", "pyproject.toml": PROJECT.format(1, 3, "f")}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"requirements.txt": "torch==1\n"}, "requirements.txt changed:"),
        ({"uv.lock": "1"}, "uv.lock changed:"),
        ({"pyproject.toml": PROJECT.format(1, 2, "f")}, "the dependencies or entry points in pyproject.toml changed:"),
        ({"pyproject.toml": PROJECT.format(1, 3, "slow")}, "the dependencies or entry points in pyproject.toml changed:"),
        ({"pyproject.toml": PROJECT.format(2, 3, "f")}, ""),
        ({"docs/requirements.txt": "sphinx==2\n", "ops.py": "1"}, ""),
    ],
)
def test_what_is_installed_is_the_same_on_both_sides(tmp_path: Path, changes: dict[str, str], named: str) -> None:
    """A change of dependencies or entry points is said; a version, a manual's dependencies and code are not."""
    new_repository(tmp_path / "repo", FIRST)
    commit(tmp_path / "repo", "second", changes)
    repository = Repository(tmp_path / "repo")
    notes = unmeasured(repository, repository.commit_snapshot("HEAD"), repository.commit_snapshot("HEAD~1"), "", tmp_path)
    assert [note.startswith(named) for note in notes] == ([True] if named else [])


def test_a_submodule_with_changes_of_its_own(tmp_path: Path) -> None:
    """Uncommitted changes within a submodule are in no tree, so they are said; files that git does not know there are not."""
    new_repository(tmp_path / "library", {"ops.py": "1"})
    new_repository(tmp_path / "repo", {"a.py": "1"})
    git(tmp_path / "repo", "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(tmp_path / "library"), "my lib")
    commit(tmp_path / "repo", "second", {})
    repository = Repository(tmp_path / "repo")
    head = repository.commit_snapshot("HEAD")
    (tmp_path / "repo/my lib/built.o").touch()
    assert unmeasured(repository, head, head, "", tmp_path) == ()
    (tmp_path / "repo/my lib/ops.py").write_text("2")
    notes = unmeasured(repository, head, head, "", tmp_path)
    assert notes == ("The submodule my lib has uncommitted changes, which are not in the head: commit them there.",)


def test_what_is_built_in_the_checkout_alone(tmp_path: Path) -> None:
    """A library that git ignores beside a package, and that the tree lacks, is said; one that a build made there too is not."""
    new_repository(tmp_path / "repo", {"acme/a.py": "1", ".gitignore": "*.so\nbuild/\n"})
    repository = Repository(tmp_path / "repo")
    head = repository.commit_snapshot("HEAD")
    for name in ("repo/acme/made.so", "tree/acme/made.so", "repo/build/lib/made.so", "repo/acme/data.npy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert unmeasured(repository, head, head, "", tmp_path / "tree") == ()
    (tmp_path / "repo/acme/fast.so").touch()
    (note,) = unmeasured(repository, head, head, "", tmp_path / "tree")
    assert note.startswith("acme/fast.so: git ignores such files")


@pytest.mark.parametrize(("changes", "is_said"), [({"build.log": "1"}, True), ({"build.log": "1", "a.py": "2"}, False)])
def test_a_head_that_differs_by_new_files_alone(tmp_path: Path, changes: dict[str, str], is_said: bool) -> None:
    """Files that git does not know make HEAD the reference, so a commit would go unmeasured: that is said, with the way out."""
    new_repository(tmp_path / "repo", {"a.py": "1"})
    for name, text in changes.items():
        (tmp_path / "repo" / name).write_text(text)
    repository = Repository(tmp_path / "repo")
    notes = unmeasured(repository, repository.working_snapshot(), repository.commit_snapshot("HEAD"), "", tmp_path)
    assert [note.startswith("All uncommitted changes are new files: build.log. ") for note in notes] == [True] * is_said


@pytest.mark.slow
@pytest.mark.parametrize(("megabytes", "is_said"), [(255, False), (300, True)])
def test_large_files_that_are_not_committed(tmp_path: Path, megabytes: int, is_said: bool) -> None:
    """A checkpoint that git does not ignore is copied by each check: beyond 256 MiB that is said, with what to do."""
    new_repository(tmp_path / "repo", {"a.py": "1"})
    (tmp_path / "repo/a.py").write_text("2")
    with (tmp_path / "repo/model.pt").open("wb") as file:
        file.truncate(megabytes << 20)
    repository = Repository(tmp_path / "repo")
    notes = unmeasured(repository, repository.working_snapshot(), repository.commit_snapshot("HEAD"), "", tmp_path)
    assert [note.startswith("Uncommitted files hold 300 MiB: model.pt, a.py. Let git ignore") for note in notes] == [
        True
    ] * is_said
