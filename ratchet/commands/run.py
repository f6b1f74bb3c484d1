"""Carry out `ratchet run`, `ratchet list` and `ratchet calibrate`: time one checkout, list its cases, try the gate on it.

`run` and `cases_of_checkout` import the benchmarks of the checkout in place, in child processes. `calibrate` checks out the code
twice in temporary folders and builds it, as a check does. Both that measure hold the device. `output.write` writes the files of
a run, `write_calibration` those of a calibration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet.commands.machine import Machine, choose, machine_of, plan_of
from ratchet.commands.output import record_of
from ratchet.commands.request import (
    CALIBRATION,
    CALIBRATION_SAMPLES,
    CommandResult,
    Request,
    apart_of,
    checked_out,
    load_baseline,
    settings_of,
    watched,
    writable,
)
from ratchet.commands.trees import build_twice, cases_of, measure, tree_specs
from ratchet.config import load_settings
from ratchet.errors import UnfitError
from ratchet.forge.git import Repository, worktrees
from ratchet.judge.replay import FEWEST
from ratchet.judge.replay import calibrate as judge
from ratchet.judge.sequential import looks
from ratchet.judge.verdict import judge_run
from ratchet.measure.suite import CaseTask
from ratchet.records.files import save
from ratchet.records.run import CaseRun, RunRecord
from ratchet.records.verdict import Calibration
from ratchet.report.progress import Progress

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
            looks=(settings.pairs,),
            undecided=lambda _: (),
            compared=False,
            gpu=machine.gpu,
            peaks=machine.peaks,
            idle=machine.idle,
        )
        suite = measure(settings, tree_specs(settings, machine, root, root), task, progress, environ)
        changes = watch.changes()
    timing = (started, time.monotonic() - clock)
    record = record_of("run", request.command, settings, machine, suite, timing, tree)
    return CommandResult(record, judge_run(record, baseline), results).with_changes(changes.notes, changes.damage)


def cases_of_checkout(request: Request, environ: Mapping[str, str]) -> list[CaseRun]:
    """List the cases of the checkout without measuring any. Raises HostError, ForeignModuleError, UsageError or UnfitError."""
    root, settings = settings_of(request, environ)
    device, gpu, _ = choose(request.devices, settings, environ)
    return cases_of(settings, tree_specs(settings, Machine(device, gpu), root, root)["head"], request.patterns, environ)


# `ratchet calibrate`: unchanged code against itself for a given time, and whether the gate holds.


MOST_PAIRS = 200
"""Pairs of each case at most, however much time is given."""


@dataclass(frozen=True)
class CalibrationFiles:
    """A calibration, its run, and where their files belong."""

    calibration: Calibration
    run: RunRecord
    results: Path


def calibrate(request: Request, seconds: float, progress: Progress, environ: Mapping[str, str]) -> CalibrationFiles:
    """Measure the checkout against itself for ``seconds`` and judge whether the configured gate can be held.

    Every case is timed, although its machine code is equal on both sides, and nothing is decided early. Raises BuildError where
    the code does not build, UnfitError where the time gave too few pairs, DamageError as `watched` does, and as `check` does.
    """
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    results = writable(repository.root / settings.results)
    code = repository.working_snapshot(apart_of(repository, results))
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        machine_of(request.devices, settings, f"ratchet calibrate in {repository.root}", progress, environ) as machine,
        worktrees(repository, code, code) as trees,
        watched(repository.root, results, progress),
    ):
        build_twice(settings, trees, code, progress, environ)
        plan = plan_of(settings, machine.device).model_copy(update={"pairs": MOST_PAIRS, "budget_s": seconds})
        rounds = (looks(settings.pairs)[0], MOST_PAIRS)
        task = CaseTask(
            plan,
            request.patterns,
            settings.confidence,
            rounds,
            undecided=lambda cases: [case.name for case in cases],  # nothing is decided before the time is over
            gpu=machine.gpu,
            peaks=machine.peaks,
            idle=machine.idle,
            time_identical=True,
        )
        specs = tree_specs(settings, machine, repository.root, trees.head, trees.reference)
        suite = measure(settings, specs, task, progress, environ)
    timing = (started, time.monotonic() - clock)
    run = record_of("check", request.command, settings, machine, suite, timing, code.tree, code.tree)
    run = run.model_copy(update={"plan": plan})
    calibration = judge(run, plan_of(settings, machine.device), settings.policy)
    if calibration is None:
        most = max((len(case.head) for case in run.cases), default=0)
        enough = f"about {math.ceil(seconds * FEWEST / most * 1.2)} s would do" if most else "see the failures of `ratchet run`"
        raise UnfitError(
            f"{seconds:g} s gave {most} pairs of each case, and {FEWEST} are needed to say anything.",
            f"Give it more time with --time: {enough}.",
        )
    return CalibrationFiles(calibration, run, results)


def write_calibration(done: CalibrationFiles) -> list[Path]:
    """Write the calibration and its samples. Returns their paths."""
    paths = [done.results / CALIBRATION, done.results / CALIBRATION_SAMPLES]
    save(paths[0], done.calibration)
    save(paths[1], done.run)
    return paths
