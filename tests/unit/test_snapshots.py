"""The snapshot of a checkout: what `git stash create` plus the untracked files would hold, in any kind of repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.core.git import Repository
from tests.unit.test_git import identity

pytestmark = pytest.mark.no_cover

__all__ = ["identity"]


def git(folder: Path, *arguments: str, fails: bool = False, index: Path | None = None, given: bytes = b"") -> str:
    extra = {"GIT_INDEX_FILE": str(index)} if index else {}
    allowed = ("-c", "protocol.file.allow=always")  # a submodule may be cloned from a folder
    done = subprocess.run(
        ["git", *allowed, *arguments], cwd=folder, check=not fails, capture_output=True, env=os.environ | extra, input=given
    )
    return os.fsdecode(done.stdout).strip()


def write(folder: Path, **files: str) -> None:
    """Write files; ``__`` in a name stands for a folder, a final ``_`` is dropped."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").rstrip("_")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", message)


def new_repository(folder: Path) -> Path:
    """A repository with the files ``a`` and ``d/b``."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, a="1", d__b="1")
    commit(folder, "first")
    return folder


# What is done to a repository before its snapshot is taken. Each may return another checkout to take it of.

Change = Callable[[Path], Path | None]


def ignored_results(repo: Path) -> None:
    write(repo, _gitignore="")
    (repo / "_gitignore").rename(repo / ".gitignore")
    (repo / ".gitignore").write_text("results/\n")
    commit(repo, "ignore")
    write(repo, results__current="x", a="2")


def ignored_but_one(repo: Path) -> None:
    (repo / ".gitignore").write_text("results/*\n!results/baseline\n")
    write(repo, results__baseline="1")
    commit(repo, "ignore")
    write(repo, results__baseline="2", results__current="x", a="2")


def no_longer_tracked(repo: Path) -> None:
    git(repo, "rm", "-q", "--cached", "a")
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/exclude").write_text("a\n")


def no_longer_staged(repo: Path) -> None:
    git(repo, "rm", "-q", "--cached", "a")
    write(repo, a="2")


def staged_results(repo: Path) -> None:
    write(repo, results__baseline="1")
    commit(repo, "results")
    write(repo, results__baseline="2", a="2")
    git(repo, "add", "results")


def results_in_conflict(repo: Path) -> None:
    write(repo, results__baseline="1")
    commit(repo, "results")
    git(repo, "switch", "-q", "-c", "topic")
    write(repo, results__baseline="2", new="1")
    commit(repo, "theirs")
    git(repo, "switch", "-q", "main")
    write(repo, results__baseline="3")
    commit(repo, "ours")
    git(repo, "merge", "topic", fails=True)


def in_conflict(repo: Path) -> None:
    write(repo, e="1", f="1")
    commit(repo, "more")
    git(repo, "switch", "-q", "-c", "topic")
    write(repo, a="2", e="2")
    (repo / "f").unlink()
    commit(repo, "theirs")
    git(repo, "switch", "-q", "main")
    write(repo, a="3", f="3")
    (repo / "e").unlink()
    commit(repo, "ours")
    git(repo, "merge", "topic", fails=True)
    write(repo, a="4")
    (repo / "f").unlink()


def nested_repositories(repo: Path) -> None:
    git(new_repository(repo / "inner"), "status")
    git(repo, "init", "-q", "under/empty")
    write(repo, under__file="x", a="2")


def folder_made_a_repository(repo: Path) -> None:
    git(repo / "d", "init", "-q")
    write(repo, d__b="2", d__c="3")


def with_submodule(repo: Path) -> Path:
    source = new_repository(repo.parent / "source")
    git(repo, "submodule", "--quiet", "add", str(source), "sub")
    commit(repo, "submodule")
    write(repo, a="2")
    return repo / "sub"


def submodule_with_changes(repo: Path) -> None:
    write(with_submodule(repo), a="2", new="x")


def submodule_moved(repo: Path) -> None:
    sub = with_submodule(repo)
    write(sub, a="2")
    commit(sub, "second")


def submodule_not_there(repo: Path) -> Path:
    with_submodule(repo)
    git(repo.parent, "clone", "-q", str(repo), "clone")
    write(repo.parent / "clone", a="2")
    return repo.parent / "clone"


def submodule_staged(repo: Path) -> None:
    git(repo, "submodule", "--quiet", "add", str(new_repository(repo.parent / "source")), "sub")


def submodule_made_a_folder(repo: Path) -> None:
    sub = with_submodule(repo)
    (sub / ".git").unlink()


def sparse(repo: Path) -> None:
    write(repo, in_="1", keep__x="1", far__y="1", far__z="1")
    commit(repo, "folders")
    git(repo, "sparse-checkout", "set", "--cone", "keep")
    write(repo, keep__x="2", far__fresh="3")


def sparse_index(repo: Path) -> None:
    sparse(repo)
    git(repo, "sparse-checkout", "reapply", "--sparse-index")


def sparse_and_staged(repo: Path) -> None:
    git(repo, "switch", "-q", "-c", "topic")
    write(repo, far__y="1")
    commit(repo, "theirs")
    git(repo, "switch", "-q", "main")
    git(repo, "sparse-checkout", "set", "--cone", "d")
    git(repo, "merge", "-q", "--squash", "topic")


def sparse_and_present(repo: Path) -> None:
    sparse(repo)
    write(repo, far__y="2")


def assumed_unchanged(repo: Path) -> None:
    git(repo, "update-index", "--assume-unchanged", "a")
    git(repo, "update-index", "--skip-worktree", "d/b")
    write(repo, a="2", d__b="2", new="x")


def linked_worktree(repo: Path) -> Path:
    tree = repo.parent / "linked tree"
    git(repo, "worktree", "add", "-q", "-b", "other", str(tree))
    write(repo, a="of another tree")
    write(tree, a="2", new="x")
    git(tree, "add", "new")
    return tree


def split_index(repo: Path) -> None:
    git(repo, "config", "core.splitIndex", "true")
    git(repo, "config", "splitIndex.maxPercentChange", "0")
    git(repo, "update-index", "--split-index")
    write(repo, a="2", new="x")
    git(repo, "add", "new")


def folder_made_a_link(repo: Path) -> None:
    (repo / "d").rename(repo / "e")
    (repo / "d").symlink_to("e")


def file_made_a_folder(repo: Path) -> None:
    (repo / "a").unlink()
    write(repo, a__b="x")


def from_a_folder(repo: Path) -> Path:
    write(repo, new="x")
    git(repo, "add", "new")
    write(repo, a="2", new="y", deep__er="x")
    return repo / "deep"


def file_made_a_repository(repo: Path) -> None:
    (repo / "a").unlink()
    new_repository(repo / "a")


def names(repo: Path) -> None:
    for name in (
        "a b",
        " c ",
        "ü",
        "u\u0308",
        '"q"',
        "t\tn\nn",
        "-x",
        "*",
        "[d]",
        ":top",
        "\\",
        b"\xff".decode(errors="surrogateescape"),
    ):
        (repo / name).write_text("x")
    (repo / "d" / "ü ü").mkdir()
    (repo / "d" / "ü ü" / "ß").write_text("x")


def renamed(repo: Path) -> None:
    git(repo, "mv", "a", "z z")
    (repo / "z z").write_text("2")


def intended(repo: Path) -> None:
    write(repo, new="x")
    git(repo, "add", "--intent-to-add", "new")


def staged_and_gone(repo: Path) -> None:
    write(repo, new="x", a="2")
    git(repo, "add", "--all")
    (repo / "new").unlink()


def never_untracked(repo: Path) -> None:
    git(repo, "config", "status.showUntrackedFiles", "no")
    git(repo, "config", "status.relativePaths", "true")
    write(repo, new="x", deep__er__new="x")


def nothing(repo: Path) -> None:
    (repo / "a").touch()


def not_checked_out(repo: Path) -> Path:
    git(repo.parent, "clone", "-q", "--no-checkout", str(repo), "clone")
    write(repo.parent / "clone", a="2")
    return repo.parent / "clone"


@dataclass(frozen=True)
class Row:
    """A change, and the entries of its snapshot: ``mode path content``, of a submodule the subject of its commit."""

    change: Change
    entries: tuple[str, ...]
    apart: Sequence[str] = ()
    """What is left as it was committed."""
    stash: bool = True
    """Whether git's stash is the same: it moves no submodule, keeps what left the index or the disk, and refuses conflicts."""


