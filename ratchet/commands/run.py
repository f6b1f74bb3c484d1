"""One checkout by itself: timed, or listed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ratchet.cache import scratch_folder
from ratchet.commands.machine import choose, machine_of, plan_of
from ratchet.commands.output import record_of
from ratchet.commands.request import Done, Request, checked_out, load_baseline, root_of, watched, writable
from ratchet.config import load_settings
from ratchet.judge.verdict import judge_run
from ratchet.measure.suite import CaseTask, Ground, list_cases, measure_suite
from ratchet.profile.roofline import highest
from ratchet.records.run import CaseRun
from ratchet.report.progress import Progress

WORKERS = 8
"""Of each case that is timed alone, unless the command line says otherwise: nothing there is decided by taking more."""


def run(request: Request, progress: Progress, environ: Mapping[str, str]) -> Done:
    """Time the checkout as it stands, in place and alone."""
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options)
    if request.options.get("pairs") is None:
        settings = settings.model_copy(update={"pairs": min(settings.pairs, WORKERS)})
    results = writable(root / settings.results)
    baseline = load_baseline(results)
    tree = checked_out(root, results)
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        machine_of(request, settings, f"ratchet run in {root}", progress, environ) as machine,
        scratch_folder("logs") as logs,
        watched(root, results, progress) as watch,
    ):
        peaks = highest(machine.gpu.name) if machine.gpu else None
        ground = Ground({"head": root}, root, machine.device, machine.gpu, logs, environ, peaks)
        task = CaseTask(
            plan_of(settings, machine.device), request.patterns, (settings.pairs,), _none, compared=False, idle=machine.idle
        )
        suite = measure_suite(ground, settings, task, progress)
        changes = watch.changes()
    timing = (started, time.monotonic() - clock)
    record = record_of("run", request, settings, machine, suite, timing, tree)
    return Done(record, judge_run(record, baseline), results).with_changes(changes.notes, changes.damage)


def _none(_: Sequence[CaseRun]) -> Sequence[str]:
    """What is still undecided where nothing is compared."""
    return ()


def cases_of_checkout(request: Request, environ: Mapping[str, str]) -> list[CaseRun]:
    """The cases of the checkout, measured none."""
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options)
    device, gpu, _ = choose(request, settings, environ)
    with scratch_folder("logs") as logs:
        ground = Ground({"head": root}, root, device, gpu, logs, environ)
        return list_cases(ground, settings, request.patterns)
