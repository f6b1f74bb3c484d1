"""What the chain of a case consists of: its steps, and the measurements that they stand on."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from ratchet.records.base import Count, Positive, Record

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""The first 128 bits of a SHA-256, which `ratchet.judge.chain` computes."""
UNSEALED = "0" * 32


class StepKind(StrEnum):
    """What a step of the chain was."""

    FIRST = "first"
    IMPROVED = "improved"
    """Proven faster than the commit before it, in two separate measurements."""
    ACCEPTED = "accepted"
    """Moved on purpose, by a person with a reason; the only step that may be slower."""
    CHANGED = "changed"
    """The workload is another one, so the chain starts anew: its time does not compare with the one before."""
    RENAMED = "renamed"
    REMOVED = "removed"
    RETURNED = "returned"
    """Removed earlier and there again, with the same workload."""


SETTING = (StepKind.FIRST, StepKind.IMPROVED, StepKind.ACCEPTED, StepKind.CHANGED)
"""Steps that set the figures; the others leave them as they are."""


class Measurement(Record):
    """One run's comparison of a commit with a reference commit. ``ratio`` is its time / the reference's time."""

    started_at: AwareDatetime
    ended_at: AwareDatetime
    reference: Commit
    ratio: Positive
    low: Positive
    high: Positive
    pairs: Count


class Candidate(Record):
    """A commit proven faster than the baseline commit once: a second, separate measurement makes it the baseline."""

    commit: Commit
    measurement: Measurement


class Day(Record):
    """The baseline commit measured on one day, as the reference of a run or alone."""

    timestamp: AwareDatetime
    median_ms: Positive


class Step(Record):
    """One move of the baseline of a case, or one thing that happened to the case."""

    kind: StepKind
    commit: Commit
    """The new baseline commit; of a step that sets no figures, the commit at which it was seen."""
    timestamp: AwareDatetime
    """When it was measured; of what a person did, when they did it."""
    median_ms: Positive | None = None
    """Time of the new baseline commit; None for a step that sets no figures."""
    ratio: Positive | None = None
    """Time / the predecessor's time, measured side by side; None where the two were not."""
    measurements: tuple[Measurement, ...] = ()
    by: str | None = None
    reason: str | None = None
    previous_name: str | None = None
    """Of a renamed case."""
    figures: Digest | None = None
    """Digest of the figures that this step set."""
    predecessor: Digest | None = None
    """Digest of the step before; None for the first."""
    digest: Digest = UNSEALED
    """Of all of the above, the machine and the case's name."""
