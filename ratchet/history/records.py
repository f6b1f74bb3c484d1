"""One judged run of the main branch as the history keeps it, and the series of one case that it is read as.

`ratchet.history.judge` makes a `HistoryRun` of a run and its report; `ratchet.history.store` keeps one file for each and returns
`Series`, which tables, pages and the search for change points take. Pure.
"""

from __future__ import annotations

from datetime import UTC
from typing import Literal

from pydantic import AwareDatetime, Field

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.baseline import Commit
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.run import GateName
from ratchet.core.records.verdict import Outcome


class RatioTo(Record):
    """Time of a run's commit / time of another commit, both measured side by side in this run. Above 1 is slower."""

    commit: Commit
    """The other commit."""
    ratio: Positive
    low: Positive
    high: Positive
    pairs: Count
    """0: both commits run the same code, so they were not timed and the ratio is 1."""


class HistoryCase(Record):
    """One case of one run."""

    name: str
    outcome: Outcome
    """Against the reference."""
    reference: RatioTo | None = None
    """The commit that the case was judged against; None where nothing was compared."""
    anchor: RatioTo | None = None
    """The fixed commit of this machine and case that the long-run index counts from; None where it was not measured."""
    median_ms: Positive | None = None
    roof: str | None = None
    """``copy`` or ``matmul``, as in the report."""
    share_of_roof: NotNegative | None = None
    peak_memory_bytes: Count | None = None
    takes: dict[GateName, NotNegative] = {}
    """What else the head takes besides time, as gates know it: in bytes, in seconds or as a count."""
    gflops: NotNegative | None = None
    gb_s: NotNegative | None = None
    workload: str = ""
    """Digest of the definition of the work: times of different ones do not compare."""
    why: str | None = None
    """The likeliest cause of the outcome, as its profile shows it."""
    profile: CaseProfile | None = None
    """What `ratchet.history.judge.shortened` leaves of its profile: findings, and the main counters of both sides."""
    muted: str | None = None
    """One sentence: until when, by whom and why."""


class HistoryRun(Record):
    """``2026-11/20261122T143005Z-0123456789-0123456789ab.json``: one judged run of main, without its samples."""

    schema_version: Literal[1] = 1
    commit: Commit
    """The commit of the main branch that holds the measured code."""
    subject: str = ""
    started_at: AwareDatetime
    placed_at: AwareDatetime | None = None
    """Its place in time where it was measured long after its commit was made: then, and after the commit before it."""
    fingerprint: Fingerprint
    """The machine, with its GPU, driver and software."""
    verdict: Literal["pass", "regression", "not measured"]
    headline: str
    regression: Positive
    """The gate that it was judged by, as a fraction."""
    url: str | None = None
    """Of the workflow run that measured it."""
    device_s: NotNegative | None = None
    """Seconds that the check took, without profiles, times its devices; None: of an earlier ratchet, which did not say."""
    cases: tuple[HistoryCase, ...]

    @property
    def at(self) -> AwareDatetime:
        """The place of the run in time, in UTC: the dates of commits have the zones of their authors."""
        return (self.placed_at or self.started_at).astimezone(UTC)


class Point(Record):
    """One run in the series of one case."""

    run: str
    """Name of the run's file within the history."""
    commit: Commit
    subject: str
    started_at: AwareDatetime
    """`HistoryRun.at`."""
    machine: str
    """`Fingerprint.key`."""
    case: HistoryCase
    index: Positive | None = None
    """Time / the time of the first anchor of its segment; None where no anchor was measured."""
    low: Positive | None = None
    high: Positive | None = None
    segment: Count = 0
    """Indexes compare within one segment. A new one begins at a break that nothing bridges."""
    seam: str | None = None
    """Why the series breaks before this point, in one sentence: another anchor, machine or workload; bridged or not."""
    bridged: bool = False
    """Of a seam: both anchors were measured, so the segment goes on."""


class Series(Record):
    """All runs of one case on one kind of hardware, oldest first."""

    case: str
    hardware: str
    """Name of the hardware, for people: the GPU, or the CPU."""
    points: tuple[Point, ...]
    runs: Count
    """How many runs have the case; more than there are points where only the latest were asked for."""
    origin: Commit | None = Field(default=None, exclude=True)
    """The anchor that the index of the latest point counts from. It is not written out, since the points have it."""
