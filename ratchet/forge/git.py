"""git, as argument lists. Only what a comparison needs: commits, snapshots of a dirty tree, worktrees."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ratchet.cache import abandoned_folders, scratch_folder
from ratchet.errors import GitError, OutputError, UsageError
from ratchet.records.run import Tree
from ratchet.subprocesses import STRAY

_OF_A_TREE = ("filemode", "symlinks", "ignorecase", "autocrlf", "eol", "sparseCheckout", "sparseCheckoutCone")
"""Settings of `core` that say how files lie in a tree."""
_AUTHOR = {
    "GIT_AUTHOR_NAME": "ratchet",
    "GIT_AUTHOR_EMAIL": "ratchet@localhost",
    "GIT_COMMITTER_NAME": "ratchet",
    "GIT_COMMITTER_EMAIL": "ratchet@localhost",
}


@dataclass(frozen=True)
class Snapshot:
    """A commit that holds one side's content, and what a record says about it."""

    revision: str
    tree: Tree


class Repository:
    """The repository that holds ``folder``. Every method raises GitError with a sentence."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("git") is None:
            raise GitError("git is not installed, and a check compares two commits.", "Install git and try again.")
        self._folder = folder
        top = self._run("rev-parse", "--show-toplevel", refused=f"{folder} is not inside a git repository.")
        self.root = Path(top)

    def resolve(self, revision: str) -> str:
        """The full hash of a commit; UsageError where there is none of that name."""
        done = self._try("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.strip()
        shallow = self.is_shallow()
        if shallow:
            raise GitError(
                f"{revision} is not in this shallow clone.",
                "Fetch the history with `git fetch --unshallow`, or set fetch-depth: 0 in actions/checkout.",
            )
        raise UsageError(f"{revision} names no commit in {self.root}.", "Name one with --base, as `git log` shows it.")

    def previous(self) -> str:
        """The first parent of HEAD."""
        self.head()
        done = self._try("rev-parse", "--verify", "--quiet", "HEAD~1^{commit}")
        if done.returncode == 0:
            return done.stdout.strip()
        if self.is_shallow():
            raise GitError(
                "The commit before HEAD is not in this shallow clone.",
                "Fetch it with `git fetch --deepen=1` (or --unshallow), or set fetch-depth: 2 in actions/checkout.",
            )
        raise GitError(
            "HEAD is the first commit, so there is no previous one to compare with.",
            "Commit once more, name a commit with --base, or time this one alone with `ratchet run`.",
        )

    def head(self) -> str:
        """The commit checked out."""
        done = self._try("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if done.returncode != 0:
            raise GitError(f"{self.root} has no commit yet.", "Commit something first.")
        return done.stdout.strip()

    def merge_base(self, revision: str) -> str:
        """Where HEAD left the history of ``revision``."""
        other = self.resolve(revision)
        done = self._try("merge-base", "HEAD", other)
        if done.returncode == 0:
            return done.stdout.strip()
        hint = "Fetch more history with `git fetch --unshallow`." if self.is_shallow() else "Name a commit with --base."
        raise GitError(f"HEAD and {revision} have no common ancestor here.", hint)

    def user(self) -> str:
        """``Name <address>`` as git signs a commit here; empty where nobody told git."""
        name, address = (self._try("config", "--get", f"user.{part}").stdout.strip() for part in ("name", "email"))
        return f"{name} <{address}>" if name and address else name or address

    def is_shallow(self) -> bool:
        return self._try("rev-parse", "--is-shallow-repository").stdout.strip() == "true"

    def is_dirty(self, apart: Sequence[str] = ()) -> bool:
        """Whether anything that git does not ignore differs from HEAD, what the globs ``apart`` match left aside."""
        return bool(self._run("status", "--porcelain", "--untracked-files=normal", "--", *_all_but(apart)))

    def commit_snapshot(self, revision: str) -> Snapshot:
        """A commit as it stands in the history."""
        commit = self.resolve(revision)
        content, _, subject = self._run("show", "-s", "--no-show-signature", "--format=%T%x09%s", commit).partition("\t")
        return Snapshot(commit, Tree(commit=commit, subject=subject[:200], content=content))

    def file_in(self, commit: str, path: str) -> bytes | None:
        """The content of a file of a commit, byte for byte; None where there is none."""
        blob = self._try("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
        if blob.returncode != 0:
            return None
        command = ["git", "cat-file", "blob", blob.stdout.strip()]
        done = subprocess.run(command, cwd=self.root, env=_environ(), capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise GitError(f"{path} of {commit[:10]} is no file.", "Move away what stands there, and run again.")
        return done.stdout

    def tree_of(self, commit: str) -> str | None:
        """The hash of a commit's content; None for a commit that this clone does not have."""
        done = self._try("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        return done.stdout.strip() if done.returncode == 0 else None

    def working_snapshot(self, apart: Sequence[str] = ()) -> Snapshot:
        """The checkout as it stands, uncommitted and untracked files included, without touching index or branch.

        What the globs ``apart`` match stays as it was committed.

        A dirty tree becomes a dangling commit made through a temporary index; git collects it later.
        """
        clean = self.commit_snapshot(self.head())
        changed = self._changed(apart)
        if not changed:
            return clean
        index = self._run("rev-parse", "--path-format=absolute", "--git-path", "index")
        with contextlib.ExitStack() as held:
            try:
                copy = held.enter_context(scratch_folder("index")) / "index"
            except OSError as error:
                raise OutputError(
                    f"No temporary folder can be made: {error}.", "Free some space, or point TMPDIR elsewhere."
                ) from None
            if Path(index).exists():
                _copy(Path(index), copy)
            extra = {"GIT_INDEX_FILE": str(copy), **_AUTHOR}
            # Not `git add`, which looks at every file again, and fails where what is left aside is ignored.
            self._fed(b"\0".join(changed), "update-index", "--add", "--remove", "--replace", "-z", "--stdin", extra=extra)
            content = self._run("write-tree", extra=extra)
            revision = self._run("commit-tree", content, "-p", clean.revision, "-m", "ratchet: uncommitted changes", extra=extra)
        return Snapshot(revision, clean.tree.model_copy(update={"dirty": True, "content": content}))

    def add_worktree(self, folder: Path, revision: str) -> None:
        """Check ``revision`` out into ``folder``, which must not exist, as a repository of its own.

        What git changes there, as a build or measured code may run it, are copies of HEAD, refs, index and settings.
        """
        # On all cores: of tens of thousands of files, one process writes a few thousand a second.
        settings = ("-c", "core.hooksPath=/dev/null", "-c", "checkout.workers=0")
        self._run(*settings, "worktree", "add", "--quiet", "--detach", "--force", str(folder), revision)
        try:
            self._separate(folder)
        except OSError as error:
            raise OutputError(
                f"The tree {folder} cannot be written: {error.strerror}.", "Free some space, or point TMPDIR elsewhere."
            ) from None

    def _separate(self, folder: Path) -> None:
        """Put a repository with the same content that borrows all objects in place of a worktree's link to this one.

        This one keeps its note of the worktree, so that `git gc` keeps the commit meanwhile.
        """
        common, link = self._common(), folder / ".git"
        noted = Path(link.read_text(encoding="utf-8").removeprefix("gitdir: ").strip())
        own = folder / ".git.ratchet"
        for place in ("objects/info", "refs"):
            (own / place).mkdir(parents=True)
        commit = self._run("rev-parse", "HEAD", folder=folder)
        (own / "HEAD").write_text(f"{commit}\n", encoding="utf-8")
        (own / "objects/info/alternates").write_text(f"{common / 'objects'}\n", encoding="utf-8")
        (own / "packed-refs").write_text(self._try("for-each-ref", "--format=%(objectname) %(refname)").stdout, encoding="utf-8")
        format_, extension = (1, "[extensions]\n\tobjectformat = sha256\n") if len(commit) == 64 else (0, "")
        kept = "".join(f"\t{name} = {value}\n" for name in _OF_A_TREE if (value := self._setting(f"core.{name}")))
        text = f"[core]\n\trepositoryformatversion = {format_}\n\tbare = false\n{kept}{extension}"
        (own / "config").write_text(text, encoding="utf-8")
        for file in (common / "shallow", *noted.glob("index"), *noted.glob("sharedindex.*")):
            if file.is_file():
                shutil.copy2(file, own / file.name)
        for info in (common / "info", noted / "info"):
            if info.is_dir():
                shutil.copytree(info, own / "info", dirs_exist_ok=True)
        link.unlink()
        own.rename(link)

    def remove_worktree(self, folder: Path) -> None:
        """Remove a worktree and git's note of it; a folder that is gone already is fine."""
        self._try("worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)
        self._try("worktree", "prune")

    def state(self) -> dict[str, str]:
        """HEAD, the local branches, the tags, what is staged, and the settings and hooks: name → value or digest."""
        branch = self._try("symbolic-ref", "--quiet", "HEAD").stdout.strip()
        state = {"HEAD": branch or self._try("rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()}
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

    def holds(self, commit: str, earlier: str) -> bool:
        """Whether a commit's history holds an earlier one."""
        return self._try("merge-base", "--is-ancestor", earlier, commit).returncode == 0

    def _common(self) -> Path:
        """The folder that all worktrees of this repository share."""
        return Path(self._run("rev-parse", "--path-format=absolute", "--git-common-dir"))

    def _setting(self, name: str) -> str:
        return self._try("config", "--get", name).stdout.strip()

    def _changed(self, apart: Sequence[str]) -> list[bytes]:
        """Paths, from the root, of all files that `is_dirty` speaks of; without repositories within this one."""
        command = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *_all_but(apart))
        entries = self._fed(b"", *command).split(b"\0")
        return [entry[3:] for entry in entries if entry and not entry.endswith(b"/")]

    def _fed(self, content: bytes, *arguments: str, extra: Mapping[str, str] | None = None) -> bytes:
        """Run git at the root with this standard input; its output, byte for byte, since a name need not be UTF-8."""
        environ = {**_environ(), **(extra or {})}
        done = subprocess.run(["git", *arguments], cwd=self.root, env=environ, input=content, capture_output=True, check=False)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            said = words[-1] if words else f"exit status {done.returncode}"
            raise GitError(f"git {arguments[0]} failed in {self.root}: {said.rstrip('.')}.", "Fix that and try again.")
        return done.stdout

    def _run(self, *arguments: str, extra: Mapping[str, str] | None = None, refused: str = "", folder: Path | None = None) -> str:
        done = self._try(*arguments, extra=extra, folder=folder)
        if done.returncode == 0:
            return done.stdout.strip()
        words = (done.stderr or done.stdout).strip().splitlines()
        said = words[-1] if words else f"exit status {done.returncode}"
        if "dubious ownership" in done.stderr:
            raise GitError(
                f"git does not trust {self._folder}: another user owns it.",
                f"git config --global --add safe.directory {self._folder}",
            )
        if refused:
            raise UsageError(refused, "Run ratchet inside the repository, or name it with --repo.")
        command = next((a for a in arguments if not a.startswith("-") and "=" not in a), "")
        raise GitError(f"git {command} failed in {self._folder}: {said.rstrip('.')}.", "Fix that and try again.")

    def _try(
        self, *arguments: str, extra: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments],
            cwd=folder or self._folder,
            env={**_environ(), **(extra or {})},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
        )


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in STRAY}
    return kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _all_but(apart: Sequence[str]) -> list[str]:
    """Pathspecs, from wherever in the repository git runs."""
    return [":/", *(f":(exclude,top,glob){each}" for each in apart)]


def _copy(index: Path, copy: Path) -> None:
    try:
        shutil.copy2(index, copy)
    except OSError as error:
        raise OutputError(f"{copy} cannot be written: {error.strerror}.", "Free some space, or point TMPDIR elsewhere.") from None


# Two trees side by side, gone afterwards whatever happens.


_KIND = "trees"
_GET_ATTRIBUTES, _SET_ATTRIBUTES, _ATTRIBUTE_T = 0x80086601, 0x40086602, 0x00020000
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of 64-bit machines, and EXT4_TOPDIR_FL: linux/fs.h and fs/ext4/ext4.h."""


@dataclass(frozen=True)
class Trees:
    """Where each side is checked out. Both paths have the same length, so that no layout depends on the side."""

    head: Path
    reference: Path | None
    logs: Path


@contextmanager
def worktrees(repository: Repository, head: Snapshot, reference: Snapshot | None) -> Iterator[Trees]:
    """Check both sides out under the temporary folder and remove them at the end, on errors and Ctrl-C too."""
    _remove_abandoned(repository)
    with contextlib.ExitStack() as held:
        try:
            folder = _quick_place(held.enter_context(scratch_folder(_KIND)))
        except OSError as error:
            raise OutputError(
                f"No temporary folder can be made: {error}.", "Free some space, or point TMPDIR elsewhere."
            ) from None
        trees = Trees(folder / "head", folder / "base" if reference else None, folder)
        try:
            if reference and trees.reference:
                repository.add_worktree(trees.reference, reference.revision)
            repository.add_worktree(trees.head, head.revision)
            yield trees
        finally:
            repository.remove_worktree(trees.head)
            if trees.reference:
                repository.remove_worktree(trees.reference)


@contextmanager
def worktree(repository: Repository, trees: Trees, snapshot: Snapshot) -> Iterator[Path]:
    """A third tree beside the two, by a path of the same length."""
    folder = trees.logs / "best"
    try:
        repository.add_worktree(folder, snapshot.revision)
        yield folder
    finally:
        repository.remove_worktree(folder)


def _quick_place(folder: Path) -> Path:
    """A new folder within ``folder``, where files are created quickly even right after a check's trees were removed.

    For minutes ext4 does not use the inode of a deleted file again, but passes by all of these whenever it creates a file nearby:
    20,000 files then take 10 s instead of 1. Folders within one that has the attribute T (``chattr +T``) lie in other parts of
    the disk.
    """
    with contextlib.suppress(OSError):  # another file system has no such attribute
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_ATTRIBUTES, bytes(struct.calcsize("l"))))
            fcntl.ioctl(descriptor, _SET_ATTRIBUTES, struct.pack("l", flags | _ATTRIBUTE_T))
        finally:
            os.close(descriptor)
    place = folder / secrets.token_hex(4)  # the name decides on the part
    place.mkdir()
    return place


def _remove_abandoned(repository: Repository) -> None:
    """Remove worktrees of checks that were killed with no chance to clean up."""
    for folder in abandoned_folders(_KIND):
        for tree in (tree for name in ("head", "base", "best") for tree in (folder / name, *folder.glob(f"*/{name}"))):
            if tree.exists():
                repository.remove_worktree(tree)
