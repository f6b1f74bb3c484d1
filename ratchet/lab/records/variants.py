"""Ways to do the same work, timed beside each other: ``results/variants/…``.

`ratchet.lab.variants` fills it, and `ratchet.lab.report.variants` shows it. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from ratchet.common.rooflines import Roofline
from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment
from ratchet.core.records.run import Config, Plan, WorkloadIdentity
from ratchet.core.records.verdict import Comparison


class VariantTime(Record):
    """One variant of a case."""

    name: str
    median_ms: Positive | None = None
    """Of the benchmark's own variant over workers; of another one, that times the ratio that the pairs show."""
    low_ms: Positive | None = None
    high_ms: Positive | None = None
    """The interval of the own one's median, or of another one's ratio to it."""
    peak_memory_bytes: Count = 0
    comparison: Comparison | None = None
    """The time of the benchmark's own variant over that of this one, in pairs; None for its own."""
    problem: str = ""
    """Why it has no time, or no comparison; one sentence."""

    @property
    def speedup(self) -> float | None:
        """Return how many times as fast the benchmark's own variant is."""
        return 1 / self.comparison.ratio if self.comparison else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of `speedup`."""
        return (1 / self.comparison.high, 1 / self.comparison.low) if self.comparison else None


class VariantsCase(Record):
    """A case, and all of its variants, the benchmark's own first."""

    name: str
    benchmark: str
    config: Config
    workload: WorkloadIdentity | None = None
    variants: tuple[VariantTime, ...] = ()
    problem: str = ""
    """Why nothing was measured; one sentence."""
    skipped: bool = False
    """This device cannot run it."""

    @property
    def problems(self) -> dict[str, list[str]]:
        """Return why it, or some of its variants, have no times: sentence → the names of these variants."""
        found: dict[str, list[str]] = {self.problem: []} if self.problem else {}
        for variant in self.variants:
            if variant.problem:
                found.setdefault(variant.problem, []).append(variant.name)
        return found

    def rate(self, variant: VariantTime, unit: Literal["flops", "bytes"]) -> float | None:
        """Return the declared FLOPs or bytes of a call per second; None where there are none, or no time."""
        work = getattr(self.workload, unit) if self.workload else None
        return work / (variant.median_ms * 1e-3) if work and variant.median_ms else None


Factor = Annotated[float, Field(gt=0, lt=1e6)]


class Claim(Record):
    """A guide's statement of what an optimisation brings."""

    case: str
    """The case that shows it, or its benchmark."""
    title: str
    step: str
    """Where the guide recommends it."""
    text: str
    """In the guide's words: ``2–6×``."""
    low: Factor | None = None
    """The least speed-up that the text promises; None: it promises none."""
    high: Factor | None = None
    """The largest one that it names."""

    @model_validator(mode="before")
    @classmethod
    def _without_reasons(cls, fields: Any) -> Any:
        """Drop the reasons that earlier versions kept: they were not measured."""
        return {key: fields[key] for key in fields if key not in ("less", "more", "cpu", "note")}


class Claims(Record):
    """``quickwins/claims.json``: the claims in the order in which the guide recommends them."""

    schema_version: Literal[1] = 1
    claims: tuple[Claim, ...]


class VariantsRecord(Record):
    """Variants of some cases, measured in pairs of processes in one run."""

    schema_version: Literal[1] = 1
    kind: Literal["variants"] = "variants"
    started_at: AwareDatetime
    wall_s: NotNegative
    command: tuple[str, ...]
    environment: Environment
    plan: Plan
    cases: tuple[VariantsCase, ...]
    """Of one benchmark, or of all quick wins."""
    claims: tuple[Claim, ...] = ()
    """Of quick wins: in the guide's order."""
    parameter: str = ""
    """The parameter that changes from case to case, where one does."""
    roofline: Roofline | None = None
    """A point for each variant of each config, called ``VARIANT/CONFIG``; None: quick wins."""
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of its files: ``normalize``, ``normalize_columns``, ``quickwins``."""
        return "quickwins" if self.claims else "_".join(filter(None, (self.cases[0].benchmark, self.parameter)))
