"""What `ratchet tune` asks for, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ratchet.pipeline.request import Request
from ratchet.records.tuning import TuningRecord
from ratchet.records.tuning_file import TUNING_FOLDER, kept_earlier

FOLDER = TUNING_FOLDER


@dataclass(frozen=True)
class TuneRequest:
    """One case, how long, and how."""

    request: Request
    """Its only pattern names the case."""
    budget_s: float | None = None
    max_evaluations: int | None = None
    strategy: str = "auto"
    seed: int = 0
    resume: bool = False
    executor: Literal["local", "ray"] = "local"
    apply: bool = False
    folder: Path | None = None
    """For the record and the suggestions; None: ``tuning/`` of the repository."""


@dataclass(frozen=True)
class Tuned:
    """What was found, and the files that tell of it, the record first."""

    record: TuningRecord
    paths: tuple[Path, ...]

    @property
    def kept(self) -> Path | None:
        """The last of the earlier records in whose place this one was begun; None where there is none, or it was resumed."""
        return kept_earlier(self.paths[0]) if len(self.record.sessions) == 1 else None
