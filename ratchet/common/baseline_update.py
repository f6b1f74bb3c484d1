"""Runs + baseline → the next baseline. It moves forward only: to what two separate measurements have proven faster.

``ratchet baseline record`` and ``ratchet ci push`` call `record` with judged runs. Pure: the caller reads and writes
the baseline file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ratchet.common.auto_gate import gate_of_history
from ratchet.common.baseline_steps import (
    BaselineUpdate,
    Move,
    MoveKind,
    Observation,
    Uncertainty,
    continued,
    new_chain_entry,
    observations,
    with_digest,
)
from ratchet.core.errors import RecordError
from ratchet.core.judge.chain import problems
from ratchet.core.judge.verdict import likely_renames
from ratchet.core.records.baseline import (
    MOST_DAYS,
    MOST_MERGES,
    Baseline,
    BaselineEntry,
    Candidate,
    DayNoise,
    Figures,
    Measurement,
    Step,
    StepKind,
)
from ratchet.core.records.run import Policy, RunRecord
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.units import first_of

_NEVER = (Outcome.FAILED, Outcome.UNFIT, Outcome.REGRESSED, Outcome.SLOWER, Outcome.INCONCLUSIVE)
"""Outcomes that never give figures to a baseline: the reference may be the better commit."""
CARRIED = "the best commit under older software of this machine, measured again"
_NOT_THERE = (Outcome.MISSING, Outcome.SKIPPED)


def record(baseline: Baseline, measured: Sequence[tuple[RunRecord, ReportRecord]]) -> BaselineUpdate:
    """Enter runs with their verdicts, in the order of their time; the same run twice counts once.

    A case that this machine has no baseline for enters, unless it regressed: then its reference is the better commit. One
    that is there moves only when two separate runs of one commit have proven it an improvement over the very commit that
    the baseline names. Raises UsageError for a run of a dirty tree, or of one without a commit.
    """
    moves: list[Move] = []
    outcomes: dict[str, Outcome] = {}
    renames: dict[str, str] = {}
    uncertain: dict[str, Uncertainty] = {}
    for run, report in sorted(measured, key=lambda pair: pair[0].started_at):
        machine = run.environment.fingerprint
        entries, carried = baseline.entries(machine), baseline.carried(machine)
        for seen in observations(run, report):
            name = seen.case.name
            outcomes[name] = seen.verdict.outcome
            before = entries.get(name)
            after, kind = _next(before, seen, carried.get(name))
            if after and report.policy.follows_history:
                after = _with_noise(after, before, seen, report.policy)
            if kind and after:
                moves.append(Move(machine.key, name, kind, after, before, _note(kind, before, seen)))
            if after:
                entries[name] = after
            elif seen.verdict.outcome not in _NEVER and (figures := seen.figures()):
                uncertain[name] = _uncertainty(figures, seen)
        renames |= {new: old for new, old in likely_renames(run).items() if old in entries}
        if entries != baseline.entries(machine):
            baseline = baseline.with_entries(machine, entries)
    known = {name for run, _ in measured for name in baseline.entries(run.environment.fingerprint)}
    unchanged = tuple(name for name in outcomes if name in known - {move.case for move in moves})
    left_out = {name: outcome for name, outcome in outcomes.items() if name not in known and outcome not in _NOT_THERE}
    return BaselineUpdate(
        baseline, tuple(moves), unchanged, left_out, renames, {n: uncertain[n] for n in left_out if n in uncertain}
    )


def _uncertainty(figures: Figures, seen: Observation) -> Uncertainty:
    gate = seen.run.policy.of_case(seen.case.name).regression
    return Uncertainty(figures.ci_95_high / figures.median_ms - 1, gate, len(seen.case.head))


def intact(stored: Baseline, name: str) -> Baseline:
    """Return the baseline. Raises RecordError where its chains do not verify."""
    if wrong := problems(stored):
        raise RecordError(f"{name} does not verify, and was left as it is: {first_of(wrong)}", "See `ratchet baseline verify`.")
    return stored


def _note(kind: MoveKind, before: BaselineEntry | None, seen: Observation) -> str:
    """Return a note where the entries before and after do not explain the move; empty where they do."""
    if before and kind is MoveKind.DROPPED and before.candidate:
        return f"{before.candidate.commit[:10]} is not shown to be faster a second time"
    if before and kind is MoveKind.APART and seen.case.workload:
        return "; ".join(before.workload.differences(seen.case.workload))
    return ""


def _next(
    before: BaselineEntry | None, seen: Observation, carried: BaselineEntry | None
) -> tuple[BaselineEntry | None, MoveKind | None]:
    """Return the entry after this run, and what happened to it."""
    outcome, run = seen.verdict.outcome, seen.run
    figures = seen.figures() if outcome not in _NEVER else None
    if before is None:
        return _first(figures, seen, carried)
    entry = _with_merge(_with_days(before, seen), seen)
    is_news = run.started_at > before.steps[-1].timestamp  # an older run says nothing about what is there now
    if outcome is Outcome.MISSING:
        return _noted(entry, seen, StepKind.REMOVED) if is_news and not entry.removed else (entry, None)
    if seen.is_there and seen.case.workload != entry.workload:
        if seen.was_measured_otherwise(entry):
            return entry, MoveKind.APART
        return _set(entry, figures, seen, StepKind.CHANGED) if is_news and figures else (entry, None)
    if seen.is_there and entry.removed:
        return _noted(entry, seen, StepKind.RETURNED) if is_news else (entry, None)
    return _weighed(entry, seen, figures)


def _first(
    figures: Figures | None, seen: Observation, carried: BaselineEntry | None
) -> tuple[BaselineEntry | None, MoveKind | None]:
    """Return the first entry of a case on this machine: the best commit under its older software, if this run measured that.

    A figure whose interval reaches further than the gate above its median is not entered; a later run may give a better one.
    """
    best = seen.reference_figures()
    if carried and best and best.git_commit == carried.git_commit:
        return _set(None, best, seen, StepKind.FIRST, reason=CARRIED)
    if figures is None or (uncertainty := _uncertainty(figures, seen)).above > uncertainty.limit:
        return None, None
    return _set(None, figures, seen, StepKind.FIRST)


def _weighed(entry: BaselineEntry, seen: Observation, figures: Figures | None) -> tuple[BaselineEntry, MoveKind | None]:
    """Weigh one more measurement of an entry's candidate, or of a commit that may become it."""
    commit, waiting = seen.run.head.commit, entry.candidate
    known = waiting.measurement if waiting and waiting.commit == commit else None
    new = seen.measurement()
    proven = seen.verdict.outcome is Outcome.IMPROVED and new is not None and new.reference == entry.git_commit != commit
    if not proven or new is None:
        refuted = known and seen.run.started_at > known.started_at and _contradicts(seen, entry)
        return _waiting(entry, None, seen, MoveKind.DROPPED) if refuted else (entry, None)
    if known is None:
        later = waiting is None or new.started_at > waiting.measurement.started_at
        return _waiting(entry, Candidate(commit=commit, measurement=new), seen, MoveKind.CANDIDATE) if later else (entry, None)
    if not _are_apart(known, new) or figures is None:
        return entry, None
    return _set(entry, figures, seen, StepKind.IMPROVED, *sorted((known, new), key=lambda proof: proof.started_at))


