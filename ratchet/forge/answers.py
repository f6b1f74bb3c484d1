"""What a remote says to a push, told apart by its words: git has no codes for them."""

from __future__ import annotations

import re
from enum import Enum

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
