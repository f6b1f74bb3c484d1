"""Work with recorded runs: judge them again (`replay`, `compare`, `report`, `merge`) and take them in.

`ratchet.cli.recorded` calls it, and `ratchet baseline record` uses `judge_again`. It reads the files that are named (runs, for
`replay` archives that end in ``.npz``, for `import` and `compare` results of other harnesses), the settings and the baseline. It
measures nothing; `merge` copies profiles into the results folder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import ratchet
from ratchet.commands.profile import results as profile_files
from ratchet.commands.profile.results import with_stored_profiles
from ratchet.commands.request import CURRENT, CommandResult, Request, load_baseline, settings_of, writable
from ratchet.config import Settings
from ratchet.errors import RecordError, UsageError
from ratchet.judge.consistency import joined
from ratchet.judge.evidence import session_of
from ratchet.judge.replay import Pools, ReplayVerdict, judge_pairs, pool_of, simulate
from ratchet.judge.verdict import judge_run, judge_two
from ratchet.measure.child.registry import select, unmatched
from ratchet.measure.harness.results import HarnessResults, read_results
from ratchet.records.archive import load_archive
from ratchet.records.environment import Environment, Fingerprint
from ratchet.records.files import load
from ratchet.records.run import CaseRun, Config, Failure, Plan, RunRecord, Tree
from ratchet.records.verdict import ReportRecord
from ratchet.report.calibration import ReplayedFile, Simulation
from ratchet.stats.comparison import FEWEST_PAIRS, Pair, pairs_of_medians, performance
from ratchet.units import did_you_mean, plural
from ratchet.untrusted import clean
from ratchet.workload import Device

ARCHIVE = ".npz"
UNKNOWN = "unknown"
_OURS = re.compile(rb'\s*\{\s*"schema_version":\s*\d')


def replay(files: Sequence[Path], request: Request, environ: Mapping[str, str]) -> list[ReplayedFile]:
    """Judge the record in each file: a run by the thresholds given, else by its own; other pairs by the settings.

    Raises RecordError for a file that is neither a run nor an archive, UsageError for a pattern that matches no case.
    """
    root, settings = settings_of(request, environ)
    baseline = load_baseline(root / settings.results)
    names: list[str] = []
    done = []
    for file, recorded in _recorded(files):
        names += _names(recorded)
        chosen = _chosen(recorded, request.patterns)
        if isinstance(chosen, RunRecord):
            report = judge_run(chosen, baseline, settings.overriding(chosen.policy, request.options))
            done.append(ReplayedFile(file, ReplayVerdict(report.cases, report.headline, report.exit_code), report))
        else:
            done.append(ReplayedFile(file, judge_pairs(chosen, settings.policy)))
    _refuse_unmatched(names, request.patterns, names, "--cases")
    return [replayed for replayed in done if replayed.judged.cases] or done


def replay_simulated(
    files: Sequence[Path], request: Request, runs: int, seed: int, plants: Sequence[str], environ: Mapping[str, str]
) -> Simulation:
    """Draw pull requests from the pairs of all files together; each of ``plants`` is ``CASE=FACTOR``, the case maybe a glob.

    A factor is head time over reference time. Raises as `replay` does, and UsageError for a plant without a case or a valid
    factor and for files without pairs.
    """
    if runs < 1:
        raise UsageError(f"--simulate {runs}: that is too few pull requests to say anything.", "Draw 1 or more.")
    factors = dict(_factor(plant) for plant in plants)
    _, settings = settings_of(request, environ)
    names: list[str] = []
    pools: dict[str, list[Pair]] = {}
    for _, recorded in _recorded(files):
        names += _names(recorded)
        chosen = _chosen(recorded, request.patterns)
        of_file = {case.name: pool_of(case) for case in chosen.cases} if isinstance(chosen, RunRecord) else chosen
        for name, pairs in of_file.items():
            pools.setdefault(name, []).extend(pairs)
    known = [name for name, pool in pools.items() if pool]
    _refuse_unmatched(known, request.patterns, names, "--cases")
    if not known:
        raise UsageError("There are no pairs in these files to draw from.", "Take runs of `ratchet check`: they have two sides.")
    _refuse_unmatched(known, list(factors), names, "--plant")
    planted = {name: factor for pattern, factor in factors.items() for name in select(known, [pattern])}
    drawn = {name: pools[name] for name in known}
    rates = simulate(drawn, settings.policy, pairs=settings.pairs, runs=runs, seed=seed, planted=planted)
    recorded_pairs = {name: len(pool) for name, pool in pools.items()}
    return Simulation(rates, settings.policy, settings.pairs, seed, planted, recorded_pairs)


def _recorded(files: Sequence[Path]) -> Iterator[tuple[Path, RunRecord | Pools]]:
    for file in files:
        yield file, (pools_in(file) if file.suffix == ARCHIVE else load(file, RunRecord))


def pools_in(file: Path) -> Pools:
    """Return the pairs of every case of an archive. Raises RecordError as `load_archive` does.

    An archive does not say which hosts they come from: they count as the sessions of a check.
    """
    return {
        name: pairs_of_medians(
            np.median(sides.head, axis=2).tolist(),
            np.median(sides.reference, axis=2).tolist(),
            [session_of(pair) for pair in range(len(sides.head))],
        )
        for name, sides in load_archive(file).items()
    }


def _names(recorded: RunRecord | Pools) -> list[str]:
    return [case.name for case in recorded.cases] if isinstance(recorded, RunRecord) else list(recorded)


def _chosen(recorded: RunRecord | Pools, patterns: Sequence[str]) -> RunRecord | Pools:
    """Return only the cases that a pattern selects."""
    kept = set(select(_names(recorded), patterns))
    if not isinstance(recorded, RunRecord):
        return {name: pairs for name, pairs in recorded.items() if name in kept}
    narrowed = {field: tuple(case for case in getattr(recorded, field) if case.name in kept) for field in ("cases", "best")}
    return recorded.model_copy(update=narrowed)


def _factor(plant: str) -> tuple[str, float]:
    """Parse ``copy=1.035`` into the case and its factor. Raises UsageError."""
    name, equals, text = plant.rpartition("=")
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (name and equals and 0 < factor < math.inf):
        raise UsageError(
            f"--plant {plant} is not CASE=FACTOR with a factor above 0.", "Write --plant copy=1.035 for 3.5 % slower."
        )
    return name, factor


def _refuse_unmatched(known: Sequence[str], patterns: Sequence[str], names: Sequence[str], option: str) -> None:
    """Raise UsageError for a pattern that matches none of ``known``, the usable ones of all recorded ``names``."""
    listed = list(dict.fromkeys(names))
    for pattern in unmatched(known, patterns):
        if unmatched(listed, [pattern]):
            meant = did_you_mean(pattern, listed) or f"There are {', '.join(listed[:8])}."
            raise UsageError(f"{option}: no recorded case is called {pattern}.", clean(meant))
        raise UsageError(
            f"{option}: there are no pairs of {pattern} to draw from.", "Choose it with --cases too, or leave it out."
        )


# `ratchet compare` and `report`: judge two runs beside each other, or one by other thresholds.


def compare(first: Path, second: Path, format_: str | None, request: Request, environ: Mapping[str, str]) -> ReportRecord:
    """Judge two runs of one machine, ``first`` being the reference: recorded ones, or files that another harness wrote.

    ``format_`` names that harness; None: by their content. Raises RecordError for an unreadable file.
    """
    _, settings = settings_of(request, environ)
    reference, head = (load_run(path, format_, settings, request.command) for path in (first, second))
    return judge_two(reference, head, settings.policy)


def judge_again(recorded: Path | None, request: Request, environ: Mapping[str, str]) -> CommandResult:
    """Judge a recorded run (None: the last one) again, by the thresholds given, else by its own.

    Raises RecordError for an unreadable file.
    """
    root, settings = settings_of(request, environ)
    results = root / settings.results
    past = load(recorded or results / CURRENT, RunRecord)
    report = judge_run(past, load_baseline(results), settings.overriding(past.policy, request.options))
    return CommandResult(past, with_stored_profiles(report, past, results), results)


# `ratchet merge`: join the shards of one check, measured on several runners, into one run and one verdict.


def merge(paths: Sequence[Path], request: Request, environ: Mapping[str, str]) -> CommandResult:
    """Join the shards and judge them as one run; the profiles beside each are copied into the results folder.

    Raises UsageError where they do not belong together, IncompleteError where one is missing.
    """
    root, settings = settings_of(request, environ)
    results = writable(root / settings.results)
    run = joined([load(path, RunRecord) for path in paths]).model_copy(update={"command": request.command})
    for path in paths:
        _take_profiles(path.parent / profile_files.FOLDER, results / profile_files.FOLDER)
    report = judge_run(run, load_baseline(results))
    return CommandResult(run, with_stored_profiles(report, run, results), results)


def _take_profiles(source: Path, folder: Path) -> None:
    """Copy the profiles beside a shard's run, and their files, into the folder."""
    profiles = profile_files.read_index(source).profiles
    if not profiles or source.resolve() == folder.resolve():
        return
    for profile in profiles:
        profile_files.clear(folder, profile.case)
        for name in profile.files.values():
            place = source / Path(name).name
            if place.is_file():
                profile_files.keep(place, folder, place.name)
    profile_files.add_to_index(folder, profiles)


