"""Recorded runs, judged again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ratchet.config import load_settings
from ratchet.judge.verdict import judge_run, judge_two
from ratchet.pipeline.checkout import root_of
from ratchet.pipeline.profiling import with_stored_profiles
from ratchet.pipeline.request import CURRENT, Done, Request
from ratchet.pipeline.stored import load_baseline
from ratchet.records.files import load
from ratchet.records.run import RunRecord
from ratchet.records.verdict import ReportRecord


def compare(first: Path, second: Path, request: Request, environ: Mapping[str, str]) -> ReportRecord:
    """Judge two recorded runs of one machine, ``first`` being the reference."""
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options)
    return judge_two(load(first, RunRecord), load(second, RunRecord), settings.policy)


def judge_again(recorded: Path | None, request: Request, environ: Mapping[str, str]) -> Done:
    """Judge a recorded run again: by the thresholds given, else by its own."""
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options)
    results = root / settings.results
    past = load(recorded or results / CURRENT, RunRecord)
    names = {"regression_threshold": "regression", "improvement_threshold": "improvement", "on_inconclusive": "on_inconclusive"}
    given = {name: getattr(settings.policy, name) for key, name in names.items() if request.options.get(key) is not None}
    report = judge_run(past, load_baseline(results), past.policy.model_copy(update=given))
    return Done(past, with_stored_profiles(report, past, results), results)
