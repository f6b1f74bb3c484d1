"""What a remote says to a push, told apart by its words: git has no codes for them."""

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

from ratchet.errors import GitError
from ratchet.forge.git import Repository
from ratchet.records.files import save_bytes

_SECRET = re.compile(r"://[^/@\s]+@")
_RACE = ("non-fast-forward", "fetch first", "failed to update ref", "cannot lock ref", "incorrect old value", "stale info")
_PROTECTED = ("gh006", "gh013", "protected branch", "hook declined", "rule violations", "prohibited")
_DENIED = ("403", "401", "permission to", "permission denied", "authentication failed", "could not read username")


class Answer(Enum):
    """What a remote said to a push."""

    TAKEN = "taken"
    RACE = "race"
    """Somebody else moved the branch first."""
    PROTECTED = "protected"
    """A rule of the branch forbids this push, now and every time."""
    DENIED = "denied"
    """Whoever pushes has no right to write."""
    UNCLEAR = "unclear"
    """Anything else, a cut connection for one: the branch may have moved or not."""


def answer_of(said: str) -> Answer:
    """What the output of a push that was not taken means."""
    lines = [line.lower() for line in said.splitlines()]
    status = " ".join(line for line in lines if line.startswith("!"))
    if any(word in status for word in _RACE):
        return Answer.RACE
    everything = "\n".join(lines)
    if any(word in everything for word in _PROTECTED):
        return Answer.PROTECTED
    return Answer.DENIED if any(word in everything for word in _DENIED) else Answer.UNCLEAR


