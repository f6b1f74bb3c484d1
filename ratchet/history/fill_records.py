"""The state of a walk through a range of commits: ``results/fill/…/fill.json``.

`ratchet.history.fill` writes it after each commit, and goes on from there; `ratchet.history.fill_report` shows it. Pure.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from ratchet.core.records import NotNegative, Record
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import Tree
from ratchet.core.records.verdict import Outcome
from ratchet.history.records import RatioTo

CommitResult = Literal["identical", "timed", "failed"]


class FilledCase(Record):
    """One case of a commit that did not do the same as the commit before it."""

    name: str
    outcome: Outcome
    """Against the commit before it."""
    reason: str
    """One sentence."""
    reference: RatioTo | None = None
    """Against the commit before it."""
    anchor: RatioTo | None = None
    """Measured again, in other processes, against the first commit of the range that has the case."""
    confirmed: bool | None = None
    """The measurement against the anchor shows the same change; None where nothing looked changed, or none was possible."""
    cause: str = ""
    """The likeliest cause, by its profile."""


class FilledCommit(Record):
    """One commit of the walk."""

    tree: Tree
    result: CommitResult
    """``identical``: no case does anything else than at the commit before; ``failed``: it could not be measured."""
    reason: str
    """One sentence."""
    before: str
    """The commit that it was compared with."""
    seconds: NotNegative
    machine: Fingerprint | None = None
    """None: it was proved to be identical without a device, or failed before there was one."""
    run: str = ""
    """Name of its file within the history; empty for one that failed."""
    same: tuple[str, ...] = ()
    """Cases that do the same as at the commit before, so that they were not timed."""
    cases: tuple[FilledCase, ...] = ()
    """All others."""


class FillRecord(Record):
    """A walk, as far as it has come."""

    schema_version: Literal[1] = 1
    older: Tree
    newer: Tree
    paths: tuple[str, ...] = ()
    """Only commits that change one of these are looked at; empty: all."""
    patterns: tuple[str, ...] = ()
    benchmarks: str
    """The hash of the folder of benchmarks that every commit is measured with."""
    commits: tuple[str, ...]
    """All commits to look at, along first parents, the oldest first."""
    done: tuple[FilledCommit, ...] = ()
    """The first of them, in this order."""
    started_at: AwareDatetime

    @property
    def before(self) -> str:
        """The commit that the next one is compared with: the last one that could be measured."""
        return next((one.tree.commit for one in reversed(self.done) if one.result != "failed"), self.older.commit)

    @property
    def left(self) -> tuple[str, ...]:
        """The commits that are still to be looked at."""
        return self.commits[len(self.done) :]

    def level_of(self, case: str, machine: Fingerprint) -> RatioTo | None:
        """Return the anchor of a case on a machine, and the time there / at the anchor that the last confirmed change left.

        None where the case was neither measured on this machine nor proved to be the same yet.
        """
        level: RatioTo | None = None
        for one in self.done:
            if one.machine not in (machine, None):  # None: proved to be the same, by what holds on any machine
                continue
            filled = next((each for each in one.cases if each.name == case), None)
            if level is None and (case in one.same or (filled and filled.reference)):
                level = RatioTo(commit=one.before, ratio=1, low=1, high=1, pairs=0)
            if filled and filled.anchor and (filled.confirmed or (level and filled.anchor.commit != level.commit)):
                level = filled.anchor
        return level
