"""What a command asks for, and what it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ratchet.records.run import RunRecord, Shard
from ratchet.records.verdict import ReportRecord

BASELINE, CURRENT, REPORT, MARKDOWN = "baseline.json", "current.json", "report.json", "ratchet_report.md"
CALIBRATION, CALIBRATION_SAMPLES = "calibration.json", "calibration_samples.json"


@dataclass(frozen=True)
class Request:
    """What a command asks for. ``options`` are settings given on the command line; None means not given."""

    folder: Path
    command: tuple[str, ...]
    patterns: tuple[str, ...] = ()
    base: str | None = None
    merge_base: str | None = None
    against_baseline: bool = False
    """Compare every case with the commit that the baseline names for it."""
    gpu: int | None = None
    gpus: tuple[int, ...] | Literal["all"] | None = None
    """Spread the cases over these GPUs; None: one GPU."""
    shard: Shard | None = None
    """Measure this part of the cases only."""
    wait_s: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """A run, what it means, and where its files belong."""

    run: RunRecord
    report: ReportRecord
    results: Path
    damage: str = ""
    """What changed in the user's repository meanwhile and cannot be put back."""

    def with_changes(self, notes: Sequence[str], damage: str) -> Done:
        """Also say what became of the checkout."""
        said = [*notes, damage] if damage else notes
        run = self.run.model_copy(update={"warnings": (*self.run.warnings, *said)})
        report = self.report.model_copy(update={"warnings": (*self.report.warnings, *said)})
        return Done(run, report, self.results, damage)
