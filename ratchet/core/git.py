"""git, called with argument lists: commits, snapshots of a dirty tree, and worktrees to measure in.

Adds objects and worktrees to the user's repository, and writes trees to a temporary folder. Index, work tree and branches of the
user stay as they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from ratchet.core.cache import abandoned_folders, scratch_folder
from ratchet.core.errors import GitError, OutputError, UsageError
from ratchet.core.processes import STRAY
from ratchet.core.records.run import Tree

_TREE_SETTINGS = ("filemode", "symlinks", "ignorecase", "autocrlf", "eol", "sparseCheckout", "sparseCheckoutCone")
"""Settings of `core` that say how files lie in a tree."""
AUTHOR = {
    "GIT_AUTHOR_NAME": "ratchet",
    "GIT_AUTHOR_EMAIL": "ratchet@localhost",
    "GIT_COMMITTER_NAME": "ratchet",
    "GIT_COMMITTER_EMAIL": "ratchet@localhost",
}
"""Author of our own commits: git refuses to commit where no name is set."""


_CHECKOUT = ("-c", "core.hooksPath=/dev/null", "-c", "checkout.workers=0")
"""Hooks of the user do not run; all cores do, since one process writes only a few thousand files a second."""
_FREE_SPACE = "Free some space, or point TMPDIR elsewhere."


@dataclass(frozen=True)
class Snapshot:
    """A commit that holds one side's content, and the record of it."""

    revision: str
    tree: Tree


@dataclass(frozen=True)
class Blob:
    """The content of one file of a commit."""

    hash: str
    bytes: int


