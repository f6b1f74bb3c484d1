"""git, with real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ratchet.core.errors import Exit, GitError, UsageError
from ratchet.core.git import Repository
from ratchet.history import bisect, fill

pytestmark = pytest.mark.no_cover


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The author of commits."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, name: str, text: str, message: str | None = None) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", name)
    git(folder, "commit", "-q", "--allow-empty-message", "-m", name if message is None else message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository of two commits, in a folder with a space in its name."""
    folder = tmp_path / "my repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "a.txt", "one")
    commit(folder, "a.txt", "two", "Second: × µ")
    return folder


def state(folder: Path) -> tuple[str, str, str, bytes]:
    """What a user would notice: branch, log, status and the index itself."""
    index = Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index")).read_bytes()
    return (
        git(folder, "symbolic-ref", "HEAD"),
        git(folder, "log", "--format=%H", "--all"),
        git(folder, "status", "--porcelain"),
        index,
    )


def refused(error: pytest.ExceptionInfo[GitError]) -> str:
    assert error.value.hint
    assert error.value.exit_code is Exit.NOT_MEASURED
    return error.value.message


def test_names_of_commits(repo: Path) -> None:
    """HEAD, the commit before, a branch, a tag and a short hash are commits; from a subfolder too."""
    (repo / "sub").mkdir()
    first, second = git(repo, "rev-parse", "HEAD~1"), git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-a", "v1", "-m", "v1", first)
    found = Repository(repo / "sub")
    assert found.root == repo
    assert (found.head(), found.previous()) == (second, first)
    assert found.resolve("main") == second
    assert found.resolve("v1") == first
    assert found.resolve(first[:8]) == first


@pytest.mark.parametrize("name", ["nowhere", "", "-x", "--upload-pack=x", "HEAD:a.txt", "HEAD~5", "a b"])
def test_unknown_revision(repo: Path, name: str) -> None:
    """A name that is no commit, or looks like an option, is the user's mistake."""
    with pytest.raises(UsageError, match="names no commit in ") as caught:
        Repository(repo).resolve(name)
    assert caught.value.message.startswith(f"{name} names no commit")
    assert "git log" in caught.value.hint


def test_no_commit(tmp_path: Path) -> None:
    """A repository without a commit says so, whatever is asked of it."""
    git(tmp_path, "init", "-q")
    found = Repository(tmp_path)
    for ask in (found.head, found.previous, found.working_snapshot):
        with pytest.raises(GitError, match="has no commit yet"):
            ask()


def test_shallow_clone(repo: Path, tmp_path: Path) -> None:
    """What a shallow clone lacks is a sentence that says how deep to fetch."""
    first = git(repo, "rev-parse", "HEAD~1")
    git(tmp_path, "clone", "-q", "--depth=1", repo.as_uri(), "shallow")
    found = Repository(tmp_path / "shallow")
    assert found.is_shallow()
    assert not Repository(repo).is_shallow()
    with pytest.raises(GitError, match="before HEAD is not in this shallow clone") as caught:
        found.previous()
    assert "fetch-depth: 2" in refused(caught) + caught.value.hint
    with pytest.raises(GitError, match=f"{first} is not in this shallow clone") as caught:
        found.resolve(first)
    assert "fetch-depth: 0" in refused(caught) + caught.value.hint


def two_branches(repo: Path) -> str:
    """Give ``topic`` and main one commit each after this one, which is returned."""
    fork = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "-q", "-c", "topic")
    commit(repo, "b.txt", "topic")
    git(repo, "switch", "-q", "main")
    commit(repo, "c.txt", "main")
    return fork


def test_a_search_begins_on_the_line_that_it_follows(repo: Path) -> None:
    """Commits beside a merged GOOD lack what GOOD has, so none of them is searched; the commit before them is named instead."""
    fork = two_branches(repo)
    git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    found = Repository(repo)
    bad = found.commit_snapshot("main")
    good, start = found.commit_snapshot("topic"), found.commit_snapshot(fork)
    for refuse in (lambda: bisect._range(found, good, bad), lambda: fill._range(found, good, bad, ["c.txt"])):
        with pytest.raises(UsageError, match="is not on the line of first parents") as caught:
            refuse()
        assert fork[:10] in caught.value.hint
    assert len(bisect._range(found, start, bad)) == 2
    assert len(fill._range(found, start, bad, ["c.txt"])) == 1


