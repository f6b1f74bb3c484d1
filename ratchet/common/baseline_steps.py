"""The chain of a case, one run in the terms of the baseline (`Observation`), and what a person does: `accept` and `rename`.

`ratchet.core.judge.chain` says what a chain is, and finds what was edited by hand. `baseline_update` turns
observations into moves of the baseline; ``ratchet baseline accept`` and ``rename`` call the two functions of that name. Pure: the
caller reads and writes the baseline file.
"""

from __future__ import annotations

import difflib
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from ratchet.core.errors import UsageError
from ratchet.core.judge.chain import FIGURES, ChainPlace, digest_of, whole_digest
from ratchet.core.judge.comparison import medians_ms, performance
from ratchet.core.judge.gates import figures_of
from ratchet.core.records.baseline import Baseline, BaselineEntry, Day, Figures, Measurement, Step, StepKind
from ratchet.core.records.run import CASE_NAME, CaseRun, RunRecord, Side
from ratchet.core.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord


def new_chain_entry(figures: Figures, before: BaselineEntry | None, step: Step, place: ChainPlace) -> BaselineEntry:
    """Return an entry with these figures, which ``step`` sets after the steps of the entry ``before``."""
    changed = {"median_ms": figures.median_ms, "figures": digest_of(figures, FIGURES)}
    steps = _with_step(before.steps if before else (), step.model_copy(update=changed), place)
    day = Day(timestamp=figures.timestamp, median_ms=figures.median_ms)
    known = {name: getattr(figures, name) for name in Figures.model_fields}
    return with_digest(BaselineEntry(**known, days=(day,), steps=steps), place)


def continued(entry: BaselineEntry, step: Step, place: ChainPlace) -> BaselineEntry:
    """Return the entry with one more step, which leaves its figures as they are."""
    return with_digest(entry.model_copy(update={"steps": _with_step(entry.steps, step, place)}), place)


def with_digest(entry: BaselineEntry, place: ChainPlace) -> BaselineEntry:
    """Return the entry with the digest of all that it holds now."""
    return entry.model_copy(update={"digest": whole_digest(entry, place)})


def _with_step(steps: tuple[Step, ...], step: Step, place: ChainPlace) -> tuple[Step, ...]:
    following = step.model_copy(update={"predecessor": steps[-1].digest if steps else None})
    return (*steps, following.model_copy(update={"digest": whole_digest(following, place)}))


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


# Moves, and what a run says about a case.


class MoveKind(StrEnum):
    """The effect of a run or a person on a case. The first seven are steps of its chain; the others are not."""

    FIRST = "first"
    IMPROVED = "improved"
    CHANGED = "changed"
    REMOVED = "removed"
    RETURNED = "returned"
    ACCEPTED = "accepted"
    RENAMED = "renamed"
    CANDIDATE = "candidate"
    """Proven faster once: it waits for a second measurement."""
    DROPPED = "dropped"
    """A candidate that another measurement of the same commit contradicts."""
    APART = "apart"
    """Measured as another workload, though it is the baseline's commit: the settings differ, not the code."""


@dataclass(frozen=True)
class Move:
    """A change to one case, with its entry before (where it had one) and after."""

    machine: str
    """`Fingerprint.key`."""
    case: str
    kind: MoveKind
    after: BaselineEntry
    before: BaselineEntry | None = None
    """Of a renamed case, one that was recorded under the new name before anyone said that it is the same case."""
    note: str = ""


class Uncertainty(NamedTuple):
    """How far a figure is from being certain enough to enter. Both shares are of the median."""

    above: float
    """How far its interval reaches above the median."""
    limit: float
    """How far it may: the gate."""
    processes: int

    @property
    def processes_needed(self) -> int:
        """Return how many would do where the noise stays: an interval narrows with the root of their number."""
        return math.ceil(self.processes * (self.above / self.limit) ** 2)


@dataclass(frozen=True)
class BaselineUpdate:
    """The next baseline (the same object where nothing changed) and how it came about."""

    baseline: Baseline
    moves: tuple[Move, ...]
    unchanged: tuple[str, ...]
    """Cases that have a baseline which stayed as it was."""
    left_out: dict[str, Outcome]
    """Cases of the head that have none yet and gave nothing to make one of, with the last outcome."""
    renames: dict[str, str]
    """New name → old name, of cases that have a baseline and were perhaps renamed."""
    uncertain: dict[str, Uncertainty] = field(default_factory=dict)
    """Those of ``left_out`` whose figure is too uncertain."""


HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
"""The whole hash of a commit."""


@dataclass(frozen=True)
class Observation:
    """One case as one run measured and judged it."""

    run: RunRecord
    case: CaseRun
    verdict: CaseVerdict
    best: CaseRun | None = None
    """One more measurement of the case, against the best commit of the baseline."""

    @property
    def place(self) -> ChainPlace:
        return ChainPlace(self.run.environment.fingerprint.key, self.case.name)

    @property
    def is_there(self) -> bool:
        """Return whether the head has the case, in working order, on a machine that was fit."""
        broken = (Outcome.FAILED, Outcome.UNFIT, Outcome.SKIPPED)
        return self.case.in_head and self.case.workload is not None and self.verdict.outcome not in broken

    def was_measured_otherwise(self, entry: BaselineEntry) -> bool:
        """Return whether this run gave the very commit of ``entry`` another workload: by its settings, with the same code."""
        known = [(self.run.head.commit, self.case.workload)]
        if not self.run.bench_from:  # else the reference's workload comes from the head's benchmarks
            known.append((self._reference(self.case), self.case.reference_workload))
        return any(commit == entry.git_commit and workload not in (None, entry.workload) for commit, workload in known)

    def figures(self) -> Figures | None:
        """Return the figures of the head; None where nothing was measured."""
        return self._figures(self.run.head.commit, "head")

    def reference_figures(self) -> Figures | None:
        """Return the figures of the reference; None where nothing was measured, or not a commit with its own benchmarks."""
        commit = self._reference(self.case)
        own = HASH.fullmatch(commit) and not self.run.bench_from
        return self._figures(commit, "reference") if own else None

    def _figures(self, commit: str, side: Side) -> Figures | None:
        case = self.case
        workload, workers = (case.workload, case.head) if side == "head" else (case.reference_workload, case.reference)
        if workload is None:
            return None
        done = performance(workers, workload, 0.95)
        if done is None:
            return None
        return Figures(
            median_ms=done.median_time_ms,
            ci_95_low=done.ci_95_low,
            ci_95_high=done.ci_95_high,
            throughput_gflops=done.throughput_gflops,
            bandwidth_gb_s=done.bandwidth_gb_s,
            git_commit=commit,
            timestamp=self.run.started_at,
            workload=workload,
            pair_medians_ms=tuple(medians_ms(workers)),
            takes=figures_of(self.case, side),
        )

    def measurement(self) -> Measurement | None:
        """Return the comparison with a reference commit; None where there was none, or only stored milliseconds."""
        return self._measurement(self.case, self.verdict.comparison)

    def against(self, commit: str) -> list[Measurement]:
        """Return the measurements of this run in which this commit was the reference."""
        measurements = (self.measurement(), self._measurement(self.best, self.verdict.best) if self.best else None)
        return [measurement for measurement in measurements if measurement and measurement.reference == commit]

    def days(self, entry: BaselineEntry) -> Iterator[Day]:
        """Yield the times of the commit of ``entry`` in this run, as a reference with its own benchmarks or as the head."""
        own = (entry.git_commit, entry.workload)
        for case in filter(None, (self.case, self.best)):
            reference = None if self.run.bench_from else (self._reference(case), case.reference_workload)
            for side, workers in ((reference, case.reference), ((self.run.head.commit, case.workload), case.head)):
                if case.unfit is None and side == own and (medians := medians_ms(workers)):
                    yield Day(timestamp=self.run.started_at, median_ms=statistics.median(medians))

    def _measurement(self, case: CaseRun, comparison: Comparison | None) -> Measurement | None:
        reference = self._reference(case)
        if comparison is None or comparison.source != "paired" or not HASH.fullmatch(reference):
            return None
        return Measurement(
            started_at=self.run.started_at,
            ended_at=_ended_at(self.run),
            reference=reference,
            ratio=comparison.ratio,
            low=comparison.low,
            high=comparison.high,
            pairs=comparison.pairs,
        )

    def _reference(self, case: CaseRun) -> str:
        tree = case.reference_tree or self.run.reference
        return tree.commit if tree else ""


