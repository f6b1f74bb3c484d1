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
    """How often a whole run of unchanged code may be red: shared among the looks (Bonferroni) and the cases (Holm)."""
    on_inconclusive: Literal["pass", "fail"] = "pass"
    """Whether a run with undecided cases exits 0 or 3."""

    def shared(self, cases: int, looks: int = 1) -> Policy:
        """The policy of one look at one of so many cases: all together are falsely red no more often than ``false_alarm``."""
        return self.at(self.false_alarm / max(1, cases) / max(1, looks))

    def at(self, level: float) -> Policy:
        """The same with another level for the p-value."""
        return self.model_copy(update={"false_alarm": level})

    @property
    def part(self) -> float:
        """The slowdown from which on a change counts as a part of a slowdown that several made together."""
        return self.regression / 4
