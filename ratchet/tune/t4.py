"""A tuning record as a recorded space in T4, the auto-tuning community's JSON format that Kernel Tuner writes (schema 1.0.0).

``ratchet tune --record … --export`` calls `export_tuning`. Reads and writes the named files; touches no device.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet.core.errors import UsageError
from ratchet.core.records.files import load, save_bytes
from ratchet.core.workload import Parameter
from ratchet.tune.records import Ending, Evaluation, TuningRecord

SCHEMA = "1.0.0"
CORRECT = "correct"
_INVALIDITY: dict[Ending, str] = {
    "correct": CORRECT,
    "dropped": CORRECT,
    "wrong": "correctness",
    "compile": "compile",
    "resources": "runtime",
    "timeout": "timeout",
    "crash": "runtime",
}
"""T4 knows timeout, compile, runtime and correctness; also constraints, whose configurations a search never tries."""


def export_tuning(record_path: Path, out: Path) -> Path:
    """Write the evaluations of a record to ``out``, compressed if its name ends with ``.gz``.

    Raises RecordError where the record cannot be read, UsageError where it has no evaluation, OutputError.
    """
    record = load(record_path, TuningRecord)
    if not record.evaluations:
        raise UsageError(f"{record_path} has no evaluations to export.", "Tune first.")
    about = {"case": record.case, "device": record.environment.fingerprint.processor, "commit": record.head.commit}
    write_t4(out, entries_of(record), about)
    return out


def entries_of(record: TuningRecord) -> list[dict[str, Any]]:
    """Return the evaluations in T4's terms; times of several GPUs are scaled to one by the default's time on each."""
    gpus = {evaluation.gpu for evaluation in record.evaluations if evaluation.timed}
    defaults_ms = [each.median_ms / each.normalised for each in record.evaluations if each.median_ms and each.normalised]
    scale = statistics.median(defaults_ms) if defaults_ms and len(gpus) > 1 else None

    def factor(one: Evaluation) -> float:
        return one.normalised * scale / one.median_ms if scale and one.normalised and one.median_ms else 1.0

    return [
        entry(
            each.configuration,
            None if each.median_ms is None else each.median_ms * factor(each),
            _INVALIDITY[each.outcome],
            runtimes_ms=[sample * factor(each) for sample in each.samples_ms],
            compilation_ms=each.compile_s * 1e3,
            timestamp=each.at.isoformat(sep=" "),
        )
        for each in record.evaluations
    ]


def write_t4(path: Path, entries: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any] | None = None) -> None:
    """Write a T4 file, in the spelling of Kernel Tuner 1.5, compressed where it is called ``.gz``. Raises OutputError."""
    table = {"metadata": {"timeunit": "milliseconds", **(metadata or {})}, "results": list(entries), "schema_version": SCHEMA}
    content = f"{json.dumps(table, allow_nan=False)}\n".encode()
    save_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def entry(
    configuration: Mapping[str, Parameter],
    ms: float | None,
    invalidity: str = CORRECT,
    *,
    runtimes_ms: Sequence[float] = (),
    compilation_ms: float = 0.0,
    timestamp: str = "",
) -> dict[str, Any]:
    """Return one configuration with its time; ``ms`` is None where it failed."""
    failed = "CompilationFailedConfig" if invalidity == "compile" else "RuntimeFailedConfig"  # Kernel Tuner's, in place of a time
    return {
        "timestamp": timestamp,
        "configuration": dict(configuration),
        "times": {
            # The schema says compilation_time, but does not ask for it; Kernel Tuner and who reads its files say compilation.
            "compilation": compilation_ms,
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": 0.0,
            "runtimes": list(runtimes_ms),
        },
        "invalidity": invalidity,
        "correctness": int(invalidity == CORRECT),
        "measurements": [{"name": "time", "value": failed if ms is None else ms, "unit": "ms"}],
        "objectives": ["time"],
    }