def _contradicts(seen: Observation, entry: BaselineEntry) -> bool:
    """Return whether a run without an improvement refutes it: it compared with the commit of the baseline, or the case failed."""
    if seen.verdict.outcome is Outcome.FAILED:
        return True
    goal = 1 - seen.run.policy.improvement
    return any(measurement == seen.measurement() or measurement.ratio > goal for measurement in seen.against(entry.git_commit))


def _are_apart(one: Measurement, other: Measurement) -> bool:
    """Return whether one began after the other had ended: what disturbs a machine for a while cannot make both."""
    return one.ended_at < other.started_at or other.ended_at < one.started_at


def _set(
    before: BaselineEntry | None,
    figures: Figures,
    seen: Observation,
    kind: StepKind,
    *proof: Measurement,
    reason: str | None = None,
) -> tuple[BaselineEntry, MoveKind]:
    ratio = math.exp(sum(math.log(measurement.ratio) for measurement in proof) / len(proof)) if proof else None
    differences = before.workload.differences(figures.workload) if before else []
    step = Step(
        kind=kind,
        commit=figures.git_commit,
        timestamp=figures.timestamp,
        ratio=ratio,
        measurements=proof,
        reason=reason or "; ".join(differences) or None,
    )
    return new_chain_entry(figures, before, step, seen.place), MoveKind(kind.value)


