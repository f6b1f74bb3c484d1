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
    """How often a whole run of unchanged code may be red: shared among its looks and its cases (Bonferroni)."""
    on_inconclusive: Literal["pass", "fail"] = "pass"
    """Whether a run with inconclusive cases exits 0 or 3. A case that looks slower without proof exits 3 in any case."""

    def shared(self, parts: int) -> Policy:
        """The policy of one of so many parts: all together are falsely red no more often than ``false_alarm``."""
        return self.at(self.false_alarm / parts)

    def at(self, level: float) -> Policy:
        """The same policy with another rate of false alarms."""
        return self.model_copy(update={"false_alarm": level})

    @property
    def part(self) -> float:
        """The slowdown from which on a change counts as a part of a slowdown that several made together."""
        return self.regression / 4
