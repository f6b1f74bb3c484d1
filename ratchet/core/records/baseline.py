"""``results/baseline.json``: for each machine and case the best commit, and the chain of steps that led there."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import GateName, WorkloadIdentity

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""The first 128 bits of a SHA-256, which `ratchet.core.judge.chain` computes."""
UNSEALED = "0" * 32
"""Stands in for a digest that is not computed yet; its length is the length of every digest."""


class StepKind(StrEnum):
    """The kind of one step of the chain."""

    FIRST = "first"
    IMPROVED = "improved"
    """Proven faster than the commit before it, in two separate measurements."""
    ACCEPTED = "accepted"
    """Moved on purpose, by a person with a reason; the only step that may be slower."""
    CHANGED = "changed"
    """The workload is another one, so the chain starts again: its time does not compare with the one before."""
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


class DayNoise(Record):
    """How far pairs of a case differed in one run of main."""

    timestamp: AwareDatetime
    spread: NotNegative
    """Standard deviation of one pair's log ratio."""


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
    """The earlier name, where the case was renamed."""
    figures: Digest | None = None
    """Digest of the figures that this step set."""
    predecessor: Digest | None = None
    """Digest of the step before; None for the first."""
    digest: Digest = UNSEALED
    """Of all of the above, the machine and the case's name."""


MOST_DAYS = 30
MOST_MERGES = 10


class PlainFigures(Record):
    """The figures of the best commit of one case: what scripts read of ``baseline["configs"]``."""

    median_ms: Positive
    ci_95_low: Positive
    ci_95_high: Positive
    throughput_gflops: NotNegative
    bandwidth_gb_s: NotNegative
    git_commit: Commit
    timestamp: AwareDatetime


class Figures(PlainFigures):
    """The best commit of one case on one kind of machine, and what was measured there."""

    workload: WorkloadIdentity
    pair_medians_ms: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """The median of each worker, for a check that cannot build this commit again."""
    takes: dict[GateName, NotNegative] = {}
    """What a call takes besides time, as gates know it: in bytes, in seconds or as a count."""

    @model_validator(mode="after")
    def _interval_holds_median(self) -> Figures:
        if not self.ci_95_low <= self.median_ms <= self.ci_95_high:
            raise ValueError(f"the median {self.median_ms} lies outside its interval {self.ci_95_low} to {self.ci_95_high}")
        return self


class BaselineEntry(Figures):
    """The figures, what is known beside them, and the chain of steps that led to them."""

    candidate: Candidate | None = None
    days: Annotated[tuple[Day, ...], Field(max_length=MOST_DAYS)] = ()
    """The baseline commit on different days, oldest first: how far days differ on this machine."""
    merges: Annotated[tuple[Candidate, ...], Field(max_length=MOST_MERGES)] = ()
    """The latest merges that were measured slower than the baseline commit, oldest first: how far main has crept away."""
    noise: Annotated[tuple[DayNoise, ...], Field(max_length=MOST_DAYS)] = ()
    """One run a day of main, oldest first, while gates follow the history. It stays when the commit moves."""
    gate: Annotated[float | None, Field(gt=0, lt=1)] = None
    """The gate that follows from it; None while it is too short."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    digest: Digest = UNSEALED
    """Of all of the above, the machine and the case's name."""

    @property
    def removed(self) -> bool:
        """Return whether the case was gone when it was last looked for; its chain waits for it to return."""
        return self.steps[-1].kind is StepKind.REMOVED


class FingerprintBaseline(Record):
    """All cases measured on one kind of machine."""

    fingerprint: Fingerprint
    configs: dict[str, BaselineEntry]


class Baseline(Record):
    """The whole file. Keys of ``fingerprints`` are `Fingerprint.key`."""

    schema_version: Literal[1] = 1
    fingerprints: dict[str, FingerprintBaseline] = {}
    configs: dict[str, PlainFigures] = {}
    """The same figures for scripts, where one machine is stored; of several nobody could say which one is meant."""

    @model_validator(mode="after")
    def _configs_match(self) -> Baseline:
        (entries, *others) = [part.configs for part in self.fingerprints.values()] or [{}]
        names = {} if others else {name: entry for name, entry in entries.items() if not entry.removed}
        plain = {
            name: PlainFigures(**{field: getattr(one, field) for field in PlainFigures.model_fields})
            for name, one in names.items()
        }
        if "configs" in self.model_fields_set and self.configs != plain:
            raise ValueError("configs: it does not say the same as fingerprints, from which it is made")
        object.__setattr__(self, "configs", plain)  # the record is frozen
        return self

    @model_validator(mode="after")
    def _keys_match(self) -> Baseline:
        for key, part in self.fingerprints.items():
            if part.fingerprint.key != key:
                raise ValueError(f"fingerprints.{key}: its fingerprint's own key is {part.fingerprint.key}")
        return self

    def entries(self, fingerprint: Fingerprint) -> dict[str, BaselineEntry]:
        """Return the cases stored for a machine, removed ones too; empty where it was never measured."""
        part = self.fingerprints.get(fingerprint.key)
        return dict(part.configs) if part else {}

    def carried(self, fingerprint: Fingerprint) -> dict[str, BaselineEntry]:
        """Return the cases that this machine has no entry for, as they stand under its older software; the newest of each.

        Their times do not compare with today's, but their commits are the best ones known: those are measured again.
        """
        own = self.entries(fingerprint)
        similar = [part for part in self.fingerprints.values() if part.fingerprint.hardware == fingerprint.hardware]
        entries = [item for part in similar for item in part.configs.items()]
        older = [(name, entry) for name, entry in entries if name not in own and not entry.removed]
        return dict(sorted(older, key=lambda item: item[1].timestamp))

    def every(self) -> Iterator[tuple[str, str, BaselineEntry]]:
        """Yield the key of the fingerprint, the name of the case, and the entry, for every entry of the file."""
        for machine, part in self.fingerprints.items():
            for name, entry in part.configs.items():
                yield machine, name, entry

    def with_entries(self, fingerprint: Fingerprint, entries: dict[str, BaselineEntry]) -> Baseline:
        """Return the baseline with these cases for one machine, by name; other machines keep the very same objects."""
        part = FingerprintBaseline(fingerprint=fingerprint, configs=dict(sorted(entries.items())))
        return Baseline(fingerprints={**self.fingerprints, fingerprint.key: part})
