"""The stored baseline of a checkout."""

from __future__ import annotations

from pathlib import Path

from ratchet.pipeline.request import BASELINE
from ratchet.records.baseline import Baseline
from ratchet.records.files import load


def load_baseline(results: Path) -> Baseline:
    """The stored baseline; an empty one where there is no file yet."""
    path = results / BASELINE
    return load(path, Baseline) if path.exists() else Baseline()
