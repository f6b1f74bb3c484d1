"""`ratchet tune --apply`: what a search recommends becomes what is used, in ``bench/tuned.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.config import load_settings
from ratchet.errors import UsageError
from ratchet.judge.tuning import recommend
from ratchet.pipeline.checkout import root_of
from ratchet.pipeline.request import Request
from ratchet.records.files import load, save_over
from ratchet.records.policy import Policy
from ratchet.records.tuned import TUNED_FILE, Tuned, TunedCase, device_name
from ratchet.records.tuning import TuningRecord
from ratchet.units import percent, threshold


@dataclass(frozen=True)
class Applied:
    """The file that was written, and a sentence for each record: what it changed, or why it changed nothing."""

    path: Path
    lines: tuple[str, ...]


def apply_recorded(paths: Sequence[Path], request: Request, environ: Mapping[str, str]) -> Applied:
    """Apply records that a search wrote earlier, perhaps on another machine, to the checkout of the request.

    Raises RecordError for a file that is no whole record, and as `apply_tuning` does.
    """
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options)
    return apply_tuning([load(path, TuningRecord) for path in paths], root / settings.bench, settings.policy)


def apply_tuning(records: Sequence[TuningRecord], bench: Path, policy: Policy) -> Applied:
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
        device = device_name(record.environment.fingerprint)
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
    return Applied(path, tuple(lines))


def _tuned(record: TuningRecord, policy: Policy) -> TunedCase | None:
    """The entry for what a record recommends; None where it recommends nothing, or its own comparisons do not bear it out."""
    found = record.confirmed(record.best) if record.best else None
    if record.best is None or found is None or recommend(record.confirmations, policy).best != record.best:
        return None
    fingerprint = record.environment.fingerprint
    return TunedCase(
        parameters=record.best,
        speedup=1 / found.ratio,
        speedup_low=1 / found.high,
        speedup_high=1 / found.low,
        confidence=found.confidence,
        pairs=found.pairs,
        default=record.default,
        commit=record.head.commit,
        date=record.sessions[-1].started_at,
        driver=fingerprint.driver,
        cuda=fingerprint.cuda,
        torch=fingerprint.torch,
        triton=fingerprint.triton,
    )