def test_ends_in_the_wrong_order_are_to_be_swapped(repo: Path, tmp_path: Path) -> None:
    """In a shallow clone too, where both commits are there: fetching more would not help."""
    git(tmp_path, "clone", "-q", "--depth=2", repo.as_uri(), "shallow")
    found = Repository(tmp_path / "shallow")
    older, newer = (found.commit_snapshot(name) for name in ("HEAD~1", "HEAD"))
    with pytest.raises(UsageError, match="is not an ancestor") as caught:
        bisect._range(found, newer, older)
    assert caught.value.hint == "Swap them: the older commit comes first."


def test_a_range_follows_first_parents(repo: Path) -> None:
    """A merge is one step of the range; where its branch began and ended is known, and of no other commit."""
    start = two_branches(repo)
    before, topic = git(repo, "rev-parse", "HEAD"), git(repo, "rev-parse", "topic")
    git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    merge = git(repo, "rev-parse", "HEAD")
    assert Repository(repo).commits_after(start, merge) == [before, merge]
    assert Repository(repo).merged(merge) == (start, topic)
    assert Repository(repo).merged(before) is None


def test_merge_base(repo: Path) -> None:
    """The merge base is where the branch left the other; histories without one are a sentence."""
    left = two_branches(repo)
    git(repo, "switch", "-q", "topic")
    assert Repository(repo).merge_base("main") == left
    git(repo, "switch", "-q", "--orphan", "alone")
    commit(repo, "d.txt", "alone")
    with pytest.raises(GitError, match="HEAD and main have no common ancestor") as caught:
        Repository(repo).merge_base("main")
    refused(caught)
    with pytest.raises(UsageError, match="names no commit"):
        Repository(repo).merge_base("nowhere")


def test_commit_snapshot(repo: Path) -> None:
    """A commit's snapshot has its hash, its subject and the hash of its content."""
    found = Repository(repo).commit_snapshot("HEAD")
    assert found.revision == found.tree.commit == git(repo, "rev-parse", "HEAD")
    assert found.tree.subject == "Second: × µ"
    assert found.tree.content == git(repo, "rev-parse", "HEAD^{tree}")
    assert not found.tree.dirty


@pytest.mark.parametrize(("message", "subject"), [("", ""), ("a\tb\n\nbody", "a\tb"), ("x" * 300, "x" * 200)])
def test_odd_subjects(repo: Path, message: str, subject: str) -> None:
    """A commit without a message, with a tab in it, or with a very long one is a commit like any other."""
    commit(repo, "a.txt", "three", message)
    assert Repository(repo).commit_snapshot("HEAD").tree.subject == subject


def test_what_is_left_aside(repo: Path) -> None:
    """Files that match a glob make no checkout dirty and stay as they were committed; one that does not match does both."""
    (repo / "out").mkdir()
    commit(repo, "out/kept.json", "1")
    (repo / "out/kept.json").write_text("2")
    (repo / "out/fresh.json").write_text("3")
    (repo / "out [1]").mkdir()
    (repo / "out [1]/fresh.txt").write_text("4")
    found, apart = Repository(repo), ("out/*.json", "out [[]1]/**")
    assert not found.is_dirty(apart)
    assert found.working_snapshot(apart) == found.commit_snapshot("HEAD")
    (repo / "out/code.py").write_text("5")
    assert found.is_dirty(apart)
    revision = found.working_snapshot(apart).revision
    assert git(repo, "diff", "--name-only", "HEAD", revision) == "out/code.py"


