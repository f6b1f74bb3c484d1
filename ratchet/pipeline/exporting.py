"""A tuning record → a recorded space in the T4 format, which Kernel Tuner's tools and `ratchet tune --replay` read."""

from __future__ import annotations

import statistics
from pathlib import Path

from ratchet.errors import UsageError
from ratchet.records.files import load
from ratchet.records.tuned import device_name
from ratchet.records.tuning import Ending, Evaluation, TuningRecord
from ratchet.tune.t4 import CORRECT, Result, write_t4

_INVALIDITY: dict[Ending, str] = {
    "correct": CORRECT,
    "dropped": CORRECT,
    "wrong": "correctness",
    "compile": "compile",
    "resources": "runtime",
    "timeout": "timeout",
    "crash": "runtime",
}


def export_tuning(record_path: Path, out: Path) -> Path:
    """Write the evaluations of a record to ``out``, compressed if its name ends with ``.gz``.

    Raises RecordError where the record cannot be read, UsageError where it has no evaluation, OutputError.
    """
    record = load(record_path, TuningRecord)
    if not record.evaluations:
        raise UsageError(f"{record_path} has no evaluations to export.", "Tune first.")
    about = {"case": record.case, "device": device_name(record.environment.fingerprint), "commit": record.head.commit}
    write_t4(out, results_of(record), about)
    return out


def results_of(record: TuningRecord) -> list[Result]:
    """The evaluations in T4's terms; times of several GPUs as if all were of one, by the default's time on each."""
    gpus = {each.gpu for each in record.evaluations if each.timed}
    seen = [each.median_ms / each.normalised for each in record.evaluations if each.median_ms and each.normalised]
    scale = statistics.median(seen) if seen and len(gpus) > 1 else None
    return [_result(each, scale) for each in record.evaluations]


def _result(each: Evaluation, scale: float | None) -> Result:
    return Result(
        configuration=each.configuration,
        ms=each.normalised * scale if scale and each.normalised else each.median_ms,
        invalidity=_INVALIDITY[each.outcome],
        runtimes=each.samples_ms,
        compilation=each.compile_s * 1e3,
        timestamp=each.at.isoformat(sep=" "),
    )
