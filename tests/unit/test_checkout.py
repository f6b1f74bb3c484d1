"""What of a checkout is code, and what earlier runs left in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.core.git import Repository
from ratchet.core.records.files import save
from ratchet.core.request import checked_out, own_output_globs
from ratchet.tune.records import keep_earlier, tuning_path
from tests import tuning_examples as sample
from tests.unit.test_git import commit, identity, repo

pytestmark = pytest.mark.no_cover

__all__ = ["identity", "repo"]


def written(folder: Path) -> None:
    """What two searches of one case leave."""
    record = sample.record()
    path = tuning_path(folder, record.case, record.environment.fingerprint)
    save(path, record)
    keep_earlier(path)
    save(path, record)
    for name in ("suggestions.md", f"{path.stem}.png", f"{path.stem}.svg"):
        (folder / name).write_text("drawn")


@pytest.mark.parametrize("asked", ["tuning", "found/by hand [1]"])
def test_what_runs_wrote_is_no_change(repo: Path, asked: str) -> None:
    """Reports, records, pictures and earlier records leave the checkout clean, committed or not, wherever they were asked for."""
    results, tuning = repo / "results", repo / asked
    results.mkdir()
    (results / "report.json").write_text("{}")
    written(tuning)
    repository = Repository(repo)
    globs = own_output_globs(repository, results, tuning)
    assert not repository.is_dirty(globs)
    for path in tuning.glob("*.*"):
        commit(repo, path.relative_to(repo).as_posix(), path.read_text())
        path.write_text("rewritten")
    assert not repository.is_dirty(globs)


@pytest.mark.parametrize("folder", ["", "acme/ops/"])
def test_byte_code_is_no_change(repo: Path, folder: str) -> None:
    """What Python compiled leaves the checkout clean without a .gitignore, so HEAD is compared with the commit before it."""
    path = repo / folder / "__pycache__/adds.cpython-311.pyc"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"compiled")
    assert not checked_out(repo, repo / "results").dirty
    repository = Repository(repo)
    assert not repository.working_snapshot(own_output_globs(repository, repo / "results")).tree.dirty


def test_results_may_lie_elsewhere(repo: Path, tmp_path: Path) -> None:
    """A link in place of the results folder is no change either."""
    (tmp_path / "elsewhere").mkdir()
    (repo / "results").symlink_to(tmp_path / "elsewhere")
    assert not checked_out(repo, repo / "results").dirty
    assert checked_out(repo, repo / "others").dirty


@pytest.mark.parametrize("name", ["bench/tuned.json", "tuning/space.py", "tuning/params.json", "tuning/more/a.json", "a.json"])
def test_all_else_is_a_change(repo: Path, name: str) -> None:
    """What is applied, and what somebody keeps in a folder called tuning, is code."""
    written(repo / "tuning")
    path = repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1")
    assert checked_out(repo, repo / "results").dirty


def test_the_whole_repository_is_never_left_aside(repo: Path, tmp_path: Path) -> None:
    """Results at the root, or outside, leave the code in view."""
    found = Repository(repo)
    assert own_output_globs(found, found.root) == own_output_globs(found, tmp_path / "elsewhere")
    (repo / "a.txt").write_text("modified")
    assert checked_out(repo, repo).dirty


def test_outside_git(tmp_path: Path) -> None:
    """A folder that is no checkout has no commit, and nothing is said of changes."""
    assert checked_out(tmp_path, tmp_path / "results").commit == ""


@pytest.mark.parametrize("name", ["repo/sub/../out", "link/out"])
def test_results_may_be_named_in_any_way(repo: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Reports leave the checkout clean where their folder is named by way of a sibling, or through a link to the repository."""
    above = tmp_path_factory.mktemp("above")
    for link in ("repo", "link"):
        (above / link).symlink_to(repo)
    for folder in ("sub", "out"):
        (repo / folder).mkdir()
    (repo / "out" / "report.json").write_text("{}")
    assert not checked_out(repo, above / name).dirty
    (repo / "new.py").write_text("x")
    assert checked_out(repo, above / name).dirty
    assert checked_out(repo, above / "repo" / "sub" / "..").dirty
