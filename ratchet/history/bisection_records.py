"""The state of a search for the commit that changed a case: ``results/bisect/…/search.json``.

`ratchet.history.bisect` writes it after each commit that was looked at, and goes on from there; `ratchet.core.report.lines` shows
it. Pure.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from ratchet.core.records import Positive, Record
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import Plan, Tree
from ratchet.core.records.verdict import Comparison

End = Literal["good", "bad"]
"""The end of the range that a commit is like."""
VerdictName = End | Literal["skipped", "undecided"]


class CommitVerdict(Record):
    """One commit that the search looked at."""

    tree: Tree
    verdict: VerdictName
    reason: str
    """One sentence."""
    comparison: Comparison | None = None
    """The commit against GOOD, where it was timed."""
    identity: str = ""
    """Digest of its launches, as in `CaseRun`."""

    @property
    def end(self) -> End | None:
        """Which end of the range the commit is like; None where that is not known."""
        return self.verdict if self.verdict in ("good", "bad") else None


class SearchRecord(Record):
    """A search, as far as it has come."""

    schema_version: Literal[1] = 1
    case: str
    package: str = ""
    """The package whose versions stand in the place of commits; empty where commits are searched."""
    good: Tree
    bad: Tree
    benchmarks: str
    """The hash of the folder of benchmarks that every commit is measured with."""
    fingerprint: Fingerprint
    plan: Plan
    error: Positive
    """The probability that the search names a wrong commit is at most this."""
    commits: tuple[str, ...]
    """All commits after GOOD up to BAD, along first parents, the oldest first."""
    looked_at: tuple[CommitVerdict, ...] = ()
    """In this order; one that was undecided in an earlier run may come again."""
    started_at: AwareDatetime
    command: tuple[str, ...]
    suspects: tuple[Tree, ...] = ()
    """At the end: the commits among which the change is, one where all could be measured, the oldest first."""
    parent: Tree | None = None
    """The last commit before these that is as GOOD."""
    merged: tuple[str, str] | None = None
    """Where the one suspect is a merge: where the merged branch began, and its last commit."""