def last_words(said: str) -> str:
    """The line that says why: what the remote printed, else the status of the branch, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    remote = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    telling = [line for line in remote if "error" in line.lower()] or [line for line in remote if line]
    status = [line.split("\t")[-1] for line in lines if line.startswith("!")]
    return (telling or status or lines or ["no reason was given"])[-1][:300].rstrip(".")


def without_passwords(said: str) -> str:
    """The same text, in which no address holds a user or a password."""
    return _SECRET.sub("://", said)


# Branches of a remote repository: fetched beside the work tree, which stays as it is, and moved forward only.


_IDENTITY = {
    f"GIT_{role}_{part}": text
    for role in ("AUTHOR", "COMMITTER")
    for part, text in (("NAME", "ratchet"), ("EMAIL", "ratchet@localhost"))
}
_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.hooksPath=/dev/null")
_BOUNDED = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
"""A connection over which nothing comes for a minute is dead."""


@dataclass(frozen=True)
class Tip:
    """A branch of the remote as it was fetched."""

    branch: str
    commit: str


class Remote(Repository):
    """A clone and one of its remotes. Every method raises GitError with a sentence, in which no address shows a password."""

    def __init__(self, folder: Path, name: str = "origin") -> None:
        super().__init__(folder)
        self.name = name
        if self._try("remote", "get-url", "--", name).returncode != 0:
            raise GitError(f"{self.root} has no remote {name}.", "Name another one, or add it with `git remote add`.")

    def branch(self) -> str:
        """The branch that is checked out; empty where none is."""
        return self._try("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()

    @contextlib.contextmanager
    def fetched(self, branches: Sequence[str]) -> Iterator[dict[str, Tip]]:
        """The branches as they are on the remote now, those that it has; their commits stay until the block ends."""
        place = f"refs/ratchet/{secrets.token_hex(8)}"
        there = [branch for branch in dict.fromkeys(branches) if branch in self._listed(branches)]
        refs = {branch: f"{place}/{number}" for number, branch in enumerate(there)}
        try:
            if refs:
                wanted = [f"+refs/heads/{branch}:{ref}" for branch, ref in refs.items()]
                self._over_the_wire("fetch", "--no-write-fetch-head", *wanted)
            yield {branch: Tip(branch, self._run("rev-parse", "--verify", ref)) for branch, ref in refs.items()}
        finally:
            for ref in refs.values():
                self._try("update-ref", "-d", ref)

    def commit_file(self, base: str | None, parents: Sequence[str], path: str, content: bytes, message: str) -> str:
        """A commit of the content of ``base`` (None: of nothing) with this one file changed. No branch knows of it yet."""
        with tempfile.TemporaryDirectory(prefix="ratchet-push-") as folder:
            save_bytes(Path(folder, "content"), content)
            blob = self._run("hash-object", "-w", "--no-filters", str(Path(folder, "content")))
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._run("read-tree", *([base] if base else ["--empty"]), extra=index)
            self._run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", extra=index)
            tree = self._run("write-tree", extra=index)
        given = [word for parent in parents for word in ("-p", parent)]
        return self._run("commit-tree", tree, *given, "-m", message, extra={} if self.user() else _IDENTITY)

    def push(self, commit: str, branch: str) -> tuple[Answer, str]:
        """Move a branch forward to a commit, never by force; what the remote answered, and its words."""
        words = ("push", "--porcelain", "--no-verify", "--", self.name, f"{commit}:refs/heads/{branch}")
        done = self._try(*_QUIET, *_BOUNDED, *words)
        if done.returncode == 0:
            return Answer.TAKEN, ""
        said = without_passwords(f"{done.stdout}\n{done.stderr}")
        return answer_of(said), last_words(said)

    def is_ancestor(self, commit: str, tip: str) -> bool:
        """Whether ``tip`` is ``commit`` or comes after it; False also for a commit that this clone does not have."""
        return self._try("merge-base", "--is-ancestor", commit, tip).returncode == 0

    def first_parents(self, before: str, commit: str, most: int = 50) -> list[str]:
        """What a push brought to its branch, newest first, without what was merged in; the commit alone where nobody can tell."""
        if not self.is_ancestor(before, commit):
            return [commit]
        return self._run("rev-list", "--first-parent", f"--max-count={most}", f"{before}..{commit}", "--").split() or [commit]

    def deepen(self) -> None:
        """The whole history, where the clone is shallow."""
        if self.is_shallow():
            self._over_the_wire("fetch", "--unshallow")

    def commit_with_tree(self, tree: str, tip: str) -> str | None:
        """The newest commit up to ``tip`` with exactly this content."""
        for line in self._run("log", "--no-show-signature", "--format=%H %T", tip, "--").splitlines():
            commit, _, content = line.partition(" ")
            if content == tree:
                return commit
        return None

    def _listed(self, branches: Sequence[str]) -> set[str]:
        lines = self._over_the_wire("ls-remote", *(f"refs/heads/{branch}" for branch in branches)).splitlines()
        return {line.partition("\trefs/heads/")[2] for line in lines}

    def _over_the_wire(self, command: str, *words: str) -> str:
        flags = ("--quiet", "--no-tags", "--no-recurse-submodules") if command == "fetch" else ()
        named = [word for word in words if word.startswith("--")]
        done = self._try(*_QUIET, *_BOUNDED, command, *flags, *named, "--", self.name, *(w for w in words if w not in named))
        if done.returncode != 0:
            said = last_words(without_passwords(done.stderr))
            raise GitError(f"git {command} from {self.name} failed: {said}.", "Check the network and the token, then run again.")
        return done.stdout


# One file of one branch, moved forward against everybody else who does the same: nobody's step is lost, nothing is forced.


Mode = Literal["push", "pull-request", "branch"]
_TRIES = 200
"""Of a push that others overtake. Each round of a race has a winner, so this many writers at once get through."""
_UNCLEAR_TRIES = 4
_LONGEST_WAIT_S = 2.0


class Protected(GitError):
    """A rule of the branch forbids the push: the file has to go another way."""


@dataclass(frozen=True)
class PushTarget:
    """Where the file goes. ``main`` is the branch whose code was measured."""

    mode: Mode
    main: str
    side: str
    """The branch of its own that the modes ``pull-request`` and ``branch`` write."""

    @property
    def branch(self) -> str:
        return self.main if self.mode == "push" else self.side


@dataclass(frozen=True)
class RemoteFile:
    """What is there at this moment."""

    main: str
    """The commit of the main branch."""
    content: bytes | None
    """The file there; None where there is none."""
    waiting: bytes | None = None
    """The file of the side branch, where the target is one and has it."""


@dataclass(frozen=True)
class Change:
    """What the file shall be."""

    content: bytes
    message: str


@dataclass(frozen=True)
class Pushed:
    """How it ended. ``commit`` is None where there was nothing to change."""

    commit: str | None
    branch: str
    tries: int


def push_file(
    remote: Remote,
    target: PushTarget,
    path: str,
    change: Callable[[RemoteFile], Change | None],
    wait: Callable[[float], None] = time.sleep,
) -> Pushed:
    """Apply ``change`` to the file as it is on the remote, and push; when overtaken, fetch and apply it again.

    ``change`` is called once a try and must start from what it is given. Neither index nor work tree are touched. Raises
    Protected where the branch refuses, GitError where the remote cannot be reached, gives no right to write, or stays unclear.
    """
    unclear = 0
    made: str | None = None
    for number in range(1, _TRIES + 1):
        with remote.fetched([target.main, target.branch]) as tips:
            if made and target.branch in tips and remote.is_ancestor(made, tips[target.branch].commit):
                return Pushed(made, target.branch, number - 1)  # the answer to the last push was lost, not the push
            made = _next_commit(remote, target, path, change, tips)
            if made is None:
                return Pushed(None, target.branch, number)
            answer, words = remote.push(made, target.branch)
        if answer is Answer.TAKEN:
            return Pushed(made, target.branch, number)
        if answer is Answer.PROTECTED:
            raise Protected(f"{target.branch} takes no push: {words}.", "Let the baseline go by --mode pull-request or branch.")
        if answer is Answer.DENIED:
            raise GitError(f"{remote.name} does not let this token write: {words}.", "Give the job `contents: write`.")
        unclear += answer is Answer.UNCLEAR
        if unclear >= _UNCLEAR_TRIES:
            raise GitError(f"{target.branch} could not be pushed: {words}.", "Nothing was recorded; run the job again.")
        wait(secrets.SystemRandom().uniform(0, min(_LONGEST_WAIT_S, 0.05 * 2 ** min(number, 10))))
    raise GitError(f"{target.branch} moved {_TRIES} times while this was pushed.", "Nothing was recorded; run the job again.")


def commit_on(remote: Remote, tip: str, commit: str, content: str) -> str | None:
    """The commit of the branch at ``tip`` that holds what was measured at ``commit``: itself, or one with the same content.

    ``content`` is the hash of the measured tree, for a commit that this clone has not. None: history was rewritten without it.
    """
    if not remote.is_ancestor(commit, tip):
        remote.deepen()
    if remote.is_ancestor(commit, tip):
        return commit
    return remote.commit_with_tree(remote.tree_of(commit) or content, tip)


def _next_commit(
    remote: Remote, target: PushTarget, path: str, change: Callable[[RemoteFile], Change | None], tips: dict[str, Tip]
) -> str | None:
    if target.main not in tips:
        raise GitError(f"{remote.name} has no branch {target.main}.", "Name the branch with --onto.")
    main = tips[target.main].commit
    side = tips[target.side].commit if target.mode != "push" and target.side in tips else None
    wanted = change(RemoteFile(main, remote.file_in(main, path), remote.file_in(side, path) if side else None))
    if wanted is None:
        return None
    base: str | None
    if target.mode == "push":
        base, parents = main, [main]
    elif target.mode == "branch":  # a history of its own, of this file alone
        base, parents = side, [side] if side else []
    elif side is None:
        base, parents = main, [main]
    elif remote.is_ancestor(main, side):
        base, parents = side, [side]
    else:  # main went on, perhaps with a squashed copy of the branch: joined again, so that nothing needs force
        base, parents = main, [side, main]
    return remote.commit_file(base, parents, path, wanted.content, wanted.message)
