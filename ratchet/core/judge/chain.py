"""The chain of steps of a case: each names its predecessor by digest, so that a figure edited by hand is found.

Commands that move a baseline add steps; a verdict and ``ratchet baseline verify`` ask for `problems`; a push joins the chain of
main with the one that waits in a pull request (`joined`). Pure.

A digest is no signature. Whoever runs this code can write a chain that fits; what guards against that is review of the
commit that changes the file. It finds the edit that was not meant, or not thought through.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ratchet.core.records import Record
from ratchet.core.records.baseline import SETTING, UNSEALED, Baseline, BaselineEntry, Day, Figures, Step, StepKind

_UNDO = "Undo the edit, or restore the file from git."
_FIGURES = set(Figures.model_fields)


class ChainPlace(NamedTuple):
    """The place of an entry in the file."""

    machine: str
    """`Fingerprint.key`."""
    case: str


def new_chain_entry(figures: Figures, before: BaselineEntry | None, step: Step, place: ChainPlace) -> BaselineEntry:
    """Return an entry with these figures, which ``step`` sets after the steps of the entry ``before``."""
    changed = {"median_ms": figures.median_ms, "figures": _digest(figures, _FIGURES)}
    steps = _with_step(before.steps if before else (), step.model_copy(update=changed), place)
    day = Day(timestamp=figures.timestamp, median_ms=figures.median_ms)
    known = {name: getattr(figures, name) for name in Figures.model_fields}
    return with_digest(BaselineEntry(**known, days=(day,), steps=steps), place)


def continued(entry: BaselineEntry, step: Step, place: ChainPlace) -> BaselineEntry:
    """Return the entry with one more step, which leaves its figures as they are."""
    return with_digest(entry.model_copy(update={"steps": _with_step(entry.steps, step, place)}), place)


def with_digest(entry: BaselineEntry, place: ChainPlace) -> BaselineEntry:
    """Return the entry with the digest of all that it holds now."""
    return entry.model_copy(update={"digest": _entry_digest(entry, place)})


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
    if index not in edited and (last.figures, last.commit) != (_digest(entry, _FIGURES), entry.git_commit):
        yield f": its figures are not those that step {index + 1} ({last.kind}, {last.timestamp:%Y-%m-%d}) set. {_UNDO}"
    elif fits and entry.digest != _entry_digest(entry, place):
        yield f": its candidate, its days, its merges, its digest or its list of steps was edited. {_UNDO}"


def _written(entry: BaselineEntry, place: ChainPlace) -> list[str | None]:
    """Return the digest that each step should have; None where a broken renaming hides what the case was called then."""
    name: str | None = place.case
    digests: list[str | None] = []
    for step in reversed(entry.steps):
        digest = _step_digest(step, place._replace(case=name)) if name is not None else None
        if step.kind is StepKind.RENAMED:
            name = step.previous_name if digest == step.digest else None
        digests.insert(0, digest)
    return digests


def _with_step(steps: tuple[Step, ...], step: Step, place: ChainPlace) -> tuple[Step, ...]:
    following = step.model_copy(update={"predecessor": steps[-1].digest if steps else None})
    return (*steps, following.model_copy(update={"digest": _step_digest(following, place)}))


def _step_digest(step: Step, place: ChainPlace) -> str:
    return _digest(step, set(Step.model_fields) - {"digest"}, place)


def _entry_digest(entry: BaselineEntry, place: ChainPlace) -> str:
    return _digest(entry, set(BaselineEntry.model_fields) - {"digest"}, place)


def _digest(record: Record, fields: set[str], place: ChainPlace | None = None) -> str:
    """Hash the canonical JSON of these fields. Defaults are left out, so that a field added later changes no digest."""
    document: dict[str, Any] = {"place": place, "fields": record.model_dump(mode="json", include=fields, exclude_defaults=True)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[: len(UNSEALED)]


# Join two baseline files that went on from the same steps: main's, and the one that waits in a pull request.


def joined(main: Baseline, waiting: Baseline) -> Baseline:
    """Return, case by case, the chain that continues the other one; where both went different ways, main's.

    If two entries have the same steps, the one that was touched last stays: it knows the newer candidate, merges and days.
    """
    for part in waiting.fingerprints.values():
        entries = main.entries(part.fingerprint)
        later = {name: entry for name, entry in part.configs.items() if name not in entries or _goes_on(entry, entries[name])}
        if later:
            main = main.with_entries(part.fingerprint, entries | later)
    return main


def _goes_on(entry: BaselineEntry, other: BaselineEntry) -> bool:
    mine, theirs = ([step.digest for step in either.steps] for either in (entry, other))
    if mine == theirs:
        return _last_touched(entry) > _last_touched(other)
    return mine[: len(theirs)] == theirs


def _last_touched(entry: BaselineEntry) -> float:
    days = [day.timestamp for day in entry.days]
    measured = [proof.measurement.ended_at for proof in (entry.candidate, *entry.merges) if proof]
    return max([*days, *measured, entry.timestamp]).timestamp()


# Earlier baseline commits that a case is measured against once more, so that its steps add up.


ANCHOR_PAIRS = 16
"""Pairs that a case gets against its anchor. No verdict ends them early: else the index would lean to where it was decided."""


def anchors_of(entry: BaselineEntry) -> list[str]:
    """Return the commits that can be the anchor of a case, the best one first.

    That is the first commit of its chain, since the workload last changed and under its present name. The later ones of the chain
    stand in where an earlier one cannot be built any more.
    """
    commits: list[str] = []
    for step in entry.steps:
        if step.kind in (StepKind.FIRST, StepKind.CHANGED, StepKind.RENAMED):
            commits = []
        if step.kind in (StepKind.FIRST, StepKind.CHANGED, StepKind.IMPROVED, StepKind.ACCEPTED):
            commits.append(step.commit)
    return list(dict.fromkeys(commits))


def by_anchor(waiting: Mapping[str, Sequence[str]], compared: Mapping[str, str], head: str) -> dict[str, list[str]]:
    """Map each commit to the cases to measure against it: those whose first anchor it is.

    A case that was compared with its anchor (``compared``: name → commit), or whose anchor is the head itself, is done.
    """
    groups: dict[str, list[str]] = {}
    for name, anchors in waiting.items():
        if anchors and anchors[0] not in (compared.get(name), head):
            groups.setdefault(anchors[0], []).append(name)
    return groups
