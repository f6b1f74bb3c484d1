"""Carry out `ratchet run` and `ratchet doctor cases`: time one checkout, or list its cases.

Both import the benchmarks of the checkout in place, in child processes; `run` holds the device.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from ratchet.core.bench.suite import CaseTask
from ratchet.core.command_result import record_of
from ratchet.core.judge.rule import Rule
from ratchet.core.judge.verdict import judge_run
from ratchet.core.machine import Machine, choose, machine_of, plan_of
from ratchet.core.records.run import CaseRun
from ratchet.core.report.progress import Progress
from ratchet.core.request import CommandResult, Request, checked_out, load_baseline, settings_of, watched, writable
from ratchet.core.trees import cases_of, measure, tree_specs

WORKERS = 8
"""Workers of each case, unless the command line says otherwise: a case timed alone has no verdict that more could decide."""


def run(request: Request, progress: Progress, environ: Mapping[str, str]) -> CommandResult:
    """Time the checkout as it stands, in place and alone. Raises as `check.check` does; nothing is built."""
    root, settings = settings_of(request, environ, WORKERS)
    results = writable(root / settings.results)
    baseline = load_baseline(results)
    tree = checked_out(root, results)
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        machine_of(request.devices, settings, f"ratchet run in {root}", progress, environ) as machine,
        watched(root, results, progress) as watch,
    ):
        task = CaseTask(
            plan_of(settings, machine.device),
            request.patterns,
            settings.confidence,
            Rule((settings.pairs,), settings.policy),
            compared=False,
            gpu=machine.gpu,
            idle=machine.idle,
        )
        suite = measure(settings, tree_specs(settings, machine, root, root), task, progress, environ)
        changes = watch.changes()
    timing = (started, time.monotonic() - clock)
    record = record_of("run", request.command, settings, machine, suite, timing, tree)
    return CommandResult(record, judge_run(record, baseline), results).with_changes(*changes)


def cases_of_checkout(request: Request, environ: Mapping[str, str]) -> list[CaseRun]:
    """List the cases of the checkout without measuring any. Raises HostError, ForeignModuleError, UsageError or UnfitError."""
    root, settings = settings_of(request, environ)
    device, gpu, _ = choose(request.devices, settings, environ)
    return cases_of(settings, tree_specs(settings, Machine(device, gpu), root, root)["head"], request.patterns, environ)