@pytest.mark.parametrize(("folder", "marker"), [(".venv", "pyvenv.cfg"), ("tools/my env", "conda-meta/history")])
def test_a_virtual_environment_is_no_part_of_the_code(repo: Path, folder: str, marker: str) -> None:
    """Packages that no .gitignore mentions make no checkout dirty, and are not copied with what did change beside them."""
    for name in (marker, "lib/torch/big.so"):
        (repo / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / folder / name).write_text("x")
    found = Repository(repo)
    assert not found.is_dirty()
    assert found.working_snapshot() == found.commit_snapshot("HEAD")
    assert not [name for name in found.files(repo) if name.startswith(folder)]
    (repo / f"{folder}-notes.txt").write_text("beside it")
    assert found.is_dirty()
    assert git(repo, "diff", "--name-only", "HEAD", found.working_snapshot().revision) == f"{folder}-notes.txt"
    commit(repo, f"{folder}/{marker}", "somebody wants it in git")
    (repo / folder / marker).write_text("changed")
    assert f"{folder}/{marker}" in git(repo, "diff", "--name-only", "HEAD", found.working_snapshot().revision)


def test_the_folder_of_another_snapshot(repo: Path) -> None:
    """A snapshot can have a folder of another one in place of its own, whole; everything else stays, and so does the index."""
    (repo / "perf/bench").mkdir(parents=True)
    commit(repo, "perf/bench/old.py", "1")
    commit(repo, "perf/kept.py", "1")
    found, reference = Repository(repo), Repository(repo).commit_snapshot("HEAD")
    commit(repo, "a.txt", "three")
    (repo / "perf/bench/old.py").unlink()
    (repo / "perf/bench/new ü.py").write_text("2")
    before = state(repo)
    head = found.working_snapshot()
    for first, files in ((reference, ["a.txt two", "perf/kept.py 1"]), (found.commit_snapshot("HEAD~3"), ["a.txt two"])):
        mixed = found.commit_with(first.revision, head, "./perf/bench/")
        names = git(repo, "-c", "core.quotePath=off", "ls-tree", "-r", "--name-only", mixed.revision).splitlines()
        shown = sorted(f"{name} {git(repo, 'show', f'{mixed.revision}:{name}')}" for name in names)
        assert shown == sorted([*files, "perf/bench/new ü.py 2"])
        assert (mixed.tree.commit, mixed.tree.dirty) == (first.revision, False)
        assert mixed.tree.content == git(repo, "rev-parse", f"{mixed.revision}^{{tree}}") != first.tree.content
        assert found.snapshot_of(mixed.tree).tree == mixed.tree
    assert state(repo) == before
    clean = found.commit_snapshot("HEAD")
    assert found.commit_with("HEAD", clean, "perf/bench") == found.commit_with("HEAD", None, "perf/bench") == clean
    with pytest.raises(UsageError, match="has no folder nowhere/"):
        found.commit_with(reference.revision, head, "nowhere")


def test_snapshot_without_identity(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where nobody told git a name can still make a snapshot."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    git(repo, "config", "user.useConfigOnly", "true")
    git(repo, "config", "commit.gpgSign", "true")
    (repo / "b.txt").write_text("b")
    assert Repository(repo).working_snapshot().tree.dirty


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"])
def test_stray_environment(repo: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable left by a hook or a rebase does not point at another repository."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    head = git(repo, "rev-parse", "HEAD")
    monkeypatch.setenv(name, str(other / ".git"))
    (repo / "b.txt").write_text("b")
    found = Repository(repo)
    assert (found.root, found.head()) == (repo, head)
    assert found.working_snapshot().tree.dirty


def test_worktree(repo: Path, tmp_path: Path) -> None:
    """A worktree holds its commit, runs no hook, and leaves no trace once removed, even twice."""
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n")
    hook.chmod(0o755)
    found, folder = Repository(repo), tmp_path / "a tree"
    found.add_worktree(folder, found.previous())
    assert (folder / "a.txt").read_text() == "one"
    assert not (tmp_path / "ran").exists()
    found.remove_worktree(folder)
    assert not folder.exists()
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    found.remove_worktree(folder)


def test_a_worktree_in_the_way(repo: Path, tmp_path: Path) -> None:
    """What git refuses is passed on in one sentence that names the command and the folder."""
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "file").touch()
    with pytest.raises(GitError, match=r"^git worktree failed in .* already exists\. ") as caught:
        Repository(repo).add_worktree(folder, "HEAD")
    refused(caught)


def test_a_repository_of_somebody_else(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where git does not trust the owner, the sentence has the command that makes it."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(GitError, match="git does not trust ") as caught:
        Repository(repo)
    assert caught.value.hint == f"git config --global --add safe.directory {repo}"


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("git@github.com:octo-org/kernels.git", "https://github.com/octo-org/kernels"),
        ("https://a:token@github.com/octo-org/kernels", "https://github.com/octo-org/kernels"),
        ("ssh://git@git.example.org:22/octo-org/kernels.git/", "https://git.example.org/octo-org/kernels"),
        ("/srv/git/kernels.git", ""),
        ("../octo-org/kernels", ""),
        ("file:///srv/octo-org/kernels", ""),
    ],
)
def test_where_a_remote_is_on_the_web(remote: str, page: str, repo: Path) -> None:
    """Its page, without the token that the address may hold; nothing for a path."""
    git(repo, "remote", "add", "origin", remote)
    assert Repository(repo).web_address() == page


