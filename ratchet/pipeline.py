"""Straight-line glue: each command of the command line is one function here."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from ratchet.config import Settings, load_settings
from ratchet.errors import BuildError, GitError, OutputError, UnfitError, UsageError
from ratchet.forge.git import Repository, Snapshot
from ratchet.forge.worktrees import Trees, worktrees
from ratchet.judge import baseline as judge_baseline
from ratchet.judge.verdict import judge_run, judge_two
from ratchet.measure import fitness
from ratchet.measure.build import build_tree
from ratchet.measure.environment import describe
from ratchet.measure.gpu import Gpu, choose_gpu
from ratchet.measure.lock import hold
from ratchet.measure.suite import Ground, Suite, list_cases, measure_suite
from ratchet.records.baseline import Baseline
from ratchet.records.environment import Environment
from ratchet.records.files import load, save, save_over, save_text
from ratchet.records.run import CaseRun, Config, Failure, Plan, RunRecord, Side, Tree
from ratchet.records.verdict import ReportRecord
from ratchet.report.markdown import render_markdown
from ratchet.report.progress import Progress
from ratchet.workload import Device

FEW_PAIRS = 5
"""Below this the bootstrap interval is much narrower than it says."""

SUMMARY_LIMIT = 1_000_000
"""Characters; GitHub takes 1 MiB of step summary."""

BASELINE, CURRENT, REPORT, MARKDOWN = "baseline.json", "current.json", "report.json", "ratchet_report.md"


@dataclass(frozen=True)
class Request:
    """What a command asks for. ``options`` are settings given on the command line; None means not given."""

    folder: Path
    command: tuple[str, ...]
    patterns: tuple[str, ...] = ()
    base: str | None = None
    merge_base: str | None = None
    gpu: int | None = None
    wait_s: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """A run, what it means, and where its files belong."""

    run: RunRecord
    report: ReportRecord
    results: Path


@dataclass(frozen=True)
class Machine:
    """The device that a run has to itself."""

    device: Device
    gpu: Gpu | None
    warnings: tuple[str, ...]
    idle: tuple[int, ...]


def check(request: Request, progress: Progress, environ: Mapping[str, str]) -> Done:
    """Compare the checkout with a reference commit on one device and judge every case."""
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options)
    results = _writable(repository.root / settings.results)
    baseline = load_baseline(results)
    apart = _apart(repository, results)
    reference = repository.commit_snapshot(_reference(request, repository, apart))
    head = repository.working_snapshot(apart)
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        _machine(request, settings, f"ratchet check in {repository.root}", progress, environ) as machine,
        worktrees(repository, head, reference) as trees,
    ):
        plan = _plan(settings, machine.device)
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
    record = _record("check", request, settings, machine, suite, timing, head.tree, reference.tree, missing)
    return Done(record, judge_run(record, baseline), results)


def run(request: Request, progress: Progress, environ: Mapping[str, str]) -> Done:
    """Time the checkout as it stands, in place and alone."""
    root = _root(request.folder)
    settings = load_settings(root, environ, request.options)
    results = _writable(root / settings.results)
    baseline = load_baseline(results)
    tree = _checked_out(root, results)
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        _machine(request, settings, f"ratchet run in {root}", progress, environ) as machine,
        tempfile.TemporaryDirectory(prefix="ratchet-logs-") as logs,
    ):
        ground = Ground({"head": root}, root, machine.device, machine.gpu, Path(logs), environ)
        plan = _plan(settings, machine.device)
        suite = measure_suite(ground, settings, plan, request.patterns, progress, machine.idle, compared=False)
    timing = (started, time.monotonic() - clock)
    record = _record("run", request, settings, machine, suite, timing, tree)
    return Done(record, judge_run(record, baseline), results)


def cases(request: Request, environ: Mapping[str, str]) -> list[CaseRun]:
    """The cases of the checkout, measured none."""
    root = _root(request.folder)
    settings = load_settings(root, environ, request.options)
    device, gpu, _ = _choose(request, settings, environ)
    with tempfile.TemporaryDirectory(prefix="ratchet-logs-") as logs:
        ground = Ground({"head": root}, root, device, gpu, Path(logs), environ)
        return list_cases(ground, settings, request.patterns)


def compare(first: Path, second: Path, request: Request, environ: Mapping[str, str]) -> ReportRecord:
    """Judge two recorded runs of one machine, ``first`` being the reference."""
    root = _root(request.folder)
    settings = load_settings(root, environ, request.options)
    return judge_two(load(first, RunRecord), load(second, RunRecord), settings.policy)


def judge_again(recorded: Path | None, request: Request, environ: Mapping[str, str]) -> Done:
    """Judge a recorded run again: by the thresholds given, else by its own."""
    root = _root(request.folder)
    settings = load_settings(root, environ, request.options)
    results = root / settings.results
    past = load(recorded or results / CURRENT, RunRecord)
    names = {"regression_threshold": "regression", "improvement_threshold": "improvement", "on_inconclusive": "on_inconclusive"}
    given = {name: getattr(settings.policy, name) for key, name in names.items() if request.options.get(key) is not None}
    return Done(past, judge_run(past, load_baseline(results), past.policy.model_copy(update=given)), results)


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
    root = _root(request.folder)
    results = root / load_settings(root, environ, request.options).results
    return results / BASELINE, load_baseline(results)


def load_baseline(results: Path) -> Baseline:
    """The stored baseline; an empty one where there is no file yet."""
    path = results / BASELINE
    return load(path, Baseline) if path.exists() else Baseline()


def write(done: Done, environ: Mapping[str, str]) -> list[Path]:
    """Write the run, the verdict and the Markdown report; returns their paths, the report first.

    Raises OutputError; the run is then kept in the temporary folder if there is room.
    """
    try:
        save(done.results / CURRENT, done.run)
        written = write_report(done)
    except OutputError as error:
        raise OutputError(error.message, f"{error.hint} {_rescued(done.run)}".strip()) from None
    _append_summary(done, environ)
    return [*written, done.results / CURRENT]


def write_report(done: Done) -> list[Path]:
    """Write the Markdown report and the verdict; returns their paths."""
    paths = [done.results / MARKDOWN, done.results / REPORT]
    save_text(paths[0], render_markdown(done.report))
    save(paths[1], done.report)
    return paths


def _rescued(record: RunRecord) -> str:
    path = Path(tempfile.gettempdir()) / f"ratchet-run-{record.started_at:%Y%m%d-%H%M%S}.json"
    try:
        save(path, record)
    except OutputError:
        return "The run could not be kept anywhere else either."
    return f"The run was kept in {path}: `ratchet report {path}` shows it."


def _append_summary(done: Done, environ: Mapping[str, str]) -> None:
    place = environ.get("GITHUB_STEP_SUMMARY")
    if place:
        try:
            with Path(place).open("a", encoding="utf-8") as summary:
                summary.write(render_markdown(done.report, limit=SUMMARY_LIMIT))
        except OSError as error:
            raise OutputError(
                f"The step summary {place} cannot be written: {error.strerror}.",
                f"Unset GITHUB_STEP_SUMMARY, or free some space; the report is in {done.results / MARKDOWN}.",
            ) from None


def _apart(repository: Repository, results: Path) -> str:
    """The results folder within the repository: what earlier checks wrote there is no change of the code."""
    inside = results.is_relative_to(repository.root) and results != repository.root
    return results.relative_to(repository.root).as_posix() if inside else ""


def _reference(request: Request, repository: Repository, apart: str) -> str:
    """The commit to compare with: the one named, else HEAD for uncommitted changes, else the commit before."""
    if request.base:
        return repository.resolve(request.base)
    if request.merge_base:
        return repository.merge_base(request.merge_base)
    return repository.head() if repository.is_dirty(apart) else repository.previous()


def _root(folder: Path) -> Path:
    """The root of a checkout; outside git, the folder itself."""
    try:
        return Repository(folder).root
    except (GitError, UsageError):
        return folder.resolve()


def _checked_out(root: Path, results: Path) -> Tree:
    """The commit that stands in a checkout, and whether it was changed since; outside git, none."""
    try:
        repository = Repository(root)
        tree = repository.commit_snapshot("HEAD").tree
        return tree.model_copy(update={"dirty": repository.is_dirty(_apart(repository, results))})
    except (GitError, UsageError):
        return Tree(commit="")


def _writable(results: Path) -> Path:
    """Find out now, not after a minute of measuring."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as error:
        raise OutputError(
            f"The results folder {results} cannot be written: {error.strerror}.", "Choose another with --results."
        ) from None
    return results