def observations(run: RunRecord, report: ReportRecord) -> list[Observation]:
    """Return every case of a run of a commit.

    Raises UsageError for a dirty tree, or one without a commit, since no commit could reproduce its figures; for two
    environments; for a part of a check; and for a run that began or ended beyond the dates that Python knows.
    """
    if run.environment.differs:
        raise UsageError("This run compared two environments, so it says nothing of a commit.", "Check without --env first.")
    when = f"The run of {run.started_at:%Y-%m-%d %H:%M}"
    if not HASH.fullmatch(run.head.commit):
        raise UsageError(
            f"{when} was measured where no commit was checked out, so it cannot be tied to a commit.",
            "Commit, then run it again.",
        )
    if run.head.dirty:
        raise UsageError(f"{when} measured uncommitted changes, so it cannot be tied to a commit.", "Commit, then run it again.")
    if run.shard:  # joined, its samples would count as a second measurement
        raise UsageError(f"{when} is shard {run.shard} of a check.", "Join all shards with `ratchet ci merge` first.")
    _ended_at(run)
    verdicts = {case.name: case for case in report.cases}
    best = {case.name: case for case in run.best}
    return [Observation(run, case, verdicts[case.name], best.get(case.name)) for case in run.cases]


def _ended_at(run: RunRecord) -> datetime:
    try:
        return run.started_at.astimezone(UTC) + timedelta(seconds=run.wall_s)
    except OverflowError:
        raise UsageError(f"A run cannot take {run.wall_s:.3g} s from {run.started_at:%Y-%m-%d} on.", "Measure again.") from None


@dataclass(frozen=True)
class Person:
    """The person who took a step, when, and why."""

    by: str
    reason: str | None
    now: datetime
    """With a time zone."""


def accept(
    baseline: Baseline, run: RunRecord, report: ReportRecord, names: Sequence[str], person: Person
) -> tuple[Baseline, list[Move]]:
    """Make the head of a recorded run the baseline commit of these cases, faster or not.

    Raises UsageError, and moves nothing, where the reason is empty, a case is not in the run or was not measured, gave
    a wrong result, or the machine was unfit; and for a run of a dirty tree, or of one without a commit.
    """
    if not (person.reason or "").strip():
        raise UsageError("A baseline moves back only for a reason, and there is none.", "Give one with --reason.")
    known = {seen.case.name: seen for seen in observations(run, report)}
    entries = baseline.entries(run.environment.fingerprint)
    moved = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise _unknown(name, known, "The run has no case")
        done = _accepted(known[name], entries.get(name), person)
        entries[name] = done.after
        moved.append(done)
    return baseline.with_entries(run.environment.fingerprint, entries), moved


def rename(baseline: Baseline, old: str, new: str, commit: str, person: Person) -> tuple[Baseline, list[Move]]:
    """Let a case go on under another name, on every machine that has it. ``commit`` is the one checked out.

    Raises UsageError where no machine has ``old``, or where ``new`` has a chain of its own; one of a single first step,
    recorded before anyone said that the case is the same, gives way.
    """
    if old == new or not CASE_NAME.fullmatch(new) or new.endswith("*"):
        raise UsageError(f"{new} is not a new name for a case.", "Name it as `ratchet doctor cases` does: benchmark/config.")
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
        entries[new] = continued(entry, step, ChainPlace(machine, new))
        done.append(Move(machine, new, MoveKind.RENAMED, entries[new], there))
        baseline = baseline.with_entries(part.fingerprint, entries)
    if not done:
        names = {name: None for part in baseline.fingerprints.values() for name in part.configs}
        raise _unknown(old, names, "The baseline has no case")
    return baseline, done


def _accepted(seen: Observation, before: BaselineEntry | None, person: Person) -> Move:
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
    if before and (before.git_commit, before.workload) == (figures.git_commit, figures.workload) and not before.removed:
        raise UsageError(f"{name}: {figures.git_commit[:10]} is its baseline commit already.", "Nothing to accept.")
    measurement = seen.measurement()
    beside = before is not None and measurement is not None and measurement.reference == before.git_commit
    step = Step(
        kind=StepKind.ACCEPTED,
        commit=figures.git_commit,
        timestamp=person.now,
        ratio=measurement.ratio if measurement and beside and before and before.workload == figures.workload else None,
        measurements=(measurement,) if measurement else (),
        by=person.by,
        reason=person.reason,
    )
    return Move(*seen.place, MoveKind.ACCEPTED, new_chain_entry(figures, before, step, seen.place), before)


def _unknown(name: str, known: Iterable[str], what: str) -> UsageError:
    names = list(known)
    near = [other for other in names if name in other.split("/")] or difflib.get_close_matches(name, names)
    meant = f" Did you mean {' or '.join(near[:3])}?" if near else ""
    return UsageError(f"{what} {name}.{meant}", "Name each as benchmark/config, without patterns.")