def test_the_default_branch(repo: Path) -> None:
    """Origin's word counts; without it main or master, and in a repository with neither the one that is checked out."""
    git(repo, "branch", "-M", "trunk")
    assert Repository(repo).default_branch() == "trunk"
    git(repo, "branch", "master")
    assert Repository(repo).default_branch() == "master"
    git(repo, "update-ref", "refs/remotes/origin/release", "HEAD")
    git(repo, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/release")
    assert Repository(repo).default_branch() == "release"


def test_files_of_a_folder(repo: Path) -> None:
    """Tracked and new ones, relative to the folder, and none that is ignored."""
    (repo / "sub" / "ä b").mkdir(parents=True)
    for name in ("sub/ä b/new.py", "sub/ignored.o", "above.py"):
        (repo / name).write_text("x")
    (repo / ".gitignore").write_text("*.o\n")
    assert Repository(repo).files(repo / "sub") == ["ä b/new.py"]


def test_names_may_begin_and_end_with_blanks(tmp_path: Path) -> None:
    """A repository in a folder of such a name is found, and its files are listed by their whole names."""
    folder = tmp_path / " r "
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "b", "1")
    commit(folder, " a", "1")
    found = Repository(folder)
    assert found.root == folder
    assert found.files(folder) == [" a", "b"]
    assert found.changed_paths("HEAD~1", "HEAD") == [" a"]


def test_a_submodule_is_trusted_with_its_repository(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container, another user owns the checkout, and safe.directory names its top folder alone."""
    place = tmp_path_factory.mktemp("submodule")
    source = place / "source"
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    commit(source, "lib.txt", "one")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source), "third")
    git(repo, "commit", "-qm", "third")
    tree = place / "tree"
    trusted = "".join(f"\tdirectory = {folder}\n" for folder in (repo, repo / ".git", tree, tree / "third"))
    (place / "config").write_text(f"[safe]\n{trusted}")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(place / "config"))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    found = Repository(repo)
    found.add_worktree(tree, "HEAD")
    assert (tree / "third" / "lib.txt").read_text() == "one"
    found.remove_worktree(tree)
    with pytest.raises(GitError, match="git does not trust"):
        Repository(repo / "third")


def test_a_filter_that_is_not_installed_is_named(repo: Path) -> None:
    """Git's last line speaks of a remote end, and there is none."""
    (repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    (repo / "w.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "weights")
    git(repo, "config", "filter.lfs.process", "git-no-such-filter filter-process")
    git(repo, "config", "filter.lfs.required", "true")
    (repo / "w.bin").touch()
    with pytest.raises(GitError, match="needs git-no-such-filter, which is not installed") as caught:
        Repository(repo).is_dirty()
    assert "Install git-no-such-filter" in refused(caught) + caught.value.hint
