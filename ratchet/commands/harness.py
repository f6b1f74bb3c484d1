"""Saved results of other harnesses → recorded runs that `ratchet compare` judges; recorded runs → PyTorch's benchmark database.

`ratchet import`, `ratchet export` and `ratchet compare` call it. It reads the named files and measures nothing. What such a run
lacks, since ratchet started none of its processes, stands in its warnings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ratchet
from ratchet.commands.request import Request, settings_of
from ratchet.config import Settings
from ratchet.errors import RecordError
from ratchet.measure.harness.results import HarnessResults, read_results
from ratchet.records.environment import Environment, Fingerprint
from ratchet.records.files import load
from ratchet.records.run import CaseRun, Config, Failure, Plan, RunRecord, Tree
from ratchet.stats.comparison import FEWEST_PAIRS, kept_blocks, performance
from ratchet.units import plural

UNKNOWN = "unknown"
_OURS = re.compile(rb'\s*\{\s*"schema_version":\s*\d')


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
            raise RecordError(f"{file} is of another machine or commit than {files[0]}.", "Import files of one machine together.")
    if len({tuple(case.samples_ms for case in one.cases) for one in processes}) < len(processes):
        raise RecordError("Two of the files hold the same times.", "Give one file of each process.")
    on_gpu = source.gpu is not None or kind in ("nvbench", "triton")
    fingerprint = Fingerprint(
        device="cuda" if on_gpu else "cpu",
        gpu=(source.gpu or UNKNOWN) if on_gpu else None,
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
        plan=Plan(pairs=len(files), blocks=1, block_ms=settings.block_ms, seed=0, clock=kind, cache="warm"),
        policy=settings.policy,
        head=Tree(commit=source.commit),
        cases=tuple(_case(name, processes, kind, fingerprint.device, settings.confidence) for name in names),
        warnings=(*_losses(kind, len(files)), *dict.fromkeys(note for one in processes for note in one.notes)),
    )


def _losses(kind: str, processes: int) -> list[str]:
    """Say what a verdict on saved files lacks."""
    losses = [
        f"Imported from {plural(processes, 'file')} of {kind}: ratchet did not start the processes, so the sides took no turns. "
        "`ratchet check --command` measures both sides in turn."
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


# A recorded run → records of PyTorch's benchmark database, as in oss_ci_benchmark_v3/schema.sql of pytorch/test-infra.


def exported(run: RunRecord) -> str:
    """Return the head of a run as a JSON list with a record for each case; a value is the median of one process."""
    return json.dumps([_record(case, run) for case in run.cases if case.head], indent=2, ensure_ascii=False) + "\n"


def _record(case: CaseRun, run: RunRecord) -> dict[str, Any]:
    workload, machine = case.workload, run.environment.fingerprint
    medians = (performance((worker,), workload, 0.95) for worker in case.head if workload and kept_blocks(worker))
    parameters = {name: str(value) for name, value in case.config.parameters.items()}
    gpu = {"gpu_info": machine.gpu, "gpu_count": 1} if machine.gpu else {}
    return {
        "benchmark": {
            "name": "ratchet",
            "mode": "",
            "dtype": workload.dtype if workload else "",
            "extra_info": {
                "head_sha": run.head.commit,
                "started_at": run.started_at.isoformat(),
                "ratchet": run.environment.ratchet,
            },
        },
        "model": {"name": case.name, "type": "kernel", "backend": workload.device if workload else "", "extra_info": parameters},
        "metric": {"name": "latency_ms", "benchmark_values": [one.median_time_ms for one in medians if one], "extra_info": {}},
        "runners": [{"cpu_info": machine.cpu, **gpu}],
        "dependencies": {
            "torch": {"version": machine.torch},
            **({"triton": {"version": machine.triton}} if machine.triton else {}),
        },
    }
