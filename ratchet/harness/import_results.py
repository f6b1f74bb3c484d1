"""Carry out `ratchet compare --join`: saved results of other harnesses → a recorded run.

ratchet started none of their processes; what the run therefore lacks stands in its warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import ratchet
from ratchet.core.config import Settings
from ratchet.core.errors import RecordError
from ratchet.core.judge.comparison import FEWEST_PAIRS, performance
from ratchet.core.records.environment import Environment, Fingerprint
from ratchet.core.records.run import CaseRun, Config, Failure, Plan, RunRecord, Tree
from ratchet.core.request import Request, settings_of
from ratchet.core.units import plural
from ratchet.core.workload import Device
from ratchet.harness.results import ReportedCase, read_results

UNKNOWN = "unknown"


def import_results(files: Sequence[Path], format_: str | None, request: Request, environ: Mapping[str, str]) -> RunRecord:
    """Return one run of files that each hold the results of one process of the same code. Raises RecordError."""
    _, settings = settings_of(request, environ)
    return run_of(files, format_, settings, request.command)


def run_of(files: Sequence[Path], format_: str | None, settings: Settings, command: tuple[str, ...]) -> RunRecord:
    processes = [read_results(file, format_) for file in files]
    if settings.machine:
        processes = [replace(one, source=replace(one.source, cpu=settings.machine)) for one in processes]
    kinds = {one.format for one in processes}
    if len(kinds) > 1:
        raise RecordError(f"The files are of {' and of '.join(sorted(kinds))}.", "Import files of one harness together.")
    kind, source = kinds.pop(), processes[0].source
    for file, other in zip(files, processes, strict=True):
        if other.source != source:
            error = f"{file} is from a different machine or commit than {files[0]}."
            hint = "Import files of one machine and commit together; name the machine with --machine if theirs are made up."
            raise RecordError(error, hint)
    if len({tuple(case.samples_ms for case in one.cases) for one in processes}) < len(processes):
        raise RecordError("Two of the files hold the same times.", "Give one file of each process.")
    device: Device = "cuda" if source.gpu is not None or kind in ("nvbench", "triton") else "cpu"
    fingerprint = Fingerprint(
        device=device,
        gpu=(source.gpu or UNKNOWN) if device == "cuda" else None,
        torch=UNKNOWN,
        cpu=source.cpu or UNKNOWN,
    )
    reported: dict[str, list[tuple[int, ReportedCase]]] = {}
    for process, one in enumerate(processes):
        for case in one.cases:
            reported.setdefault(case.name, []).append((process, case))
    return RunRecord(
        kind="run",
        started_at=datetime.fromtimestamp(min(file.stat().st_mtime for file in files), UTC),
        wall_s=0.0,
        command=command,
        environment=Environment(fingerprint=fingerprint, python=UNKNOWN, platform=UNKNOWN, ratchet=ratchet.__version__),
        plan=Plan(pairs=len(files), blocks=1, block_ms=settings.block_ms_on(device), seed=0, clock=kind, cache="warm"),
        policy=settings.policy,
        head=Tree(commit=source.commit),
        cases=tuple(_case(cases, kind, device, settings.confidence) for cases in reported.values()),
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
            f"takes {FEWEST_PAIRS} processes a side. Give `ratchet compare --join` a file of each."
        )
    return losses


def _case(cases: Sequence[tuple[int, ReportedCase]], kind: str, device: str, confidence: float) -> CaseRun:
    from ratchet.harness.pairs import samples_of, workload_of  # with all that measures, which two records do not need

    first = cases[0][1]
    told = [case.benchmark for _, case in cases]
    workload = workload_of(first, "", kind, device)
    skipped = next((one.skipped for one in told if one.skipped), None)
    workers = tuple(samples_of(case, process) for process, case in cases if case.samples_ms and skipped is None)
    benchmark, _, config = first.name.partition("/")
    problem = next((one.problem or one.untimed for one in told if one.problem or one.untimed), "")
    return CaseRun(
        name=first.name,
        benchmark=benchmark,
        config=Config(name=config, parameters=dict(first.benchmark.parameters)),
        workload=workload,
        performance=performance(workers, workload, confidence),
        head=workers,
        failures=(Failure(side="head", stage="measure", message=problem),) if problem else (),
        skipped=skipped,
        has_reference=False,
    )
