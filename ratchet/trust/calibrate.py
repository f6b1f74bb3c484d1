"""Carry out `ratchet doctor calibrate`: unchanged code against itself for a given time, and whether the gate holds.

It checks out the code twice in temporary folders and builds it, as a check does, and holds the device meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet.core.bench.suite import CaseTask
from ratchet.core.command_result import record_of
from ratchet.core.config import load_settings
from ratchet.core.errors import UnfitError
from ratchet.core.git import Repository, worktrees
from ratchet.core.judge.rule import EveryPair, looks
from ratchet.core.machine import machine_of, plan_of
from ratchet.core.records.files import dumps, save_together
from ratchet.core.records.run import RunRecord
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, own_output_globs, watched, writable
from ratchet.core.trees import build_twice, measure, tree_specs
from ratchet.trust.records import Calibration
from ratchet.trust.replay_rule import FEWEST, pool_of
from ratchet.trust.replay_rule import calibrate as judge

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
    code = repository.working_snapshot(own_output_globs(repository, results))
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        machine_of(request.devices, settings, f"ratchet doctor calibrate in {repository.root}", progress, environ) as machine,
        worktrees(repository, code, code) as trees,
        watched(repository.root, results, progress),
    ):
        build_twice(settings, trees, code, progress, environ)
        plan = plan_of(settings, machine.device).model_copy(update={"pairs": MOST_PAIRS, "budget_s": seconds})
        task = CaseTask(
            plan,
            request.patterns,
            settings.confidence,
            EveryPair((looks(settings.pairs)[0], MOST_PAIRS)),
            gpu=machine.gpu,
            idle=machine.idle,
            time_identical=True,
        )
        specs = tree_specs(settings, machine, repository.root, trees.head, trees.reference)
        begun = time.monotonic()
        suite = measure(settings, specs, task, progress, environ)
        took = max(seconds, time.monotonic() - begun)  # the first pairs are measured however little time is given
    timing = (started, time.monotonic() - clock)
    run = record_of("check", request.command, settings, machine, suite, timing, code.tree, code.tree)
    run = run.model_copy(update={"plan": plan})
    calibration = judge(run, plan_of(settings, machine.device), settings.policy)
    if calibration is None:
        fewest = min((len(pool) for case in run.cases if (pool := pool_of(case))), default=0)
        hint = next((case.unfit for case in run.cases if case.unfit), "See the failures of `ratchet run`.")
        if fewest:
            hint = f"Give it more time with --time: about {math.ceil(took * FEWEST / fewest * 1.2)} s would do."
        raise UnfitError(f"{seconds:g} s gave {fewest} pairs of each case, and {FEWEST} are needed to say anything.", hint)
    return CalibrationFiles(calibration, run, results)


def write_calibration(done: CalibrationFiles) -> list[Path]:
    """Write the calibration and its samples. Returns their paths."""
    paths = [done.results / "calibration.json", done.results / "calibration_samples.json"]
    save_together(dict(zip(paths, (dumps(done.calibration), dumps(done.run)), strict=True)))
    return paths