def _choose(request: Request, settings: Settings, environ: Mapping[str, str]) -> tuple[Device, Gpu | None, tuple[str, ...]]:
    if settings.device == "cpu":
        return "cpu", None, ()
    gpu = choose_gpu(request.gpu, environ.get("CUDA_VISIBLE_DEVICES"))
    blind = metadata.version("torch").endswith("+cpu")
    if gpu is not None and not blind:
        return "cuda", gpu, ()
    why = "the installed torch has no CUDA in it" if gpu else "no NVIDIA GPU is to be seen here"
    if settings.device == "cuda" or request.gpu is not None:
        raise UnfitError(f"A GPU was asked for, but {why}.", "See `ratchet doctor`, or measure with --device cpu.")
    return "cpu", None, (f"Measured on the CPU, since {why}: this says nothing about GPU kernels.",)


@contextlib.contextmanager
def _machine(
    request: Request, settings: Settings, what: str, progress: Progress, environ: Mapping[str, str]
) -> Iterator[Machine]:
    """The chosen device, alone and fit."""
    device, gpu, warnings = _choose(request, settings, environ)
    key, name = (f"gpu-{gpu.uuid}", f"GPU {gpu.index}") if gpu else ("cpu", "The CPU")
    with hold(key, what, request.wait_s, progress.stage, device=name):
        idle: tuple[int, ...] = ()
        if gpu is not None:
            condition = fitness.inspect(gpu)
            problems = fitness.problems_before(condition)
            if problems:
                raise UnfitError(" ".join(problems))
            warnings = (*warnings, *fitness.warnings_before(condition))
            idle = tuple(process.pid for process in condition.processes)
        if settings.pairs < FEW_PAIRS:
            warnings = (*warnings, f"{settings.pairs} pairs are few: the intervals are too narrow. Take {FEW_PAIRS} or more.")
        yield Machine(device, gpu, warnings, idle)


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


