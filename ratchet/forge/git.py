"""git, as argument lists. Only what a comparison needs: commits, snapshots of a dirty tree, worktrees."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.errors import GitError, OutputError, UsageError
from ratchet.records.run import Tree

# A hook or a shell inside `git rebase` sets these; they would point every command below at another repository.
_STRAY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
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
        with _temporary_folder() as folder:
            copy = Path(folder, "index")
            if Path(index).exists():
                _copy(Path(index), copy)
            extra = {"GIT_INDEX_FILE": str(copy), **_AUTHOR}
            # Not `git add`, which looks at every file again, and fails where what is left aside is ignored.
            self._fed(b"\0".join(changed), "update-index", "--add", "--remove", "--replace", "-z", "--stdin", extra=extra)
            content = self._run("write-tree", extra=extra)
            revision = self._run("commit-tree", content, "-p", clean.revision, "-m", "ratchet: uncommitted changes", extra=extra)
        return Snapshot(revision, clean.tree.model_copy(update={"dirty": True, "content": content}))

    def add_worktree(self, folder: Path, revision: str) -> None:
        """Check ``revision`` out into ``folder``, which must not exist."""
        # On all cores: of tens of thousands of files, one process writes a few thousand a second.
        settings = ("-c", "core.hooksPath=/dev/null", "-c", "checkout.workers=0")
        self._run(*settings, "worktree", "add", "--quiet", "--detach", "--force", str(folder), revision)

    def remove_worktree(self, folder: Path) -> None:
        """Remove a worktree and git's note of it; a folder that is gone already is fine."""
        self._try("worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)
        self._try("worktree", "prune")

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

    def _run(self, *arguments: str, extra: Mapping[str, str] | None = None, refused: str = "") -> str:
        done = self._try(*arguments, extra=extra)
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
        raise GitError(f"git {command} failed in {self._folder}: {said.rstrip('.')}.", "Mend that and try again.")

    def _try(self, *arguments: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments],
            cwd=self._folder,
            env={**_environ(), **(extra or {})},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
        )


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _STRAY}
    return kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _all_but(apart: Sequence[str]) -> list[str]:
    """Pathspecs, from wherever in the repository git runs."""
    return [":/", *(f":(exclude,top,glob){each}" for each in apart)]


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="ratchet-index-")
    except OSError as error:
        raise OutputError(f"No temporary folder can be made: {error}.", "Free some space, or point TMPDIR elsewhere.") from None


def _copy(index: Path, copy: Path) -> None:
    try:
        shutil.copy2(index, copy)
    except OSError as error:
        raise OutputError(f"{copy} cannot be written: {error.strerror}.", "Free some space, or point TMPDIR elsewhere.") from None
