"""Use the records of earlier searches: apply a recommendation, export a record, or replay a recorded space.

The command line calls `apply_recorded`, `export_tuning` and `tune_replay`; `tune` calls `apply_tuning`. Nothing is measured.
It reads records, and writes ``bench/tuned.json`` or the exported file.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.commands.request import Request, settings_of
from ratchet.errors import RecordError, UsageError
from ratchet.judge.tuning import recommend
from ratchet.records.files import load, save_over
from ratchet.records.run import Policy
from ratchet.records.tuning import TUNED_FILE, Ending, Evaluation, ReplayResult, Tuned, TunedCase, TuningRecord
from ratchet.tune.t4 import CORRECT, Result, configuration_of, read_t4, recorded_space, replayed, write_t4
from ratchet.units import percent, threshold


@dataclass(frozen=True)
class AppliedTuning:
    """The file that was written, and a sentence for each record: what it changed, or why it changed nothing."""

    path: Path
    lines: tuple[str, ...]


def apply_recorded(paths: Sequence[Path], request: Request, environ: Mapping[str, str]) -> AppliedTuning:
    """Apply records that a search wrote earlier, perhaps on another machine, to the checkout of the request.

    Raises RecordError for a file that is no whole record, and as `apply_tuning` does.
    """
    root, settings = settings_of(request, environ)
    return apply_tuning([load(path, TuningRecord) for path in paths], root / settings.bench, settings.policy)


def apply_tuning(records: Sequence[TuningRecord], bench: Path, policy: Policy) -> AppliedTuning:
    """Write the recommendations of ``records`` into the tuned parameters of a folder of benchmarks; all else in it stays.

    Each is judged again from its comparisons. Raises UsageError where none is an improvement, RecordError where the present
    file cannot be read (it is left as it is), OutputError where it cannot be written.
    """
    path = bench / TUNED_FILE
    before = load(path, Tuned) if path.exists() else Tuned()
    cases = {case: dict(devices) for case, devices in before.cases.items()}
    lines, changed = [], False
    for record in records:
        made = _tuned(record, policy)
        device = record.environment.fingerprint.processor
        if made is None:
            lines.append(f"{record.case} on {device}: nothing to apply. {record.verdict or 'Nothing was confirmed.'}")
            continue
        cases.setdefault(record.case, {})[device] = made
        shown = ", ".join(f"{name}={value}" for name, value in made.parameters.items())
        lines.append(f"{record.case} on {device}: {shown}, {percent(1 - 1 / made.speedup, 1)} less time.")
        changed = True
    if not changed:
        need = f"Only what takes {threshold(policy.improvement)} less time in interleaved pairs, with evidence, is applied."
        raise UsageError(" ".join(lines) or "There is no tuning record to apply.", need)
    ordered = {case: dict(sorted(devices.items())) for case, devices in sorted(cases.items())}
    save_over(path, Tuned(cases=ordered), Tuned)
    return AppliedTuning(path, tuple(lines))


def _tuned(record: TuningRecord, policy: Policy) -> TunedCase | None:
    """Return the entry for a record's recommendation; None without one, or where its own comparisons do not support it."""
    comparison = record.confirmed(record.best) if record.best else None
    if record.best is None or comparison is None or recommend(record.confirmations, policy).best != record.best:
        return None
    fingerprint = record.environment.fingerprint
    return TunedCase(
        parameters=record.best,
        speedup=1 / comparison.ratio,
        speedup_low=1 / comparison.high,
        speedup_high=1 / comparison.low,
        confidence=comparison.confidence,
        pairs=comparison.pairs,
        default=record.default,
        commit=record.head.commit,
        date=record.sessions[-1].started_at,
        driver=fingerprint.driver,
        cuda=fingerprint.cuda,
        torch=fingerprint.torch,
        triton=fingerprint.triton,
    )


# Export: a tuning record becomes a recorded space in the T4 format, which Kernel Tuner's tools and `ratchet tune --replay` read.


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
    about = {"case": record.case, "device": record.environment.fingerprint.processor, "commit": record.head.commit}
    write_t4(out, results_of(record), about)
    return out


def results_of(record: TuningRecord) -> list[Result]:
    """Return the evaluations in T4's terms; times of several GPUs are scaled to one by the default's time on each."""
    gpus = {evaluation.gpu for evaluation in record.evaluations if evaluation.timed}
    seen = [
        evaluation.median_ms / evaluation.normalised
        for evaluation in record.evaluations
        if evaluation.median_ms and evaluation.normalised
    ]
    scale = statistics.median(seen) if seen and len(gpus) > 1 else None
    return [_result(evaluation, scale) for evaluation in record.evaluations]


def _result(evaluation: Evaluation, scale: float | None) -> Result:
    return Result(
        configuration=evaluation.configuration,
        ms=evaluation.normalised * scale if scale and evaluation.normalised else evaluation.median_ms,
        invalidity=_INVALIDITY[evaluation.outcome],
        runtimes=evaluation.samples_ms,
        compilation=evaluation.compile_s * 1e3,
        timestamp=evaluation.at.isoformat(sep=" "),
    )


# `ratchet tune --replay`: search a space that was measured before.


def tune_replay(path: Path, max_evaluations: int | None, seed: int, strategy: str) -> ReplayResult:
    """Search the recorded space in ``path`` (T4, plain or gzip); a recorded time is the evaluation of its configuration.

    Raises RecordError for a file that cannot be read, is no T4, is empty, or in which everything failed, and UsageError for
    an unknown strategy.
    """
    recorded = recorded_space(read_t4(path))
    optimum = recorded.best_ms
    if optimum is None:
        raise RecordError(
            f"{path}: each of its {recorded.candidates.count} configurations failed, so there is nothing to find.",
            "Record a space in which some run.",
        )
    trace = replayed(recorded, strategy, seed, max_evaluations)
    best = trace.best_ms[-1] if trace.best_ms else None
    configuration = configuration_of(recorded, trace)
    return ReplayResult(
        path=str(path),
        strategy=strategy,
        searched_by=trace.strategy,
        seed=seed,
        evaluations=len(trace.tried),
        failed=sum(recorded.times[place] is None for place in trace.tried),
        configurations=recorded.candidates.count,
        best_ms=best,
        optimum_ms=optimum,
        fraction=0.0 if best is None else optimum / best,
        configuration=None if configuration is None else dict(configuration),
    )