A, A2, B = "100644 a 1", "100644 a 2", "100644 d/b 1"
RESULTS = ("results", "results/**")
SUB = '100644 .gitmodules [submodule "sub"]'
TABLE = [
    Row(ignored_results, ("100644 .gitignore results/", A2, B)),
    Row(ignored_results, ("100644 .gitignore results/", A2, B), RESULTS),
    Row(ignored_but_one, ("100644 .gitignore results/*", A2, B, "100644 results/baseline 2")),
    Row(ignored_but_one, ("100644 .gitignore results/*", A2, B, "100644 results/baseline 1"), RESULTS, stash=False),
    Row(no_longer_tracked, (B,), stash=False),
    Row(no_longer_staged, (A2, B)),
    Row(staged_results, (A2, B, "100644 results/baseline 1"), RESULTS, stash=False),
    Row(results_in_conflict, (A, B, "100644 new 1", "100644 results/baseline 3"), RESULTS, stash=False),
    Row(in_conflict, ("100644 a 4", B, "100644 e 2"), stash=False),
    Row(nested_repositories, (A2, B, "100644 under/file x")),
    Row(folder_made_a_repository, (A, "100644 d/b 2", "100644 d/c 3")),
    Row(submodule_with_changes, (SUB, A2, B, "160000 sub first")),
    Row(submodule_moved, (SUB, A2, B, "160000 sub second"), stash=False),
    Row(submodule_not_there, (SUB, A2, B, "160000 sub first")),
    Row(submodule_staged, (SUB, A, B, "160000 sub first")),
    Row(submodule_made_a_folder, (SUB, A2, B, "160000 sub first")),
    Row(sparse_index, (A, B, "100644 far/fresh 3", "100644 far/y 1", "100644 far/z 1", "100644 in 1", "100644 keep/x 2")),
    Row(sparse_and_staged, (A, B, "100644 far/y 1")),
    Row(sparse_and_present, (A, B, "100644 far/fresh 3", "100644 far/y 2", "100644 far/z 1", "100644 in 1", "100644 keep/x 2")),
    Row(assumed_unchanged, (A, B, "100644 new x")),
    Row(linked_worktree, (A2, B, "100644 new x")),
    Row(split_index, (A2, B, "100644 new x")),
    Row(folder_made_a_link, (A, "120000 d e", "100644 e/b 1"), stash=False),
    Row(file_made_a_folder, ("100644 a/b x", B)),
    Row(from_a_folder, (A2, B, "100644 deep/er x", "100644 new y")),
    Row(file_made_a_repository, (B,), stash=False),
    Row(
        names,
        (
            A,
            B,
            *(
                f"100644 {name} x"
                for name in (" c ", '"q"', "*", "-x", ":top", "[d]", "\\", "a b", "d/ü ü/ß", "t\tn\nn", "u\u0308", "ü", "\udcff")
            ),
        ),
    ),
    Row(renamed, (B, "100644 z z 2")),
    Row(intended, (A, B, "100644 new x"), stash=False),
    Row(staged_and_gone, (A2, B), stash=False),
    Row(never_untracked, (A, B, "100644 deep/er/new x", "100644 new x")),
    Row(nothing, (A, B)),
    Row(not_checked_out, (A2,)),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.change.__name__}{'-apart' if row.apart else ''}")