# `ratchet import`: saved results of other harnesses → a recorded run. What it lacks, since ratchet started none of its processes,
# stands in its warnings.


def import_results(files: Sequence[Path], format_: str | None, request: Request, environ: Mapping[str, str]) -> RunRecord:
    """Return one run of files that each hold the results of one process of the same code. Raises RecordError."""
    _, settings = settings_of(request, environ)
    return _run_of(files, format_, settings, request.command)


def load_run(path: Path, format_: str | None, settings: Settings, command: tuple[str, ...]) -> RunRecord:
    """Return the recorded run of a file; a file of another harness becomes one. Raises RecordError."""
    if format_ is None and path.is_file():
        with path.open("rb") as stream:
            if _OURS.match(stream.read(4096)):
                return load(path, RunRecord)
    if format_ is None and not path.exists():
        return load(path, RunRecord)  # whose error says what to do
    return _run_of([path], format_, settings, command)


def _run_of(files: Sequence[Path], format_: str | None, settings: Settings, command: tuple[str, ...]) -> RunRecord:
    processes = [read_results(file, format_) for file in files]
    kinds = {one.format for one in processes}
    if len(kinds) > 1:
        raise RecordError(f"The files are of {' and of '.join(sorted(kinds))}.", "Import files of one harness together.")
    kind, source = kinds.pop(), processes[0].source
    for file, other in zip(files, processes, strict=True):
        if other.source != source:
            error = f"{file} is from a different machine or commit than {files[0]}."
            raise RecordError(error, "Import files of one machine and commit together.")
    if len({tuple(case.samples_ms for case in one.cases) for one in processes}) < len(processes):
        raise RecordError("Two of the files hold the same times.", "Give one file of each process.")
    device: Device = "cuda" if source.gpu is not None or kind in ("nvbench", "triton") else "cpu"
    fingerprint = Fingerprint(
        device=device,
        gpu=(source.gpu or UNKNOWN) if device == "cuda" else None,
        torch=UNKNOWN,
        cpu=source.cpu or UNKNOWN,
    )
    names = dict.fromkeys(case.name for one in processes for case in one.cases)
    return RunRecord(
        kind="run",
        started_at=datetime.fromtimestamp(min(file.stat().st_mtime for file in files), UTC),
        wall_s=0.0,
        command=command,
        environment=Environment(fingerprint=fingerprint, python=UNKNOWN, platform=UNKNOWN, ratchet=ratchet.__version__),
        plan=Plan(pairs=len(files), blocks=1, block_ms=settings.block_ms_on(device), seed=0, clock=kind, cache="warm"),
        policy=settings.policy,
        head=Tree(commit=source.commit),
        cases=tuple(_case(name, processes, kind, fingerprint.device, settings.confidence) for name in names),
        warnings=(*_losses(kind, len(files)), *dict.fromkeys(note for one in processes for note in one.notes)),
    )