def _noted(entry: BaselineEntry, seen: Observation, kind: StepKind) -> tuple[BaselineEntry, MoveKind]:
    step = Step(kind=kind, commit=seen.run.head.commit, timestamp=seen.run.started_at)
    return continued(entry.model_copy(update={"candidate": None}), step, seen.place), MoveKind(kind.value)


def _waiting(
    entry: BaselineEntry, candidate: Candidate | None, seen: Observation, kind: MoveKind
) -> tuple[BaselineEntry, MoveKind]:
    return with_digest(entry.model_copy(update={"candidate": candidate}), seen.place), kind


def _with_days(entry: BaselineEntry, seen: Observation) -> BaselineEntry:
    """Add one more day of its commit, where this run measured it: one median a day, the latest thirty."""
    dates = {day.timestamp.date() for day in entry.days}
    new = next((day for day in seen.days(entry) if day.timestamp.date() not in dates), None)
    if new is None:
        return entry
    days = sorted((*entry.days, new), key=lambda day: day.timestamp)[-MOST_DAYS:]
    return with_digest(entry.model_copy(update={"days": tuple(days)}), seen.place)


def _with_noise(entry: BaselineEntry, before: BaselineEntry | None, seen: Observation, policy: Policy) -> BaselineEntry:
    """Add how far the pairs of this run differed, once a day, to what is known of the same work; and the gate that follows."""
    known = before.noise if before and before.workload == entry.workload else ()
    pairs, when = seen.verdict.comparison, seen.run.started_at
    alike = seen.case.workload == entry.workload and pairs and pairs.source in ("paired", "total")
    if pairs and alike and when.date() not in {day.timestamp.date() for day in known}:
        known = tuple(sorted((*known, DayNoise(timestamp=when, spread=pairs.spread)), key=lambda day: day.timestamp)[-MOST_DAYS:])
    gate = gate_of_history([day.spread for day in known], policy, seen.run.plan.pairs, len(seen.run.cases))
    if (known, gate) == (entry.noise, entry.gate):
        return entry
    return with_digest(entry.model_copy(update={"noise": known, "gate": gate}), seen.place)


def _with_merge(entry: BaselineEntry, seen: Observation) -> BaselineEntry:
    """Add this run to the merges that are slower than the baseline commit, where it measured one.

    A merge that is not slower by `Policy.part` or more empties the list. Only slower merges are kept, so that the file of a
    repository whose times stay the same does not change with every merge.
    """
    known = entry.merges
    newest = known[-1].measurement.started_at if known else None
    if seen.verdict.outcome in (Outcome.FAILED, Outcome.UNFIT) or (newest and seen.run.started_at <= newest):
        return entry
    measured = seen.against(entry.git_commit)
    if not measured or seen.run.head.commit == entry.git_commit:
        return entry
    slower = measured[-1].ratio >= 1 + seen.run.policy.of_case(seen.case.name).part
    merges = (*known, Candidate(commit=seen.run.head.commit, measurement=measured[-1]))[-MOST_MERGES:] if slower else ()
    return entry if merges == known else with_digest(entry.model_copy(update={"merges": merges}), seen.place)