def test_snapshot(row: Row, tmp_path: Path) -> None:
    """A snapshot has the content of a stash with the untracked files, changes nothing in the repository, can be checked out."""
    repo = new_repository(tmp_path / "my repo ü")
    repo = row.change(repo) or repo
    before = traces(repo)
    snapshot = Repository(repo).working_snapshot(row.apart)
    assert traces(repo) == before
    repo = Path(git(repo, "rev-parse", "--show-toplevel"))
    assert sorted(listing(repo, snapshot.revision)) == sorted(row.entries)
    content = git(repo, "rev-parse", f"{snapshot.revision}^{{tree}}")
    assert snapshot.tree.content == content
    head = git(repo, "rev-parse", "HEAD")
    assert snapshot.tree.dirty == Repository(repo).is_dirty(row.apart) == (content != git(repo, "rev-parse", "HEAD^{tree}"))
    assert (
        snapshot.tree.commit
        == head
        == git(repo, "rev-parse", f"{snapshot.revision}~1" if snapshot.tree.dirty else snapshot.revision)
    )
    if row.stash:
        assert content == stashed(repo, tmp_path / "index")
    Repository(repo).add_worktree(tmp_path / "tree", snapshot.revision)
    assert git(tmp_path / "tree", "status", "--porcelain") == ""


def traces(repo: Path) -> list[object]:
    """What a user could notice: references, status, and every file of git's folder except objects and what a status refreshes."""
    folder = Path(git(repo, "rev-parse", "--absolute-git-dir"))
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "objects" not in path.parts)
    return [git(repo, "for-each-ref"), git(repo, "status", "--porcelain"), git(repo, "ls-files", "--stage", "-v"), files]


def listing(repo: Path, revision: str) -> list[str]:
    """``mode path content`` of each file of a commit; of a submodule the subject of its commit."""
    entries = []
    for entry in filter(None, git(repo, "ls-tree", "-r", "-z", revision).split("\0")):
        (mode, _, name), path = entry.partition("\t")[0].split(), entry.partition("\t")[2]
        shown = git(repo.parent / "source", "show", "-s", "--format=%s", name, fails=True) if mode == "160000" else ""
        if mode == "160000" and not shown:
            shown = git(repo / path, "show", "-s", "--format=%s", name)
        content = shown or git(repo, "cat-file", "blob", name)
        entries.append(f"{mode} {path} {content.splitlines()[0] if path.startswith('.git') and content else content}")
    return entries


def stashed(repo: Path, index: Path) -> str:
    """The tree of `git stash create`, to which all untracked files are added."""
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    untracked = subprocess.run(command, cwd=repo, check=True, capture_output=True).stdout.split(b"\0")
    files = [name for name in untracked if not name.endswith(b"/")]
    git(repo, "read-tree", git(repo, "stash", "create") or "HEAD", index=index)
    git(repo, "update-index", "--add", "--replace", "-z", "--stdin", index=index, given=b"\0".join(files))
    return git(repo, "write-tree", index=index)


def test_a_submodule_counts_whatever_git_is_told_to_ignore(tmp_path: Path) -> None:
    """Files edited in a submodule make the checkout dirty, and another commit of it is in the snapshot, whatever git ignores."""
    repo = new_repository(tmp_path / "repo")
    sub = with_submodule(repo)
    commit(repo, "clean")
    git(repo, "config", "diff.ignoreSubmodules", "all")
    write(sub, a="2")
    assert Repository(repo).is_dirty()
    assert not Repository(repo).working_snapshot().tree.dirty
    commit(sub, "second")
    assert Repository(repo).working_snapshot().tree.dirty