def _record(
    kind: Literal["check", "run"],
    request: Request,
    settings: Settings,
    machine: Machine,
    suite: Suite,
    timing: tuple[datetime, float],
    head: Tree,
    reference: Tree | None = None,
    missing: str = "",
) -> RunRecord:
    return RunRecord(
        kind=kind,
        started_at=timing[0],
        wall_s=timing[1],
        command=request.command,
        environment=_environment(machine, settings, suite),
        plan=_plan(settings, machine.device),
        policy=settings.policy,
        head=head,
        reference=reference,
        reference_missing=missing or None,
        cases=suite.cases,
        warnings=machine.warnings,
    )


def _environment(machine: Machine, settings: Settings, suite: Suite) -> Environment:
    return describe(
        machine.gpu,
        machine.device,
        torch_version=suite.torch,
        cuda_version=suite.cuda,
        triton_version=suite.triton,
        cpu_threads=settings.cpu_threads,
    )


def _plan(settings: Settings, device: Device) -> Plan:
    return Plan(
        pairs=settings.pairs,
        blocks=settings.blocks,
        block_ms=settings.block_ms,
        placements=settings.placements,
        seed=settings.seed,
        clock="cpu" if device == "cpu" else settings.clock,
        cache="warm" if device == "cpu" else settings.cache,
    )
