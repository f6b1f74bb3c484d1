"""The chain of steps of a case: each names its predecessor by digest, so that a figure edited by hand is found.

A digest is no signature. Whoever runs this code can write a chain that fits; what guards against that is review of the
commit that changes the file. It finds the edit that was not meant, or not thought through.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ratchet.core.records import Record
from ratchet.core.records.baseline import SETTING, UNSEALED, Baseline, BaselineEntry, Figures, Step, StepKind

_UNDO = "Undo the edit, or restore the file from git."
FIGURES = set(Figures.model_fields)
"""Fields whose digest a step keeps, which has set them."""


class ChainPlace(NamedTuple):
    machine: str
    """`Fingerprint.key`."""
    case: str


def problems(baseline: Baseline) -> list[str]:
    """Return a line for each problem in the chains of a baseline, with what to do. Empty: every chain is intact."""
    return [
        f"{name} [{machine}]{problem}"
        for machine, name, entry in baseline.every()
        for problem in _problems(entry, ChainPlace(machine, name))
    ]


def _problems(entry: BaselineEntry, place: ChainPlace) -> Iterator[str]:
    """Yield the edited steps, then those that do not follow, then the figures; the rest is checked only where all these fit."""
    written = _written(entry, place)
    edited = {index for index, digest in enumerate(written) if digest not in (None, entry.steps[index].digest)}
    if len(edited) == len(entry.steps) > 1:
        yield f": no step of its chain fits. Was it renamed or copied by hand? {_UNDO} `ratchet baseline rename` renames a case."
        return
    fits = True
    for index, step in enumerate(entry.steps):
        where = f", step {index + 1} ({step.kind}, {step.timestamp:%Y-%m-%d})"
        before = {entry.steps[index - 1].digest, written[index - 1]} if index else {None}
        if index in edited:
            yield f"{where}: it is not as it was written for this case and machine. {_UNDO}"
        elif step.predecessor not in before:
            yield f"{where}: it does not follow the step before it. {_UNDO}"
        else:
            continue
        fits = False
    setting = [index for index, step in enumerate(entry.steps) if step.kind in SETTING]
    if not setting:
        yield f": no step of its chain set any figures. {_UNDO}"
        return
    index, last = setting[-1], entry.steps[setting[-1]]
    if index not in edited and (last.figures, last.commit) != (digest_of(entry, FIGURES), entry.git_commit):
        yield f": its figures are not those that step {index + 1} ({last.kind}, {last.timestamp:%Y-%m-%d}) set. {_UNDO}"
    elif fits and entry.digest != whole_digest(entry, place):
        yield f": its candidate, its days, its merges, its digest or its list of steps was edited. {_UNDO}"


def _written(entry: BaselineEntry, place: ChainPlace) -> list[str | None]:
    """Return the digest that each step should have; None where a broken renaming hides what the case was called then."""
    name: str | None = place.case
    digests: list[str | None] = []
    for step in reversed(entry.steps):
        digest = whole_digest(step, place._replace(case=name)) if name is not None else None
        if step.kind is StepKind.RENAMED:
            name = step.previous_name if digest == step.digest else None
        digests.insert(0, digest)
    return digests


def whole_digest(record: Step | BaselineEntry, place: ChainPlace) -> str:
    """Return the digest of all that a step or an entry says, at its place."""
    return digest_of(record, set(type(record).model_fields) - {"digest"}, place)


def digest_of(record: Record, fields: set[str], place: ChainPlace | None = None) -> str:
    """Hash the canonical JSON of these fields. Defaults are left out, so that a field added later changes no digest."""
    document: dict[str, Any] = {"place": place, "fields": record.model_dump(mode="json", include=fields, exclude_defaults=True)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[: len(UNSEALED)]
