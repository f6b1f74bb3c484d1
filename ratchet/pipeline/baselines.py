"""``results/baseline.json``: read, moved, shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ratchet.config import load_settings
from ratchet.judge import baseline as judge_baseline
from ratchet.pipeline.checkout import root_of
from ratchet.pipeline.judging import judge_again
from ratchet.pipeline.request import BASELINE, Request
from ratchet.pipeline.stored import load_baseline
from ratchet.records.baseline import Baseline
from ratchet.records.files import save_over


def record_baseline(recorded: Path | None, request: Request, environ: Mapping[str, str]) -> tuple[Path, list[str]]:
    """Enter a recorded run into the baseline file; the file and the cases that moved."""
    done = judge_again(recorded, request, environ)
    path = done.results / BASELINE
    following, moved = judge_baseline.record(load_baseline(done.results), done.run, done.report)
    if moved:
        save_over(path, following, Baseline)
    return path, moved


def show_baseline(request: Request, environ: Mapping[str, str]) -> tuple[Path, Baseline]:
    """The baseline file of the checkout and what it holds."""
    root = root_of(request.folder)
    results = root / load_settings(root, environ, request.options).results
    return results / BASELINE, load_baseline(results)
