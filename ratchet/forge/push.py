"""One file of one branch, moved forward against everybody else who does the same: nobody's step is lost, nothing is forced."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ratchet.errors import GitError
from ratchet.forge.answers import Answer
from ratchet.forge.remote import Remote, Tip

Mode = Literal["push", "pull-request", "branch"]
_TRIES = 200
"""Of a push that others overtake. Each round of a race has a winner, so this many writers at once get through."""
_UNCLEAR_TRIES = 4
_LONGEST_WAIT_S = 2.0


class Protected(GitError):
    """A rule of the branch forbids the push: the file has to go another way."""


@dataclass(frozen=True)
class Target:
    """Where the file goes. ``main`` is the branch whose code was measured."""

    mode: Mode
    main: str
    side: str
    """The branch of its own that the modes ``pull-request`` and ``branch`` write."""

    @property
    def branch(self) -> str:
        return self.main if self.mode == "push" else self.side


@dataclass(frozen=True)
class Found:
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
    target: Target,
    path: str,
    change: Callable[[Found], Change | None],
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
    remote: Remote, target: Target, path: str, change: Callable[[Found], Change | None], tips: dict[str, Tip]
) -> str | None:
    if target.main not in tips:
        raise GitError(f"{remote.name} has no branch {target.main}.", "Name the branch with --onto.")
    main = tips[target.main].commit
    side = tips[target.side].commit if target.mode != "push" and target.side in tips else None
    wanted = change(Found(main, remote.file_in(main, path), remote.file_in(side, path) if side else None))
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
