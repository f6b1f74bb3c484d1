"""A regression of main as it is told to people: which cases, how much, since which commit, and why.

`ratchet.judge.notice` makes it, `ratchet.report.notice` writes the issue and the message, a webhook receives it as JSON. Pure.
"""

from __future__ import annotations

from typing import Literal

from ratchet.records.base import Positive, Record


class SlowCase(Record):
    """One case that two runs of one commit have shown to be slower."""

    name: str
    ratio: Positive
    """Head time / reference time."""
    low: Positive
    high: Positive
    before_ms: Positive | None = None
    after_ms: Positive | None = None


class SlowCause(Record):
    """The cases that became slower for one reason."""

    key: str
    """Stays the same while the reason does: what a profile found and in which kernel, else the commit that came with it."""
    what: str
    """One sentence."""
    advice: str = ""
    counters: tuple[str, ...] = ()
    """Counters of both sides, one in a line."""
    cases: tuple[SlowCase, ...]
    good: str
    """The last commit that is known to be faster."""
    bad: str
    """The commit that is slower."""


class Notice(Record):
    """The body of a webhook's request."""

    schema_version: Literal[1] = 1
    event: Literal["regression", "fixed"]
    repository: str
    commit: str
    run_url: str
    headline: str
    causes: tuple[SlowCause, ...] = ()
    fixed: tuple[str, ...] = ()
    """Cases that are no longer slower."""
    issues: tuple[str, ...] = ()
    """Addresses of the issues about them."""
