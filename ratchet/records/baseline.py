"""``results/baseline.json``: for every machine and case, the best commit so far."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from ratchet.records.base import NotNegative, Positive, Record
from ratchet.records.environment import Fingerprint
from ratchet.records.run import WorkloadIdentity


class BaselineEntry(Record):
    """The best commit of one case on one kind of machine, with the figures measured there."""

    median_ms: Positive
    ci_95_low: Positive
    ci_95_high: Positive
    throughput_gflops: NotNegative
    bandwidth_gb_s: NotNegative
    git_commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
    timestamp: AwareDatetime
    workload: WorkloadIdentity
    pair_medians_ms: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """The median of each worker, for a check that cannot build this commit again."""

    @model_validator(mode="after")
    def _interval_holds_median(self) -> BaselineEntry:
        if not self.ci_95_low <= self.median_ms <= self.ci_95_high:
            raise ValueError(f"the median {self.median_ms} lies outside its interval {self.ci_95_low} to {self.ci_95_high}")
        return self


class FingerprintBaseline(Record):
    """All cases measured on one kind of machine."""

    fingerprint: Fingerprint
    configs: dict[str, BaselineEntry]


class Baseline(Record):
    """The whole file. Keys of ``fingerprints`` are `Fingerprint.key`."""

    schema_version: Literal[1] = 1
    fingerprints: dict[str, FingerprintBaseline] = {}

    @model_validator(mode="after")
    def _keys_match(self) -> Baseline:
        for key, part in self.fingerprints.items():
            if part.fingerprint.key != key:
                raise ValueError(f"fingerprints.{key}: its fingerprint's own key is {part.fingerprint.key}")
        return self

    def entries(self, fingerprint: Fingerprint) -> dict[str, BaselineEntry]:
        """The cases stored for a machine; empty where it was never measured."""
        part = self.fingerprints.get(fingerprint.key)
        return dict(part.configs) if part else {}
