"""``results/calibration.json``: which changes this machine can detect, measured on unchanged code.

``ratchet calibrate`` writes it and `ratchet.report.calibration` shows it. Pure.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from ratchet.records.base import Count, NotNegative, Positive, Record
from ratchet.records.environment import Environment
from ratchet.records.run import Plan, Policy, Tree


class CaseCalibration(Record):
    """One case of unchanged code against itself. Fractions: 0.002 is 0.2 %."""

    name: str
    pairs: Count
    spread: NotNegative
    """Standard deviation of the log ratio of one pair."""
    bias: float
    """Mean log ratio; its sign is the head's."""
    bias_error: NotNegative
    detectable_first: NotNegative | None
    """MDE of a case that takes 20 pairs, the fewest that can prove a change; None where a case takes fewer."""
    detectable_most: NotNegative | None
    """MDE of a case that takes every pair it may."""
    red: NotNegative
    """How often this case would be red, of checks drawn from these pairs."""
    caught: NotNegative
    """How often a slowdown a sixth beyond the gate would be red."""
    gate: Positive
    """The smallest gate that this case can hold."""
    holds: bool
    """Whether it can hold the configured gate."""


class Calibration(Record):
    """The result of one calibration, and whether the configured gate can be held here."""

    schema_version: Literal[1] = 1
    holds: bool
    gate: Positive
    """The smallest gate that every case can hold."""
    any_red: NotNegative
    """Share of checks of unchanged code, drawn from these pairs, that would be red."""
    checks: Count
    """How many were drawn."""
    biased: tuple[str, ...] = ()
    """Cases whose mean differs from none by more than chance: something favours a side."""
    unmeasured: tuple[str, ...] = ()
    """Cases that gave too few pairs to say anything."""
    cases: tuple[CaseCalibration, ...]
    policy: Policy
    plan: Plan
    environment: Environment
    code: Tree
    started_at: AwareDatetime
    wall_s: NotNegative
    command: tuple[str, ...]
    warnings: tuple[str, ...] = ()
