"""The thresholds of a verdict, travelling as one object."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet.records.base import Record


class Policy(Record):
    """When a case is red, when it is an improvement, and what an undecided case means for the run."""

    regression: Annotated[float, Field(gt=0, lt=1)] = 0.03
    """The gate: a head slower than the reference by more than this fraction is a regression."""
    improvement: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """A head that takes at least this fraction less time is an improvement."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    false_alarm: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """How often a whole run of unchanged code may be red, shared equally among its cases (Bonferroni)."""
    on_inconclusive: Literal["pass", "fail"] = "pass"
    """Whether a run with undecided cases exits 0 or 3."""

    def shared(self, cases: int) -> Policy:
        """The policy of one of so many cases: together they are falsely red no more often than ``false_alarm``."""
        return self.model_copy(update={"false_alarm": self.false_alarm / max(1, cases)})
