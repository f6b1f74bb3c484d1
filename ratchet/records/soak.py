"""One line of ``results/soak/``: a check of unchanged code, or of code slowed on purpose, and how it was decided. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from ratchet.records.base import Count, NotNegative, Positive, Record
from ratchet.records.environment import Environment, Telemetry
from ratchet.records.run import Policy, Tree
from ratchet.records.verdict import Outcome


class SoakCase(Record):
    """The decision about one case, and the figures behind it, as in a `verdict.Comparison`."""

    name: str
    outcome: Outcome
    planted: NotNegative = 0.0
    """How much more work the head did, as a fraction."""
    reference_ms: Positive | None = None
    ratio: Positive | None = None
    low: Positive | None = None
    high: Positive | None = None
    spread: NotNegative | None = None
    detectable: Positive | None = None
    intensity: NotNegative | None = None
    """FLOPs for each byte, where the workload declares both."""
    pairs: Count = 0
    outliers: Count = 0
    telemetry: Telemetry | None = None


class SoakCheck(Record):
    """A check of a commit with itself."""

    schema_version: Literal[1] = 1
    started_at: AwareDatetime
    wall_s: NotNegative
    environment: Environment
    policy: Policy
    code: Tree
    planted: NotNegative = 0.0
    """How much more work the head did in the cases that were slowed, as a fraction; 0: none was."""
    exit_code: Count
    """The exit code of `ratchet check`."""
    headline: str
    cases: tuple[SoakCase, ...]
    warnings: tuple[str, ...] = ()
