"""Move one file of one branch of a remote forward while others do the same: nothing is lost, nothing forced.

The tools that keep a file on a branch call `push_file`. Starts git, which uses the network, and adds objects and temporary refs
to the clone; branches are fetched beside the work tree, which stays as it is.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

from ratchet.core.errors import GitError
from ratchet.core.git import AUTHOR, Repository
from ratchet.core.records.files import save_bytes

_SECRET = re.compile(r"://[^/@\s]+@")
"""The user and the password in an address."""
_RACE = ("non-fast-forward", "fetch first", "failed to update ref", "cannot lock ref", "incorrect old value", "stale info")
_PROTECTED = ("gh006", "gh013", "protected branch", "hook declined", "rule violations", "prohibited")
_DENIED = ("error: 403", "error: 401", "permission to", "permission denied", "authentication failed", "could not read username")
"""Words in the answer to a push, in lower case; git has no codes for them, so an answer in new words is `UNCLEAR`.

The numbers need their word before them: commits, which git names in the same lines, hold 403 and 401 too.
"""


class PushAnswer(Enum):
    """The answer of a remote to a push."""

    TAKEN = "taken"
    RACE = "race"
    """Somebody else moved the branch first."""
    PROTECTED = "protected"
    """A rule of the branch forbids this push, now and every time."""
    DENIED = "denied"
    """The token has no right to write."""
    UNCLEAR = "unclear"
    """Anything else, such as a cut connection: the branch may have moved or not."""


def answer_of(output: str) -> PushAnswer:
    """Classify the output of a push that failed."""
    lines = [line.lower() for line in output.splitlines()]
    status = " ".join(line for line in lines if line.startswith("!"))
    if any(word in status for word in _RACE):
        return PushAnswer.RACE
    everything = "\n".join(lines)
    if any(word in everything for word in _PROTECTED):
        return PushAnswer.PROTECTED
    return PushAnswer.DENIED if any(word in everything for word in _DENIED) else PushAnswer.UNCLEAR


def last_words(output: str) -> str:
    """Return the line that says why: the remote's last, else the branch's status, else git's own error, else the last of all."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    remote = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    reasons = [line for line in remote if "error" in line.lower()] or [line for line in remote if line]
    status = [line.split("\t")[-1] for line in lines if line.startswith("!")]
    errors = [line.removeprefix("fatal:").strip() for line in lines if line.startswith("fatal:")]
    return (reasons or status or errors or lines or ["no reason was given"])[-1][:300].rstrip(".")


# Branches of a remote repository.

_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.hooksPath=/dev/null")
_BOUNDED = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
"""A connection without data for a minute is dead."""