def _losses(kind: str, processes: int) -> list[str]:
    """Say what a verdict on saved files lacks."""
    losses = [
        f"Imported from {plural(processes, 'file')} of {kind}: ratchet did not start the processes, so the two sides did not "
        "alternate. `ratchet check --command` measures both sides in turn."
    ]
    if processes < FEWEST_PAIRS:
        losses.append(
            "Samples of one process agree with each other, and the next process may differ by more than the gate: a verdict "
            f"takes {FEWEST_PAIRS} processes a side. Give `ratchet import` a file of each."
        )
    return losses


def _case(name: str, processes: Sequence[HarnessResults], kind: str, device: str, confidence: float) -> CaseRun:
    from ratchet.measure.harness.pairs import samples_of, workload_of  # with all that measures, which two records do not need

    timed = [next((case for case in one.cases if case.name == name), None) for one in processes]
    first = next(case for case in timed if case)
    workload = workload_of(first, "", kind, device)
    workers = tuple(samples_of(case, pair) for pair, case in enumerate(timed) if case and case.samples_ms)
    benchmark, _, config = name.partition("/")
    problem = next((case.benchmark.problem for case in timed if case and case.benchmark.problem), "")
    return CaseRun(
        name=name,
        benchmark=benchmark,
        config=Config(name=config, parameters=dict(first.benchmark.parameters)),
        workload=workload,
        performance=performance(workers, workload, confidence),
        head=workers,
        failures=(Failure(side="head", stage="measure", message=problem),) if problem else (),
        skipped=first.benchmark.skipped or None,
        has_reference=False,
    )
