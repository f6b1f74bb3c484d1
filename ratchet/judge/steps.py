"""Steps that a person takes: a baseline moved back on purpose, a case that has another name now."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ratchet.errors import UsageError
from ratchet.judge.chain import Place, begun_anew, continued
from ratchet.judge.seen import Seen, seen_in
from ratchet.records.baseline import Baseline, BaselineEntry, Figures
from ratchet.records.chain import Measurement, Step, StepKind
from ratchet.records.run import RunRecord
from ratchet.records.verdict import Outcome, ReportRecord


@dataclass(frozen=True)
class Person:
    """Who took a step, when, and why."""

    by: str
    reason: str | None
    now: datetime
    """With a time zone."""


@dataclass(frozen=True)
class Accepted:
    """A case whose baseline was moved by a person, and its entry before (where it had one) and after."""

    case: str
    after: BaselineEntry
    before: BaselineEntry | None
    measurement: Measurement | None
    """What it was measured against, which need not be the baseline commit."""


@dataclass(frozen=True)
class Renamed:
    """A case under its new name on one machine."""

    machine: str
    after: BaselineEntry
    displaced: BaselineEntry | None
    """What was recorded first under the new name, before anyone said that it is the same case."""


def accept(
    baseline: Baseline, run: RunRecord, report: ReportRecord, names: Sequence[str], person: Person
) -> tuple[Baseline, list[Accepted]]:
    """Make the head of a recorded run the baseline commit of these cases, faster or not.

    Raises UsageError, and moves nothing, where the reason is empty, a case is not in the run or was not measured, gave
    a wrong result, or the machine was unfit; and for a run of a dirty tree, or of one without a commit.
    """
    if not (person.reason or "").strip():
        raise UsageError("A baseline moves back only for a reason, and there is none.", "Give one with --reason.")
    known = {seen.case.name: seen for seen in seen_in(run, report)}
    entries = baseline.entries(run.environment.fingerprint)
    moved = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise _unknown(name, known, "The run has no case")
        done = _accepted(known[name], entries.get(name), person)
        entries[name] = done.after
        moved.append(done)
    return baseline.with_entries(run.environment.fingerprint, entries), moved


def rename(baseline: Baseline, old: str, new: str, commit: str, person: Person) -> tuple[Baseline, list[Renamed]]:
    """Let a case go on under another name, on every machine that has it. ``commit`` is the one checked out.

    Raises UsageError where no machine has ``old``, or where ``new`` has a chain of its own; one of a single first step,
    recorded before anyone said that the case is the same, gives way.
    """
    if old == new or not all(new.partition("/")[::2]):
        raise UsageError(f"{new} is no other name of a case.", "Name it as `ratchet list` does: benchmark/config.")
    done = []
    for machine, part in baseline.fingerprints.items():
        entries = dict(part.configs)
        entry, there = entries.pop(old, None), entries.get(new)
        if entry is None:
            continue
        if there is not None and [step.kind for step in there.steps] != [StepKind.FIRST]:
            raise UsageError(f"{new} has a chain of {len(there.steps)} steps of its own on {machine}.", "Choose another name.")
        step = Step(
            kind=StepKind.RENAMED, commit=commit, timestamp=person.now, by=person.by, reason=person.reason, previous_name=old
        )
        entries[new] = continued(entry, step, Place(machine, new))
        done.append(Renamed(machine, entries[new], there))
        baseline = baseline.with_entries(part.fingerprint, entries)
    if not done:
        names = {name: None for part in baseline.fingerprints.values() for name in part.configs}
        raise _unknown(old, names, "The baseline has no case")
    return baseline, done


def likely_renames(run: RunRecord) -> dict[str, str]:
    """New name → old name, for each case only in the head that does the work of exactly one case only in the reference.

    Where several new cases do that work, none of them is named: nobody can tell which it became.
    """
    gone = [case for case in run.cases if case.in_reference and not case.in_head and case.reference_workload]
    found: dict[str, str] = {}
    for case in run.cases:
        if case.in_head and not case.in_reference and case.workload:
            twins = [other.name for other in gone if other.reference_workload == case.workload]
            if len(twins) == 1:
                found[case.name] = twins[0]
    olds = list(found.values())
    return {new: old for new, old in found.items() if olds.count(old) == 1}


def _accepted(seen: Seen, before: BaselineEntry | None, person: Person) -> Accepted:
    figures = _acceptable(seen)
    if before and (before.git_commit, before.workload) == (figures.git_commit, figures.workload) and not before.removed:
        raise UsageError(f"{seen.case.name}: {figures.git_commit[:10]} is its baseline commit already.", "Nothing was moved.")
    found = seen.measurement()
    beside = before is not None and found is not None and found.reference == before.git_commit
    step = Step(
        kind=StepKind.ACCEPTED,
        commit=figures.git_commit,
        timestamp=person.now,
        ratio=found.ratio if found and beside and before and before.workload == figures.workload else None,
        measurements=(found,) if found else (),
        by=person.by,
        reason=person.reason,
    )
    return Accepted(seen.case.name, begun_anew(figures, before, step, seen.place), before, found)


def _acceptable(seen: Seen) -> Figures:
    name, outcome = seen.case.name, seen.verdict.outcome
    if outcome in (Outcome.FAILED, Outcome.UNFIT, Outcome.SKIPPED, Outcome.MISSING):
        raise UsageError(f"{name} gave no time that counts: {seen.verdict.reason}", "Fix that, measure again, then accept.")
    figures = seen.figures()
    if figures is None:
        raise UsageError(f"{name} was not timed in this run: {seen.verdict.reason}", "There is nothing to accept.")
    if outcome is Outcome.MEASURED:
        raise UsageError(
            f"{name} was timed alone, so nobody knows by how much it would move.",
            f"Measure it with `ratchet check --against-baseline {name}`, then accept.",
        )
    return figures


def _unknown(name: str, known: Iterable[str], what: str) -> UsageError:
    names = list(known)
    near = [each for each in names if name in each.split("/")] or difflib.get_close_matches(name, names, n=3)
    meant = f" Did you mean {' or '.join(near[:3])}?" if near else ""
    return UsageError(f"{what} {name}.{meant}", "Name each as benchmark/config, without patterns.")
