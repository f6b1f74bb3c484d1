"""Carry out `ratchet doctor soak`: check unchanged code again and again while nobody else wants the device, and count the red
ones.

Like a check, `soak` locks the device, checks out the code twice in temporary folders, builds it and
runs its benchmarks; the trees are imported once for many checks. Each decision is one line of a file in ``results/soak/``.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ratchet.core import units
from ratchet.core.actions import append_summary
from ratchet.core.bench.build import without_secrets
from ratchet.core.bench.suite import measure_suite
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.turns import Planted
from ratchet.core.check import task_of
from ratchet.core.command_result import record_of
from ratchet.core.config import Settings, load_settings
from ratchet.core.device.lock import Preempted
from ratchet.core.errors import BusyError, Exit, UnfitError
from ratchet.core.git import Repository, Trees, worktrees
from ratchet.core.judge.rule import GateRule
from ratchet.core.judge.verdict import judge_run
from ratchet.core.machine import Machine, machine_of, plan_of
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CaseRun, RunRecord, Side, Tree
from ratchet.core.records.verdict import CaseVerdict, ReportRecord
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, own_output_globs, results_folder, watched, writable
from ratchet.core.trees import build_twice, tree_specs
from ratchet.core.untrusted import fenced
from ratchet.trust.judge import Meter, meters
from ratchet.trust.measure import ResidentSessions
from ratchet.trust.records import SoakCase, SoakCheck, append_check, load_checks
from ratchet.trust.report import soak_lines

SOAK = "soak"
"""The folder within the results folder."""
MOST_PLANTED = 3
"""Cases that are slowed in one check: if all were, its budget would be over before all could be proven."""
CHECKS_PER_START = 20
"""Checks that share their hosts. An offset of the hosts is the same in all of them, so it is drawn anew now and then."""
LEAST_S = 1.0
"""Least budget of a check: the setting 0 would mean that it has no limit."""
PAUSE_S = 30.0
"""Seconds until a device that was not fit is looked at again."""
FEWEST_PLANTED_CALLS = 20
"""Calls behind each sample of a planted slowdown at least, so that it is no noisier than the median of an ordinary block."""


def soak(request: Request, seconds: float, plant: float | None, progress: Progress, environ: Mapping[str, str]) -> list[Meter]:
    """Check the checkout against itself for ``seconds``, and return what all checks in the folder say, earlier ones included.

    In every fourth check a few cases are slowed by about ``plant``, if that is given. Raises BuildError where the code does not
    build, BusyError and UnfitError where the device could not be had before the time was over, and as `measure_suite` does.
    """
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    results = writable(repository.root / settings.results)
    code = repository.working_snapshot(own_output_globs(repository, results))
    planted = nearest_slowdown(plant) if plant else None
    deadline, environ_of_code = time.monotonic() + seconds, without_secrets(environ)
    with worktrees(repository, code, code) as trees, watched(repository.root, results, progress):
        build_twice(settings, trees, code, progress, environ_of_code)
        running = _Soak(request, settings, repository.root, trees, code.tree, planted, environ_of_code, progress)
        running.check_until(deadline, results / SOAK, environ)
    return report_soak(request, environ)


def nearest_slowdown(share: float) -> Planted:
    """Return the slowdown of the form 1/n that is nearest to ``share``, above 0 and up to 1: 0.035 → 1/29."""
    fewer = math.floor(1 / share)
    apart = min((fewer, fewer + 1), key=lambda calls: abs(1 / calls - share))
    more = math.ceil(FEWEST_PLANTED_CALLS / apart)
    return Planted(apart * more, more)


def report_soak(request: Request, environ: Mapping[str, str]) -> list[Meter]:
    """Return what all checks that were kept say. Raises UnfitError where there are none."""
    folder = results_folder(request, environ) / SOAK
    found = meters(check for path in sorted(folder.glob("*.jsonl")) for check in load_checks(path))
    if not found:
        raise UnfitError(f"{folder} has no decisions.", "Measure some with `ratchet doctor soak --time 30m`.")
    append_summary(fenced(soak_lines(found), most=1000), environ)
    return found


def exit_code(found: Sequence[Meter]) -> Exit:
    """Return whether the promised share of false alarms is kept on each machine."""
    return Exit.PASS if all(meter.holds for meter in found) else Exit.NOT_MEASURED


class _Soak:
    """Checks of one checkout against itself, one after the other."""

    def __init__(
        self,
        request: Request,
        settings: Settings,
        root: Path,
        trees: Trees,
        code: Tree,
        planted: Planted | None,
        environ: Mapping[str, str],
        progress: Progress,
    ) -> None:
        """``planted``: the slowdown of a few cases in every fourth check. ``environ`` is for the code, so it has no secrets."""
        self.request, self.settings, self.root = request, settings, root
        self.trees, self.code, self.environ, self.progress = trees, code, environ, progress
        self.is_planted = planted is not None
        self.levels = itertools.cycle((planted, None, None, None))
        self.numbers = itertools.count(1)

    def check_until(self, deadline: float, folder: Path, environ: Mapping[str, str]) -> None:
        """Make checks until the time is over; while the device is wanted elsewhere, or is not fit, wait."""
        held, what = False, f"ratchet doctor soak in {self.root}"
        while (left := deadline - time.monotonic()) > 0:
            waiting = replace(self.request.devices, wait_s=left)
            try:
                with machine_of(waiting, self.settings, what, self.progress, environ, gives_way=True) as machine:
                    held = True  # there was a fit device, so it may come back
                    self._check_while_held(machine, deadline, folder)
            except Preempted:
                self.progress.announce("Another run needs the device. This soak pauses and continues when that run is done.")
            except (BusyError, UnfitError) as error:
                if not held:
                    raise
                self.progress.announce(str(error))
                time.sleep(max(0.0, min(PAUSE_S, deadline - time.monotonic())))
            else:
                return

    def _check_while_held(self, machine: Machine, deadline: float, folder: Path) -> None:
        specs = tree_specs(self.settings, machine, self.root, self.trees.head, self.trees.reference)
        longest_s, done, timed = 0.0, 0, list[str]()
        while True:
            with contextlib.closing(ResidentSessions(specs, self.environ, len(os.sched_getaffinity(0)))) as sessions:
                for _ in range(CHECKS_PER_START):
                    level = next(self.levels) if timed else None
                    slowed = random.sample(timed, min(MOST_PLANTED, len(timed))) if level else ()
                    # Nobody knows yet how long the first check needs beside its pairs, so these get half of the time.
                    clock, planted = time.monotonic(), {name: level for name in slowed if level}
                    check = self._check(machine, specs, sessions, planted, (deadline - clock) / (1 if done else 2))
                    self._keep(check, folder)
                    timed = [case.name for case in check.cases if case.ratio]
                    longest_s, done = max(longest_s, time.monotonic() - clock), done + 1
                    left = deadline - time.monotonic()
                    if longest_s > left:
                        self._say_end(left, longest_s, done)
                        return

    def _check(
        self,
        machine: Machine,
        specs: Mapping[Side, TreeSpec],
        sessions: ResidentSessions,
        planted: Mapping[str, Planted],
        left_s: float,
    ) -> SoakCheck:
        """Make one check, decided as `ratchet check` would, by the same rule with the same looks, while time is left."""
        clock, started = time.monotonic(), datetime.now(UTC)
        budget = min(self.settings.budget or left_s, max(left_s, LEAST_S))
        settings = self.settings.model_copy(
            update={"order_seed": secrets.randbelow(2**31), "budget": budget}  # each check draws its own
        )
        timing = plan_of(settings, machine.device, sessions=True)
        task = task_of(settings, machine, timing, self.request.patterns, GateRule(settings.policy, timing.pairs, {}))
        task = replace(task, time_identical=True)
        suite = measure_suite(specs, task, self.progress, self.environ, sessions, planted)
        seconds = time.monotonic() - clock
        run = record_of("check", self.request.command, settings, machine, suite, (started, seconds), self.code, self.code)
        return _decision(run, judge_run(run, Baseline()), {name: one.more / one.calls for name, one in planted.items()})

    def _say_end(self, left_s: float, longest_s: float, done: int) -> None:
        over = f"{units.wall(-left_s)} over" if left_s < 0 else f"{units.wall(left_s)} left"
        lacking = " No check was slowed: give it more time with --time." if self.is_planted and done < 2 else ""
        self.progress.announce(f"The time is up, {over}: another check takes up to {units.wall(longest_s)}.{lacking}")

    def _keep(self, check: SoakCheck, folder: Path) -> None:
        key = check.environment.fingerprint.key
        append_check(folder / f"{check.started_at:%Y-%m-%d}-{key}.jsonl", check)
        slowed = [case.name for case in check.cases if case.planted]
        kind = f"{units.listed(slowed)} slowed by {units.percent(check.planted, 2)}" if slowed else "unchanged"
        self.progress.begin(f"Check {next(self.numbers)}, {kind}, {units.wall(check.wall_s)}: {check.headline}")


def _decision(run: RunRecord, report: ReportRecord, planted: Mapping[str, float]) -> SoakCheck:
    return SoakCheck(
        started_at=report.started_at,
        wall_s=report.wall_s,
        environment=report.environment,
        policy=report.policy,
        code=report.head,
        planted=max(planted.values(), default=0.0),
        exit_code=report.exit_code,
        headline=report.headline,
        cases=tuple(
            _case(case, verdict, planted.get(case.name, 0.0)) for case, verdict in zip(run.cases, report.cases, strict=True)
        ),
        warnings=report.warnings,
    )


def _case(measured: CaseRun, case: CaseVerdict, planted: float) -> SoakCase:
    found = SoakCase(
        name=case.name,
        outcome=case.outcome,
        planted=planted,
        reference_ms=case.reference.median_ms if case.reference else None,
        telemetry=measured.telemetry,
    )
    if case.comparison is None:
        return found
    figures = case.comparison.model_dump(include={"ratio", "low", "high", "spread", "detectable", "pairs"})
    return found.model_copy(update={**figures, "outliers": case.comparison.outliers})
