"""Values that GitHub gives us about a pull request, values that we send, acceptances of regressions, and notices of them.

`ratchet.github.client` reads and sends them; commands, the judge and the reports use them without a network. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import AwareDatetime, Field

from ratchet.core.records import Positive, Record
from ratchet.core.records.baseline import Commit

Level = Literal["notice", "warning", "failure"]
Conclusion = Literal["success", "failure", "neutral", "action_required"]
"""Conclusions of a check run. GitHub lets ``success`` and ``neutral`` satisfy a required check, and the other two block it."""

Change = Literal["workflow", "workflow of the base", "jobs", "benchmarks", "settings", "baseline", "unknown"]
"""A part of the measurement that a pull request changes, or, by the branch that it is based on, has otherwise."""

LARGEST_CHECK_TEXT = 65_535
"""Characters of a check run's summary, and of its text."""
ANNOTATIONS_A_CALL = 50
"""Most annotations that GitHub accepts in one call."""


@dataclass(frozen=True)
class Pull:
    """A pull request. Author, branch and labels are whatever their author wrote."""

    number: int
    state: str
    """``open`` or ``closed``."""
    merged: bool
    author: str
    head_sha: str
    head_ref: str
    head_repository: str | None
    """``owner/name``; None where the fork is gone."""
    base_sha: str
    base_ref: str
    labels: tuple[str, ...]
    url: str


@dataclass(frozen=True)
class Issue:
    """An issue, or a pull request, which GitHub lists among them."""

    number: int
    author: str
    """The login; ``ghost`` where the account is gone."""
    title: str
    body: str
    is_open: bool
    state_reason: str
    """``completed``, ``not_planned``, ``reopened``, … or empty."""
    url: str


@dataclass(frozen=True)
class Comment:
    """A comment of a pull request's conversation."""

    id: int
    author: str
    """The login; ``ghost`` where the account is gone."""
    body: str
    created_at: datetime
    updated_at: datetime
    url: str


@dataclass(frozen=True)
class WorkflowRun:
    """One run of a workflow."""

    id: int
    path: str
    """Path of the workflow's file, ``.github/workflows/….yml``."""
    event: str
    head_sha: str
    head_branch: str
    """Empty where the run belongs to no branch."""
    head_repository: str | None
    """``owner/name``; None where the fork is gone."""
    conclusion: str | None
    """None while it runs."""
    url: str
    attempt: int
    started_at: datetime
    """When this attempt began."""


@dataclass(frozen=True)
class CheckRun:
    """A check run that our own App made: GitHub itself says which App that was."""

    id: int
    external_id: str
    completed: bool


class TreeEntry(NamedTuple):
    """An entry of a folder of the repository, as git keeps it."""

    mode: str
    """Six digits: ``040000`` is a folder."""
    sha: str
    """Equal hashes mean equal content."""


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact of a run, of whichever attempt."""

    name: str
    created_at: datetime
    expired: bool


@dataclass(frozen=True)
class Annotation:
    """A remark on a line of a file, counted from 1."""

    path: str
    line: int
    level: Level
    title: str
    message: str


@dataclass(frozen=True)
class CheckOutput:
    """The content of a check run. ``summary`` and ``text`` are Markdown of at most LARGEST_CHECK_TEXT characters each."""

    title: str
    summary: str
    text: str
    annotations: tuple[Annotation, ...] = ()


LONGEST_CASE = 200
LONGEST_REASON = 500

Login = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?$")]
"""Name of an account on GitHub."""


class Acceptance(Record):
    """One accepted regression: by whom, why, and for which head. Another head needs another acceptance."""

    case: Annotated[str, Field(min_length=3, max_length=LONGEST_CASE)]
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    by: Login
    sha: Commit
    """The head of the pull request at the time."""
    comment: Annotated[int, Field(gt=0, lt=2**63)] | None
    """Id of the person's comment; None where it was done by a label."""
    at: AwareDatetime


# A regression of main as it is told to people: `ratchet.github.notice` makes it, and writes the issue and the message; a webhook
# receives it as JSON.


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
