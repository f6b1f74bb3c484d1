"""Seal the record of an evaluation, and refuse one that was edited, by the name of what was.

`lab.evaluate` and the command line call it. A seal is a digest, not a signature: whoever edits a field has to seal it again, and
then the verdict has to follow from the samples, and the samples have to come again when the sources are run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from pathlib import Path

from ratchet.core import units
from ratchet.core.errors import RecordError
from ratchet.core.records.files import load
from ratchet.lab.judge import judged
from ratchet.lab.records.evaluation import EvaluationRecord, EvaluationResult, Rules

_AGAIN = "Certify it again."


def sealed(record: EvaluationRecord) -> EvaluationRecord:
    """Return the record with the digest of each field, and of all of them."""
    return record.model_copy(update={"seals": _seals(record)})


def read_certificate(path: Path) -> EvaluationRecord:
    """Return what a certificate holds. Raises RecordError, which names what was edited."""
    record = load(path, EvaluationRecord)
    for name, seal in _seals(record).items():
        if record.seals.get(name) != seal:
            raise RecordError(f"{path}: {name or 'the list of seals'} does not match its digest.", _AGAIN)
    for source in filter(None, (record.baseline, record.candidate, record.maker)):
        if hashlib.sha256(source.text.encode()).hexdigest() != source.sha256:
            raise RecordError(f"{path}: the text of {source.path} does not match its digest.", _AGAIN)
    follows = judged(record.observed)
    for name in EvaluationResult.model_fields:
        if not _agree(*(one.model_dump(mode="json")[name] for one in (record, follows))):
            raise RecordError(f"{path}: {name} does not follow from the samples.", _AGAIN)
    plan = record.observed.plan
    if plan is not None and record.speedup is not None and len(record.observed.samples) != plan.pairs:
        raise RecordError(f"{path}: observed.samples are not as many as the plan says.", _AGAIN)
    if record.violations != record.observed.violations:
        raise RecordError(f"{path}: violations are not those that were observed.", _AGAIN)
    for name, digest in record.files.items():
        if Path(name).is_file() and digest_of(Path(name)) != digest:
            raise RecordError(f"{path}: {name} is not the file that was evaluated.", "Restore it, or certify again.")
    return record


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; empty where it cannot be read."""
    with contextlib.suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


def loosened(rules: Rules) -> str:
    """Return the limits that are wider than the defaults, as a clause; empty where none is."""
    usual = Rules()
    wider = [f"{name} {getattr(rules, name):g}" for name in ("rtol", "atol") if getattr(rules, name) > getattr(usual, name)]
    if rules.memory_limit_bytes > usual.memory_limit_bytes:
        wider.append(f"a memory limit of {units.size(rules.memory_limit_bytes)}")
    if not rules.same_precision:
        wider.append("lower precision")
    return units.listed(wider)


def confirmation(before: EvaluationRecord, now: EvaluationRecord) -> tuple[bool, str]:
    """Return whether an evaluation confirms the certificate that it ran again, and say so."""
    speeds = " and ".join(f"{one.speedup:.4f}" if one.speedup else "no speed-up" for one in (before, now))
    same = before.verdict == now.verdict
    why = ""
    if same and before.speedup_low and before.speedup_high and now.speedup_low and now.speedup_high:
        same = before.speedup_low <= now.speedup_high and now.speedup_low <= before.speedup_high
        why = "" if same else " Their intervals do not meet."
    wider = loosened(before.observed.rules)
    notes = f"{why}{f' It allows {wider}.' if wider else ''}"
    notes += "" if before.evaluator == now.evaluator else " The evaluator is another version."
    said = "confirmed" if same else "NOT confirmed"
    return same, f"Certificate {said}: {before.verdict} then, {now.verdict} now ({speeds}).{notes}"


def _agree(one: object, other: object) -> bool:
    """Return whether two values are the same but for the last digits, which depend on the processor."""
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_agree(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return one == other


def _seals(record: EvaluationRecord) -> dict[str, str]:
    document = record.model_dump(mode="json", exclude={"seals"})
    seals = {name: _digest(value) for name, value in document.items()}
    return {**seals, "": _digest(seals)}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