class Remote(Repository):
    """A clone and one of its remotes. Every method may raise GitError; no address in its sentence shows a password."""

    def __init__(self, folder: Path, name: str = "origin") -> None:
        super().__init__(folder)
        self.name = name
        if self._try("remote", "get-url", "--", name).returncode != 0:
            raise GitError(f"{self.root} has no remote {name}.", "Name another one, or add it with `git remote add`.")

    def branch(self) -> str:
        """Return the branch that is checked out; empty if none is."""
        return self._try("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()

    @contextlib.contextmanager
    def fetched(self, branches: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield branch → commit as on the remote now, without branches that it lacks; git keeps the commits until the end."""
        place = f"refs/ratchet/{secrets.token_hex(8)}"
        listing = self._talk("ls-remote", *(f"refs/heads/{branch}" for branch in branches)).splitlines()
        listed = {line.partition("\trefs/heads/")[2] for line in listing}
        there = [branch for branch in dict.fromkeys(branches) if branch in listed]
        refs = {branch: f"{place}/{number}" for number, branch in enumerate(there)}
        try:
            if refs:
                self._talk("fetch", "--no-write-fetch-head", *(f"+refs/heads/{branch}:{ref}" for branch, ref in refs.items()))
            yield {branch: self._run("rev-parse", "--verify", ref) for branch, ref in refs.items()}
        finally:
            for ref in refs.values():
                self._try("update-ref", "-d", ref)

    def follow(self, branch: str) -> str:
        """Fetch a branch as `git fetch` does, whatever the clone fetches by itself; return its commit, empty if there is none."""
        if not self._talk("ls-remote", f"refs/heads/{branch}"):
            return ""
        place = f"refs/remotes/{self.name}/{branch}"
        self._talk("fetch", f"+refs/heads/{branch}:{place}")
        return self.hash_of(f"{place}^{{commit}}")

    def commit_file(self, base: str | None, parents: Sequence[str], path: str, content: bytes, message: str) -> str:
        """Commit the content of ``base`` (None: of nothing) with this one file changed, on no branch; return the commit."""
        with tempfile.TemporaryDirectory(prefix="ratchet-push-") as folder:
            save_bytes(Path(folder, "content"), content)
            blob = self._run("hash-object", "-w", "--no-filters", str(Path(folder, "content")))
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._run("read-tree", *([base] if base else ["--empty"]), extra=index)
            self._run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", extra=index)
            tree = self._run("write-tree", extra=index)
        flags = [word for parent in parents for word in ("-p", parent)]
        return self._run("commit-tree", tree, *flags, "-m", message, extra={} if self.user() else AUTHOR)

    def push(self, commit: str, branch: str) -> tuple[PushAnswer, str]:
        """Move a branch forward to a commit, never by force; return the remote's answer and its words."""
        words = ("push", "--porcelain", "--no-verify", "--", self.name, f"{commit}:refs/heads/{branch}")
        done = self._try(*_QUIET, *_BOUNDED, *words)
        if done.returncode == 0:
            return PushAnswer.TAKEN, ""
        output = _SECRET.sub("://", f"{done.stdout}\n{done.stderr}")
        return answer_of(output), last_words(output)

    def first_parents(self, before: str, commit: str) -> list[str]:
        """Return the commits after ``before`` up to a commit, newest first, without merged ones; the commit alone if unknown.

        At most 200: each is a question to GitHub.
        """
        after = self.commits_after(before, commit) if self.is_ancestor(before, commit) else []
        return after[:-201:-1] or [commit]

    def changed_files(self, main: str, side: str, known: Sequence[str]) -> list[str]:
        """Return what a branch changes beside the ``known`` files since it left another one."""
        start = self._try("merge-base", main, side).stdout.strip()
        return [name for name in self.changed_paths(start, side) if name not in known] if start else list(known)

    def deepen(self) -> None:
        """Fetch the whole history, if the clone is shallow."""
        if self.is_shallow():
            self._talk("fetch", "--unshallow")

    def commit_with_tree(self, tree: str, tip: str) -> str | None:
        """Return the newest commit up to ``tip`` with exactly this content."""
        for line in self._run("log", "--no-show-signature", "--format=%H %T", tip, "--").splitlines():
            commit, _, content = line.partition(" ")
            if content == tree:
                return commit
        return None

    def _talk(self, command: str, *words: str) -> str:
        """Run a command that asks the remote."""
        flags = ("--quiet", "--no-tags", "--no-recurse-submodules") if command == "fetch" else ()
        options = [word for word in words if word.startswith("--")]
        done = self._try(*_QUIET, *_BOUNDED, command, *flags, *options, "--", self.name, *(w for w in words if w not in options))
        if done.returncode != 0:
            output = _SECRET.sub("://", done.stderr)
            raise GitError(f"git {command} from {self.name} failed: {last_words(output)}.", _hint(output))
        return done.stdout


_UNREACHED = ("could not resolve", "unable to access", "timed out", "connection", "remote end hung up", "early eof")
"""Words of git where the network is the reason, in lower case."""


def _hint(output: str) -> str:
    """Return where to look after git could not talk to the remote."""
    lower = output.lower()
    if any(word in lower for word in _DENIED):
        return "Check the token: the job needs `contents: write`, and a checkout that keeps its credentials."
    if any(word in lower for word in _UNREACHED):
        return "Check the network, then run again."
    return "Do what git says about the address, the branch or the disk of this machine, then run again."


# One file of one branch.

Mode = Literal["push", "pull-request", "branch"]
_TRIES = 200
"""Tries of a push that others overtake. Each round has a winner, so this many writers at once get through."""
_UNCLEAR_TRIES = 4
_LONGEST_WAIT_S = 2.0


class ProtectedBranch(GitError):
    """A rule of the branch forbids the push, so the file has to go another way."""


@dataclass(frozen=True)
class PushTarget:
    """The branches that a push is about. ``main`` is the branch whose code was measured."""

    mode: Mode
    main: str
    side: str
    """The branch of its own that the modes ``pull-request`` and ``branch`` write."""
    beside: tuple[str, ...] = ()
    """Files of other pushes to the same branch; what a pull request changes beside these and its own is foreign."""

    @property
    def branch(self) -> str:
        """The branch that is written."""
        return self.main if self.mode == "push" else self.side


@dataclass(frozen=True)
class RemoteFile:
    """The file as it is on the remote now."""

    main: str
    """The commit of the main branch."""
    content: bytes | None
    """The file of the main branch; None if there is none."""
    waiting: bytes | None = None
    """The file of the side branch, if the target is one and has the file."""


@dataclass(frozen=True)
class FileChange:
    """The new file, and the message of its commit."""

    content: bytes
    message: str


def push_file(
    remote: Remote,
    target: PushTarget,
    path: str,
    change: Callable[[RemoteFile], FileChange | None],
    wait: Callable[[float], None] = time.sleep,
) -> str | None:
    """Apply ``change`` to the file as it is on the remote, and push; when overtaken, fetch and apply it again.

    Return the commit; None if there was nothing to change. ``change`` is called once per try and must start from its argument.
    Raises ProtectedBranch where the branch refuses, GitError where the remote cannot be reached, gives no right to write, or
    stays unclear.
    """
    unclear = 0
    made: str | None = None
    for number in range(1, _TRIES + 1):
        with remote.fetched([target.main, target.branch]) as tips:
            if made and target.branch in tips and remote.is_ancestor(made, tips[target.branch]):
                return made  # the answer to the last push was lost, not the push
            made = _next_commit(remote, target, path, change, tips)
            if made is None:
                return None
            answer, words = remote.push(made, target.branch)
        if answer is PushAnswer.TAKEN:
            return made
        if answer is PushAnswer.PROTECTED:
            raise ProtectedBranch(f"{target.branch} does not accept a push: {words}.", "Use --mode pull-request or branch.")
        if answer is PushAnswer.DENIED:
            raise GitError(f"{remote.name} does not let this token write: {words}.", "Give the job `contents: write`.")
        unclear += answer is PushAnswer.UNCLEAR
        if unclear >= _UNCLEAR_TRIES:
            raise GitError(f"{target.branch} could not be pushed: {words}.", "Nothing was recorded; run the job again.")
        wait(secrets.SystemRandom().uniform(0, min(_LONGEST_WAIT_S, 0.05 * 2 ** min(number, 10))))
    raise GitError(f"{target.branch} moved {_TRIES} times while this was pushed.", "Nothing was recorded; run the job again.")


def commit_on(remote: Remote, tip: str, commit: str, content: str) -> str | None:
    """Return the commit up to ``tip`` that holds what was measured at ``commit``: itself, or one with the same content.

    ``content`` is the hash of the measured tree, for a commit that this clone lacks. None: history was rewritten without it.
    """
    if not remote.is_ancestor(commit, tip):
        remote.deepen()
    if remote.is_ancestor(commit, tip):
        return commit
    return remote.commit_with_tree(remote.hash_of(f"{commit}^{{tree}}") or content, tip)


def _next_commit(
    remote: Remote, target: PushTarget, path: str, change: Callable[[RemoteFile], FileChange | None], tips: dict[str, str]
) -> str | None:
    if target.main not in tips:
        raise GitError(f"{remote.name} has no branch {target.main}.", "Name the branch with --onto.")
    main = tips[target.main]
    side = tips.get(target.side) if target.mode != "push" else None
    if side and target.mode == "pull-request" and (others := remote.changed_files(main, side, (path, *target.beside))):
        raise GitError(
            f"The branch {target.side} also changes {others[0]!a}, which no commit of ours does, and would merge that.",
            f"Look at who pushed it, delete the branch {target.side}, and run the job again.",
        )
    wanted = change(RemoteFile(main, remote.file_in(main, path), remote.file_in(side, path) if side else None))
    if wanted is None:
        return None
    # In the mode `branch` the side has a history of its own, of this file alone.
    base = side if target.mode == "branch" or (side and remote.is_ancestor(main, side)) else main
    # Where main moved on, perhaps with a squashed copy of the side: a merge, so that nothing needs force.
    parents = [commit for commit in dict.fromkeys((side, base)) if commit]
    return remote.commit_file(base, parents, path, wanted.content, wanted.message)
