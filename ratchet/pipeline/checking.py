"""`ratchet check`: two commits, one device, a verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from ratchet.config import Settings, load_settings
from ratchet.errors import BuildError, UsageError
from ratchet.forge.git import Repository, Snapshot
from ratchet.forge.worktrees import Trees, worktrees
from ratchet.judge.verdict import judge_run
from ratchet.measure.build import build_tree
from ratchet.measure.suite import Ground, Suite, measure_suite
from ratchet.pipeline.checkout import apart_of, writable
from ratchet.pipeline.machine import machine_of, plan_of
from ratchet.pipeline.record import record_of
from ratchet.pipeline.request import Done, Request
from ratchet.pipeline.stored import load_baseline
from ratchet.records.run import CaseRun, Config, Failure, Side
from ratchet.report.progress import Progress


def check(request: Request, progress: Progress, environ: Mapping[str, str]) -> Done:
    """Compare the checkout with a reference commit on one device and judge every case."""
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options)
    results = writable(repository.root / settings.results)
    baseline = load_baseline(results)
    apart = apart_of(repository, results)
    reference = repository.commit_snapshot(_reference(request, repository, apart))
    head = repository.working_snapshot(apart)
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        machine_of(request, settings, f"ratchet check in {repository.root}", progress, environ) as machine,
        worktrees(repository, head, reference) as trees,
    ):
        plan = plan_of(settings, machine.device)
        unbuilt = _build(trees, {"head": head, "reference": reference}, settings, progress, environ)
        if "head" in unbuilt:
            suite = _unbuilt(unbuilt["head"])
        else:
            places = _places(trees, settings, usable="reference" not in unbuilt)
            ground = Ground(places, repository.root, machine.device, machine.gpu, trees.logs, environ)
            compared = "reference" not in unbuilt
            suite = measure_suite(ground, settings, plan, request.patterns, progress, machine.idle, compared=compared)
    missing = str(unbuilt.get("reference") or suite.reference_missing or "")
    missing = f"The reference could not be measured: {missing}" if missing else ""
    timing = (started, time.monotonic() - clock)
    record = record_of("check", request, settings, machine, suite, timing, head.tree, reference.tree, missing)
    return Done(record, judge_run(record, baseline), results)


def _reference(request: Request, repository: Repository, apart: str) -> str:
    """The commit to compare with: the one named, else HEAD for uncommitted changes, else the commit before."""
    if request.base:
        return repository.resolve(request.base)
    if request.merge_base:
        return repository.merge_base(request.merge_base)
    return repository.head() if repository.is_dirty(apart) else repository.previous()


def _build(
    trees: Trees, snapshots: Mapping[Side, Snapshot], settings: Settings, progress: Progress, environ: Mapping[str, str]
) -> dict[Side, BuildError]:
    """Build both trees; the sides that do not build, and why. A head that does not build settles the run."""
    failures: dict[Side, BuildError] = {}
    places: dict[Side, Path | None] = {"head": trees.head, "reference": trees.reference}
    for side, tree in places.items():
        if settings.build and tree is not None:
            progress.stage(f"Building the {side}")
            log = trees.logs / f"build-{side}.log"
            content = snapshots[side].tree.content
            try:
                build_tree(tree, settings.build, content, settings.build_timeout, log, environ, cache=settings.build_cache)
            except BuildError as error:
                failures[side] = error
                if side == "head":
                    break
    return failures


def _unbuilt(error: BuildError) -> Suite:
    """A head that does not build is red: one failed entry stands for all its cases."""
    failure = Failure(side="head", stage="build", message=error.message)
    stand_in = CaseRun(name="build/*", benchmark="build", config=Config(name="*"), failures=(failure,))
    return Suite((stand_in,), torch=metadata.version("torch"), cuda=None, triton=None)


def _places(trees: Trees, settings: Settings, *, usable: bool) -> dict[Side, Path]:
    """The trees to import from: a reference from before there were benchmarks has none to offer."""
    places: dict[Side, Path] = {"head": trees.head}
    if not (trees.head / settings.bench).is_dir():
        raise UsageError(
            f"There is no folder {settings.bench}/ in this repository.", "Put benchmarks there, or set bench in [tool.ratchet]."
        )
    if usable and trees.reference and (trees.reference / settings.bench).is_dir():
        places["reference"] = trees.reference
    return places