class Repository:
    """The git repository that holds ``folder``. Every method may raise GitError with a sentence."""

    def __init__(self, folder: Path, *, part_of: Repository | None = None) -> None:
        if shutil.which("git") is None:
            raise GitError("git is not installed, and a check compares two commits.", "Install git and try again.")
        self._folder = folder
        # Whoever trusts a repository trusts its submodules: in a container, actions/checkout names the top folder alone.
        self._trust = ("-c", f"safe.directory={folder}") if part_of else ()
        self.root = Path(self._run("rev-parse", "--show-toplevel", refused=f"{folder} is not inside a git repository."))

    def resolve(self, revision: str) -> str:
        """Return the full hash of a commit; UsageError where no commit has that name."""
        commit = self.hash_of(f"{revision}^{{commit}}")
        if commit:
            return commit
        if self.is_shallow():
            raise GitError(
                f"{revision} is not in this shallow clone.",
                "Fetch the history with `git fetch --unshallow`, or set fetch-depth: 0 in actions/checkout.",
            )
        raise UsageError(f"{revision} names no commit in {self.root}.", "Name one as `git log` shows it.")

    def previous(self) -> str:
        """Return the first parent of HEAD."""
        self.head()
        commit = self.hash_of("HEAD~1^{commit}")
        if commit:
            return commit
        if self.is_shallow():
            raise GitError(
                "The commit before HEAD is not in this shallow clone.",
                "Fetch it with `git fetch --deepen=1` (or --unshallow), or set fetch-depth: 2 in actions/checkout.",
            )
        raise GitError(
            "HEAD is the first commit, so there is no previous one to compare with.",
            "Change something and check again, or time this commit alone with `ratchet run`.",
        )

    def head(self) -> str:
        commit = self.hash_of("HEAD^{commit}")
        if not commit:
            raise GitError(f"{self.root} has no commit yet.", "Commit something first.")
        return commit

    def merge_base(self, revision: str) -> str:
        """Return the commit where HEAD left the history of ``revision``."""
        done = self._try("merge-base", "HEAD", self.resolve(revision))
        if done.returncode == 0:
            return done.stdout.strip()
        hint = "Fetch more history with `git fetch --unshallow`." if self.is_shallow() else "Name a commit with --base."
        raise GitError(f"HEAD and {revision} have no common ancestor here.", hint)

    def user(self) -> str:
        """Return ``Name <address>`` as git signs a commit here; empty if git has no name."""
        name, address = self._setting("user.name"), self._setting("user.email")
        return f"{name} <{address}>" if name and address else name or address

    def files(self, folder: Path) -> list[str]:
        """Return the paths of all files below a folder that git does not ignore, relative to it, but for virtual environments."""
        listed = self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=folder)
        names = {name for name in listed.split("\0") if name}
        environments = _environments(names)
        return sorted(name for name in names if not name.startswith(environments))

    def default_branch(self) -> str:
        """Return the branch that origin calls its own; without that, main or master, else the one that is checked out."""
        if remote := self._try("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD").stdout.strip():
            return remote.removeprefix("origin/")
        usual = next((name for name in ("main", "master") if self.hash_of(f"refs/heads/{name}")), "")
        return usual or self._try("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip() or "main"

    def web_address(self) -> str:
        """Return where origin is on the web; empty where its address does not say."""
        host, path = r"(\w[\w-]*(?:\.[\w-]+)+)", r"([\w.-]+/[\w.-]+?)(?:\.git)?/?"
        found = re.fullmatch(rf"(?:\w+://)?(?:[^@/]+@)?{host}(?::\d+)?[:/]{path}", self._setting("remote.origin.url"))
        return f"https://{found[1]}/{found[2]}" if found else ""

    def is_shallow(self) -> bool:
        """Return whether the clone lacks a part of the history."""
        return self._try("rev-parse", "--is-shallow-repository").stdout.strip() == "true"

    def is_dirty(self, apart: Sequence[str] = ()) -> bool:
        """Return whether `working_snapshot` of these globs could differ from HEAD."""
        return bool(self._changes(apart))

    def _changes(self, apart: Sequence[str]) -> list[bytes]:
        """Return git's entries of changed and untracked files, apart from these globs and untracked virtual environments."""
        # A submodule that git leaves out of `git diff` by a setting is a part of the code all the same.
        command = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
        entries = self._feed(b"", *command, "--", ":/", *(f":(exclude,top,glob){pattern}" for pattern in apart)).split(b"\0")
        changed = [entry for entry in entries if entry and not entry.endswith(b"/")]  # a folder is a repository of its own
        # Gigabytes of somebody's packages are no part of the code, even where no .gitignore says so.
        untracked = _environments(os.fsdecode(entry[3:]) for entry in changed if entry.startswith(b"?? "))
        environments = tuple(b"?? " + os.fsencode(folder) for folder in untracked)
        return [entry for entry in changed if not entry.startswith(environments)]

    def hash_of(self, name: str) -> str:
        """Return the full hash of a commit, tree or blob, such as ``HEAD^{tree}``; empty where this clone has none."""
        return self._try("rev-parse", "--verify", "--quiet", "--end-of-options", name).stdout.strip()

    def commit_snapshot(self, revision: str) -> Snapshot:
        """Return a commit as it is in the history."""
        commit = self.resolve(revision)
        content, _, subject = self._run("show", "-s", "--no-show-signature", "--format=%T%x09%s", commit).partition("\t")
        return Snapshot(commit, Tree(commit=commit, subject=subject[:200], content=content))

    def file_in(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file of a commit, byte for byte; None where there is none."""
        blob = self.hash_of(f"{commit}:{path}")
        if not blob:
            return None
        done = self._git("cat-file", "blob", blob, folder=self.root)
        if done.returncode != 0:
            raise GitError(f"{path} of {commit[:10]} is not a file.", "Move what is there out of the way, and run again.")
        return done.stdout

    def listing(self, commit: str) -> dict[str, Blob]:
        """Return the files of a commit, by path."""
        entries = self._run("ls-tree", "-r", "-l", "-z", "--full-tree", commit).split("\0")
        parts = ((about.split(), path) for about, _, path in (entry.partition("\t") for entry in entries if entry))
        return {path: Blob(name, int(size)) for (_, kind, name, size), path in parts if kind == "blob"}

    def contents(self, hashes: Sequence[str]) -> Iterator[bytes]:
        """Yield the content of these blobs, in this order, with one call of git."""
        listed = self._feed("".join(f"{name}\n" for name in hashes).encode(), "cat-file", "--batch")
        start = 0
        for _ in hashes:
            begin = listed.index(b"\n", start) + 1
            if listed[:begin].endswith(b" missing\n"):
                raise GitError(f"{self.root} lacks objects of its own.", "Look with `git fsck`, then fetch or clone again.")
            end = begin + int(listed[start : begin - 1].split()[2])
            yield listed[begin:end]
            start = end + 1

    def changed_paths(self, one: str, other: str, *, new: bool = True) -> list[str]:
        """Return the paths of the files that differ between two commits; unless ``new``, none that only the ``other`` has."""
        kinds = () if new else ("--diff-filter=a",)
        return self._run("diff", "--name-only", "--no-renames", *kinds, "-z", one, other).split("\0")[:-1]

    def ignored_files(self) -> list[str]:
        """Return the files that git ignores in folders that it knows."""
        listed = self._run("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
        return [path for path in listed.split("\0")[:-1] if not path.endswith("/")]

    def edited_submodules(self) -> list[str]:
        """Return the submodules in which files that git knows have uncommitted changes."""
        if not (self.root / ".gitmodules").is_file():
            return []
        command = ("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=none")
        entries = (entry.split(" ", 8) for entry in self._run(*command).split("\0") if entry.startswith("1 "))
        return [fields[8] for fields in entries if fields[2][0] == "S" and fields[2][2] == "M"]

    def working_snapshot(self, apart: Sequence[str] = ()) -> Snapshot:
        """Return the checkout as it is, with uncommitted and untracked files, as a dangling commit that git collects later.

        What the globs ``apart`` match stays as it was committed, and untracked virtual environments are left out. The commit is
        made through a temporary index, so that the user's own stays as it is (docs/decisions/0002-a-dirty-tree-is-a-commit.md).
        """
        clean = self.commit_snapshot(self.head())
        changed = self._changes(apart)
        if not changed:
            return clean
        # What is only staged is in the copy of the index already, and need not be on disk: a sparse checkout leaves it out.
        edited = [entry for entry in changed if entry[1:2] != b" "]
        conflicts = [entry for entry in edited if b"U" in entry[:2] or entry[:2] in (b"AA", b"DD")]
        gone = [entry[3:] for entry in edited if entry not in conflicts and entry[1:2] == b"D"]
        present = [entry[3:] for entry in edited if entry[3:] not in set(gone)]
        index = Path(self._run("rev-parse", "--path-format=absolute", "--git-path", "index"))
        with contextlib.ExitStack() as stack:
            try:
                copy = stack.enter_context(scratch_folder("index")) / "index"
                if index.exists():
                    shutil.copy2(index, copy)
            except OSError as error:
                raise _temporary_error(error) from None
            extra = {"GIT_INDEX_FILE": str(copy), **AUTHOR}
            # Not `git add`: it looks at every file again, and fails where an excluded path is ignored. A split index would write
            # to the user's repository. What is gone comes first: a link may be in the place of its folder now.
            whole = ("-c", "core.splitIndex=false")
            self._feed(b"\0".join(gone), *whole, "update-index", "-z", "--force-remove", "--stdin", extra=extra)
            self._feed(
                b"\0".join(present), *whole, "update-index", "-z", "--add", "--remove", "--replace", "--stdin", extra=extra
            )
            only = [f":(top,glob){pattern}" for pattern in apart]
            if apart and self._try("diff-index", "--cached", "--quiet", "HEAD", "--", *only, extra=extra).returncode != 0:
                self._run(*whole, "reset", "--quiet", "HEAD", "--", *only, extra=extra)
            content = self._run(*whole, "write-tree", extra=extra)
            if content == clean.tree.content:
                return clean
        return self.snapshot_of(clean.tree.model_copy(update={"dirty": True, "content": content}))

    def snapshot_of(self, tree: Tree) -> Snapshot:
        """Return a tree as it was measured; if its content is not that of its commit, as a dangling commit on top of it."""
        clean = self.commit_snapshot(tree.commit)
        if tree.content in ("", clean.tree.content):
            return clean
        message = "ratchet: content that was measured"
        return Snapshot(self._run("commit-tree", tree.content, "-p", clean.revision, "-m", message, extra=AUTHOR), tree)

    def commit_with(self, revision: str, other: Snapshot | None, folder: str) -> Snapshot:
        """Return a commit, with the ``folder`` of another snapshot, if any, in place of its own. UsageError if that has none."""
        commit = self.commit_snapshot(revision)
        if other is None:
            return commit
        folder = str(PurePosixPath(folder))
        if not self.hash_of(f"{other.revision}:{folder}"):
            raise UsageError(f"{other.revision[:10]} has no folder {folder}/.", "`ratchet init` writes a first benchmark.")
        with contextlib.ExitStack() as stack:
            try:
                extra = {"GIT_INDEX_FILE": str(stack.enter_context(scratch_folder("index")) / "index")}
            except OSError as error:
                raise _temporary_error(error) from None
            self._run("read-tree", commit.revision, extra=extra)
            own = self._feed(b"", "ls-files", "-z", "--", f":(top,literal){folder}", extra=extra)
            self._feed(own, "update-index", "-z", "--force-remove", "--stdin", extra=extra)
            self._run("read-tree", f"--prefix={folder}/", f"{other.revision}:{folder}", extra=extra)
            content = self._run("write-tree", extra=extra)
        if content == commit.tree.content:
            return commit
        return self.snapshot_of(commit.tree.model_copy(update={"content": content}))

    def add_worktree(self, folder: Path, revision: str) -> None:
        """Check ``revision`` out into ``folder``, which must not exist, as a repository of its own.

        A build or measured code may call git there: it changes copies of HEAD, refs, index and settings.
        """
        self._run(*_CHECKOUT, "worktree", "add", "--quiet", "--detach", "--force", str(folder), revision)
        try:
            self._separate(folder)
            self._add_submodules(folder, revision)
        except OSError as error:
            raise OutputError(f"The tree {folder} cannot be written: {error.strerror}.", _FREE_SPACE) from None

    def _add_submodules(self, folder: Path, revision: str) -> None:
        """Check out the submodules of a commit, each as a repository of its own that borrows the objects of the user's.

        One that is not checked out here stays an empty folder, as it is for the user. Nothing is fetched.
        """
        if not (folder / ".gitmodules").is_file():
            return
        for entry in self._run("ls-tree", "-r", "-z", "--full-tree", revision).split("\0"):
            about, _, path = entry.partition("\t")
            if not about.startswith("160000 ") or not (self.root / path / ".git").exists():
                continue
            commit, own = about.split()[2], Repository(self.root / path, part_of=self)
            if not own.hash_of(f"{commit}^{{commit}}"):
                raise GitError(
                    f"The submodule {path} of {revision[:10]} has no commit {commit[:10]} here.",
                    f"Bring it with `git submodule update --init --recursive`, or `git -C {path} fetch --unshallow`.",
                )
            place = folder / path
            self._run("init", "--quiet", str(place))
            (place / ".git/objects/info/alternates").write_text(f"{own._common() / 'objects'}\n", encoding="utf-8")
            self._run(*_CHECKOUT, "checkout", "--quiet", "--detach", commit, folder=place)
            own._add_submodules(place, commit)

    def _separate(self, folder: Path) -> None:
        """Replace a worktree's link to this repository by a repository that borrows all objects from it.

        This repository stays aware of the worktree, so that `git gc` keeps its commit meanwhile.
        """
        common, link = self._common(), folder / ".git"
        linked = Path(link.read_text(encoding="utf-8").removeprefix("gitdir: ").strip())
        own = folder / ".git.ratchet"
        for place in ("objects/info", "refs"):
            (own / place).mkdir(parents=True)
        commit = self._run("rev-parse", "HEAD", folder=folder)
        (own / "HEAD").write_text(f"{commit}\n", encoding="utf-8")
        (own / "objects/info/alternates").write_text(f"{common / 'objects'}\n", encoding="utf-8")
        (own / "packed-refs").write_text(self._try("for-each-ref", "--format=%(objectname) %(refname)").stdout, encoding="utf-8")
        format_, extension = (1, "[extensions]\n\tobjectformat = sha256\n") if len(commit) == 64 else (0, "")
        listed = self._try("config", "-z", "--get-regexp", r"^core\.").stdout.split("\0")  # one call, not one for each of them
        settings = {name: value.strip() for name, _, value in (entry.partition("\n") for entry in listed)}  # the last one holds
        kept = "".join(f"\t{name} = {value}\n" for name in _TREE_SETTINGS if (value := settings.get(f"core.{name.lower()}")))
        text = f"[core]\n\trepositoryformatversion = {format_}\n\tbare = false\n{kept}{extension}"
        (own / "config").write_text(text, encoding="utf-8")
        for file in (common / "shallow", *linked.glob("index"), *linked.glob("sharedindex.*")):
            if file.is_file():
                shutil.copy2(file, own / file.name)
        for info in (common / "info", linked / "info"):
            if info.is_dir():
                shutil.copytree(info, own / "info", dirs_exist_ok=True)
        link.unlink()
        own.rename(link)

    def remove_worktree(self, folder: Path) -> None:
        """Remove a worktree, and git's memory of it, also where the folder is gone already."""
        self._try("worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)
        self._try("worktree", "prune")

    def state(self) -> dict[str, str]:
        """Return HEAD, the local branches, the tags, the index, the settings and the hooks: name → value or digest."""
        state = {"HEAD": self._try("symbolic-ref", "--quiet", "HEAD").stdout.strip() or self.hash_of("HEAD")}
        refs = self._try("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags").stdout
        state |= dict(line.rsplit(" ", 1) for line in refs.splitlines())
        staged = self._try("ls-files", "--stage", "-z", ":/").stdout
        state["index"] = hashlib.sha256(staged.encode("utf-8", "surrogatepass")).hexdigest()
        common = self._common()
        for name, paths in (("config", common.glob("config*")), ("hooks", (common / "hooks").glob("*"))):
            digest = hashlib.sha256()
            for path in sorted(path for path in paths if path.is_file()):
                digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0" + path.read_bytes() + b"\0")
            state[name] = digest.hexdigest()
        return state

    def is_ancestor(self, commit: str, tip: str) -> bool:
        """Return whether ``tip`` is ``commit`` or comes after it; False also for a commit that this clone does not have."""
        return self._try("merge-base", "--is-ancestor", commit, tip).returncode == 0

    def commits_after(self, commit: str, tip: str, paths: Sequence[str] = ()) -> list[str]:
        """Return the commits that ``tip`` has and ``commit`` has not, along first parents, the oldest first.

        With ``paths``, only those that changed one of these files or folders, named from the root.
        """
        limit = ("--", *(f":(top){path}" for path in paths)) if paths else ()
        return self._run("rev-list", "--first-parent", "--reverse", f"{commit}..{tip}", *limit).split()

    def committed_at(self, commit: str) -> datetime:
        return datetime.fromisoformat(self._run("show", "-s", "--no-show-signature", "--format=%cI", commit))

    def merged(self, commit: str) -> tuple[str, str] | None:
        """Return where the branch that a merge brought in began, and its last commit; None for any other commit."""
        tip = self.hash_of(f"{commit}^2")
        return (self._run("merge-base", f"{commit}^1", tip), tip) if tip else None

    def _common(self) -> Path:
        """Return the folder that all worktrees of this repository share."""
        return Path(self._run("rev-parse", "--path-format=absolute", "--git-common-dir"))

    def _setting(self, name: str) -> str:
        return self._try("config", "--get", name).stdout.strip()

    def _feed(self, content: bytes, *arguments: str, extra: Mapping[str, str] | None = None) -> bytes:
        """Run git at the root with this input; return its output byte for byte, since a file name need not be UTF-8."""
        done = self._git(*arguments, folder=self.root, extra=extra, content=content)
        if done.returncode != 0:
            raise self._error(arguments, self.root, done.stderr.decode(errors="replace"), done.returncode)
        return done.stdout

    def _run(self, *arguments: str, extra: Mapping[str, str] | None = None, refused: str = "", folder: Path | None = None) -> str:
        done = self._try(*arguments, extra=extra, folder=folder)
        if done.returncode == 0:
            return done.stdout.rstrip("\n")  # and no blanks, which the name of a file or folder may begin or end with
        if "dubious ownership" in done.stderr:
            raise GitError(
                f"git does not trust {self._folder}: another user owns it.",
                f"git config --global --add safe.directory {self._folder}",
            )
        if refused:
            raise UsageError(refused, "Go to your repository, name it with --repo, or make one with `git init`.")
        raise self._error(arguments, self._folder, done.stderr or done.stdout, done.returncode)

    def _error(self, arguments: Sequence[str], folder: Path, output: str, status: int) -> GitError:
        command = next((a for a in arguments if not a.startswith("-") and "=" not in a), "")
        if missing := re.search(r"(?:^|[ :])([\w.+/-]+): (?:command )?not found$", output, re.MULTILINE):  # a shell's words
            what = f"it needs {missing[1]}, which is not installed"
            return GitError(
                f"git {command} failed in {folder}: {what}.", f"Install {missing[1]}, or undo the setting that names it."
            )
        last = (output.strip().splitlines() or [f"exit status {status}"])[-1]
        return GitError(f"git {command} failed in {folder}: {last.rstrip('.')}.", "Fix that and try again.")

    def _try(
        self, *arguments: str, extra: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = self._git(*arguments, folder=folder or self._folder, extra=extra)
        texts = (output.decode(errors="replace").replace("\r\n", "\n") for output in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, *texts)

    def _git(
        self, *arguments: str, folder: Path, extra: Mapping[str, str] | None = None, content: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        # Without a time limit: a checkout of a large repository takes as long as it takes. In English (LC_ALL), because words of
        # the answer are read; without asking for a password; without optional locks, so that `status` leaves the index alone.
        kept = {name: value for name, value in os.environ.items() if name not in STRAY}
        environ = {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", **(extra or {})}
        return subprocess.run(
            ["git", *self._trust, *arguments], cwd=folder, env=environ, input=content, capture_output=True, check=False
        )


def _environments(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of virtual environments that these files show, such as ``.venv/``."""
    markers = ("pyvenv.cfg", "conda-meta/history")
    return tuple(path.removesuffix(marker) for path in paths for marker in markers if path.endswith(f"/{marker}"))


def _temporary_error(error: OSError) -> OutputError:
    return OutputError(f"The temporary folder cannot be used: {error}.", _FREE_SPACE)


_KIND = "trees"
_GET_ATTRIBUTES, _SET_ATTRIBUTES, _ATTRIBUTE_T = 0x80086601, 0x40086602, 0x00020000
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of 64-bit machines, and EXT4_TOPDIR_FL: linux/fs.h and fs/ext4/ext4.h."""


@dataclass(frozen=True)
class Trees:
    """Folders of both sides. Their paths have the same length, so that memory layout does not depend on the side."""

    head: Path
    reference: Path | None
    logs: Path


@contextlib.contextmanager
def worktrees(repository: Repository, head: Snapshot, reference: Snapshot | None) -> Iterator[Trees]:
    """Check both sides out in a temporary folder and remove them at the end, also on errors and Ctrl-C."""
    for left in abandoned_folders(_KIND):  # by checks that were killed with no chance to clean up
        for tree in (tree for name in ("head", "base", "best") for tree in (left / name, *left.glob(f"*/{name}"))):
            if tree.exists():
                repository.remove_worktree(tree)
    with contextlib.ExitStack() as stack:
        try:
            folder = _quick_folder(stack.enter_context(scratch_folder(_KIND)))
        except OSError as error:
            raise _temporary_error(error) from None
        trees = Trees(folder / "head", folder / "base" if reference else None, folder)
        for place, snapshot in ((trees.reference, reference), (trees.head, head)):
            if place and snapshot:
                stack.callback(repository.remove_worktree, place)
                repository.add_worktree(place, snapshot.revision)
        yield trees


@contextlib.contextmanager
def worktree(repository: Repository, trees: Trees, snapshot: Snapshot) -> Iterator[Path]:
    """Check a third tree out beside the two, at a path of the same length."""
    folder = trees.logs / "best"
    try:
        repository.add_worktree(folder, snapshot.revision)
        yield folder
    finally:
        repository.remove_worktree(folder)


def _quick_folder(folder: Path) -> Path:
    """Make a folder within ``folder`` where files are created quickly, even right after a check's trees were removed.

    For minutes ext4 does not reuse the inode of a deleted file, but steps over all of them whenever it creates a file nearby:
    20,000 files then take 10 s instead of 1. Subfolders of a folder with the attribute T (``chattr +T``) lie elsewhere on disk.
    """
    with contextlib.suppress(OSError):  # another file system has no such attribute
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_ATTRIBUTES, bytes(struct.calcsize("l"))))
            fcntl.ioctl(descriptor, _SET_ATTRIBUTES, struct.pack("l", flags | _ATTRIBUTE_T))
        finally:
            os.close(descriptor)
    place = folder / secrets.token_hex(4)  # ext4 chooses the place by the name
    place.mkdir()
    return place
