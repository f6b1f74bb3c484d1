"""The baseline file as text: its cases and their history, what a command moved, and what was pushed to the remote.

The commands ``ratchet baseline …`` print it; a push gets its commit message and the text of its pull request here. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.common.baseline_steps import BaselineUpdate, Move, MoveKind, Uncertainty
from ratchet.core import units
from ratchet.core.records.baseline import Baseline, BaselineEntry, FingerprintBaseline, Measurement, Step
from ratchet.core.records.verdict import Outcome
from ratchet.core.report.words import aligned
from ratchet.core.untrusted import CELL, clean, fenced, log_line, neutralise_workflow_commands


def baseline_lines(stored: Baseline, path: str) -> list[str]:
    """Return one block for each kind of machine, one line for each case."""
    lines = [] if stored.fingerprints else [empty(path)]
    for part in stored.fingerprints.values():
        lines += [_machine(part), *table([_row(name, entry) for name, entry in part.configs.items()], right=1)]
    return lines


def history_lines(stored: Baseline, path: str, case: str | None = None) -> list[str]:
    """Return the chain of every case, or of one: a line for each step, oldest first."""
    lines = [] if stored.fingerprints else [empty(path)]
    for part in stored.fingerprints.values():
        chosen = {name: entry for name, entry in part.configs.items() if case in (None, name)}
        lines += [_machine(part)] if chosen else []
        for name, entry in chosen.items():
            lines += [f"  {log_line(name, CELL)}", *(f"  {line}" for line in table(_chain(entry), right=3))]
    return lines or [log_line(f"{path}: no case is called {case}. See `ratchet baseline show`.")]


def verified_lines(stored: Baseline, path: str, problems: Sequence[str], warnings: Sequence[str]) -> list[str]:
    """Return a line for each problem and warning, and a sum of the entries that were verified."""
    entries = [entry for _, _, entry in stored.every()]
    steps = sum(len(entry.steps) for entry in entries)
    machines = units.plural(len(stored.fingerprints), "machine")
    what = f"{units.plural(steps, 'step')} of {units.plural(len(entries), 'case')} on {machines}"
    result = f"{units.plural(len(problems), 'problem')} in {what}." if problems else f"{what}: no problems found."
    lines = [*problems, *(f"Warning: {warning}" for warning in warnings), f"{path}: {result}" if entries else empty(path)]
    return [log_line(line, 600) for line in lines]


def empty(path: str) -> str:
    """Return the line for an empty baseline, with what to do."""
    return log_line(f"{path}: no baseline yet. Measure with `ratchet check`, then `ratchet baseline record`.")


def table(rows: Sequence[tuple[str, ...]], right: int) -> list[str]:
    """Return indented lines with columns as wide as they need to be; column number ``right`` (from 0) is aligned right."""
    return aligned([[log_line(cell) for cell in row] for row in rows], "<" * right + ">", indent="  ")


def milliseconds(value: float | None) -> str:
    """Format a stored time; empty for none."""
    return units.duration(value * 1e-3) if value else ""


def moved_by(measurement: Measurement) -> str:
    """Format the change of one measurement: ``−7.29 % [−7.43, −6.97]``."""
    return " ".join(units.estimate(measurement.ratio, measurement.low, measurement.high))


def _machine(part: FingerprintBaseline) -> str:
    machine = part.fingerprint
    software = [
        f"driver {machine.driver}" if machine.driver else "",
        machine.toolkit,
        f"torch {machine.torch}",
    ]
    return log_line(f"{machine.processor} ({', '.join(word for word in software if word)}) [{machine.key}]")


def _row(name: str, entry: BaselineEntry) -> tuple[str, ...]:
    interval = f"[{milliseconds(entry.ci_95_low)}, {milliseconds(entry.ci_95_high)}]"
    last = entry.steps[-1]
    steps = f"{units.plural(len(entry.steps), 'step')}, {last.kind} {last.timestamp:%Y-%m-%d}"
    waits = entry.candidate
    steps += f"; {waits.commit[:10]} waiting, {units.change(waits.measurement.ratio)}" if waits else ""
    return name, milliseconds(entry.median_ms), interval, entry.git_commit[:10], f"{entry.timestamp:%Y-%m-%d}", steps


def _chain(entry: BaselineEntry) -> list[tuple[str, ...]]:
    rows = [_step(step) for step in entry.steps]
    if entry.candidate:
        measurement, commit = entry.candidate.measurement, entry.candidate.commit[:10]
        rows.append(
            (f"{measurement.started_at:%Y-%m-%d}", "waiting", commit, "", moved_by(measurement), "for a second measurement")
        )
    return rows


def _step(step: Step) -> tuple[str, ...]:
    notes = [f"was {step.previous_name}"] if step.previous_name else []
    notes += [f"by {step.by}"] if step.by else []
    words = f"{', '.join(notes)}: {step.reason}" if notes and step.reason else step.reason or ", ".join(notes)
    time = milliseconds(step.median_ms)
    return f"{step.timestamp:%Y-%m-%d}", step.kind.value, step.commit[:10], time, _by_how_much(step), words


def _by_how_much(step: Step) -> str:
    """Format the interval of one measurement, or the ratio of several; name the reference where it is not the step before."""
    if len(step.measurements) == 1:
        (measurement,) = step.measurements
        return moved_by(measurement) if step.ratio else f"{moved_by(measurement)} against {measurement.reference[:10]}"
    several = f", {len(step.measurements)} measurements" if step.measurements else ""
    return f"{units.change(step.ratio)}{several}" if step.ratio else ""


# What ``ratchet baseline record``, ``accept`` and ``rename`` moved.


WORDS = {
    MoveKind.FIRST: "entered",
    MoveKind.CANDIDATE: "waiting",
    MoveKind.DROPPED: "refuted",
    MoveKind.APART: "differing",
}
"""Kinds of moves whose word for people differs from their value."""


def recorded_lines(done: BaselineUpdate, path: str) -> list[str]:
    """Return a sum, then a line for each case that moved, then what to do about it."""
    several = len({move.machine for move in done.moves}) > 1
    counts = Counter(WORDS.get(move.kind, move.kind.value) for move in done.moves)
    parts = [f"{count} {word}" for word, count in counts.items()]
    parts += [f"{len(done.unchanged)} as before"] if done.unchanged else []
    left_out = ", ".join(f"{name} {outcome.lower()}" for name, outcome in done.left_out.items())
    parts += [f"{len(done.left_out)} not entered ({left_out})"] if left_out else []
    kinds = {move.kind for move in done.moves}
    lines = [
        log_line(f"{path}: {', '.join(parts) or 'nothing to enter'}."),
        *table([_move_row(move, several) for move in done.moves], right=2),
    ]
    if MoveKind.CANDIDATE in kinds:
        lines.append(
            "Cases that are waiting were proven faster once. Run `ratchet check --against-baseline` again, "
            "and record that run too."
        )
    lines += [
        log_line(
            f"{new} does the work of {old}, which is gone. If it is the same case, run `ratchet baseline rename {old} {new}`."
        )
        for new, old in done.renames.items()
    ]
    lines += [_uncertain_line(name, seen) for name, seen in done.uncertain.items()]
    if Outcome.IDENTICAL in done.left_out.values():
        lines.append("A case that is identical was not timed. Time it with `ratchet run`, then record again.")
    if MoveKind.APART in kinds:
        lines.append(
            "Cases that differ were measured with other settings than their baseline, at the same commit. Measure with the same "
            "settings, or start again with `ratchet baseline accept`."
        )
    return lines


def _uncertain_line(name: str, seen: Uncertainty) -> str:
    interval = f"{name}: its interval reaches {units.percent(seen.above, 1)} above its median"
    more = f", or take some {seen.processes_needed} processes: `ratchet run {name} --pairs {seen.processes_needed}`"
    return log_line(
        f"{interval}; to enter, it may reach {units.threshold(seen.limit)}, the gate. Stop what else runs on this machine "
        f"(`ratchet doctor` shows it){more if seen.processes_needed <= MOST_PROCESSES else ''}, then record again.",
        400,
    )


MOST_PROCESSES = 200
"""Beyond this, more processes are no advice."""


def recorded_fields(done: BaselineUpdate, path: str) -> dict[str, Any]:
    """Return JSON fields for other programs."""
    moves = [
        {
            "case": move.case,
            "machine": move.machine,
            "kind": move.kind.value,
            "git_commit": move.after.git_commit,
            "before_ms": move.before.median_ms if move.before else None,
            "after_ms": move.after.median_ms,
            "ratio": move.after.steps[-1].ratio if move.kind is MoveKind.IMPROVED else None,
            "candidate": move.after.candidate.model_dump(mode="json") if move.after.candidate else None,
            "note": move.note or None,
        }
        for move in done.moves
    ]
    uncertain = {name: {"above_median": seen.above, "limit": seen.limit} for name, seen in done.uncertain.items()}
    return {"path": path, "moves": moves, "unchanged": done.unchanged, "left_out": done.left_out, "uncertain": uncertain}


def accepted_fields(done: Sequence[Move], path: str) -> dict[str, Any]:
    """Return JSON fields for other programs."""
    moves = [
        {
            "case": accepted.case,
            "git_commit": accepted.after.git_commit,
            "before_ms": accepted.before.median_ms if accepted.before else None,
            "after_ms": accepted.after.median_ms,
            "step": accepted.after.steps[-1].model_dump(mode="json"),
        }
        for accepted in done
    ]
    return {"path": path, "accepted": moves}


def accepted_lines(done: Sequence[Move], path: str) -> list[str]:
    """Return a line for each case: from where to where, by how much, who and why."""
    return [
        log_line(
            f"{accepted.case}: {milliseconds(accepted.before.median_ms) if accepted.before else 'no baseline'} → "
            f"{milliseconds(accepted.after.median_ms)} ({_change_of_accepted(accepted.after.steps[-1])}), "
            f"accepted by {accepted.after.steps[-1].by}: {accepted.after.steps[-1].reason}",
            600,
        )
        for accepted in done
    ] + [log_line(f"{path}: {len(done)} moved. Commit the file, so that others see it.")]


def renamed_lines(done: Sequence[Move], old: str, new: str, path: str) -> list[str]:
    """Return a line for each machine on which the case was renamed."""
    lines = []
    for renamed in done:
        gone = renamed.before
        instead = f"; it replaces {milliseconds(gone.median_ms)} of {gone.git_commit[:10]}, which had that name" if gone else ""
        steps = len(renamed.after.steps) - 1
        lines.append(log_line(f"{old} is now {new} [{renamed.machine}], with its {steps} step{'s'[: steps != 1]}{instead}.", 600))
    return [*lines, log_line(f"{path}: {len(done)} renamed. Commit the file together with the change of the name.")]


def _move_row(move: Move, several: bool) -> tuple[str, ...]:
    before, after = move.before, move.after
    step = after.steps[-1]
    time, change, words = "", "", move.note
    match move.kind:
        case MoveKind.FIRST:
            time, words = milliseconds(after.median_ms), f"at {after.git_commit[:10]}"
        case MoveKind.CHANGED:
            time, words = milliseconds(after.median_ms), f"at {after.git_commit[:10]}; starts again, {step.reason}"
        case MoveKind.IMPROVED if before and step.ratio:
            time = f"{milliseconds(before.median_ms)} → {milliseconds(after.median_ms)}"
            change, words = units.change(step.ratio), f"at {after.git_commit[:10]}, in two measurements"
        case MoveKind.CANDIDATE if after.candidate:
            change, words = moved_by(after.candidate.measurement), f"at {after.candidate.commit[:10]}"
        case MoveKind.REMOVED | MoveKind.RETURNED:
            words = f"at {step.commit[:10]}"
    return WORDS.get(move.kind, move.kind.value), move.case, time, change, f"{words} [{move.machine}]" if several else words


def _change_of_accepted(step: Step) -> str:
    if not step.measurements:
        return "not measured side by side"
    return _by_how_much(step) if step.ratio else f"{_by_how_much(step)}, which is not its baseline"


# The push to the remote: its commit, its pull request, and its result.


_SKIP = "[skip ci]"
"""GitHub starts no workflow for a push whose message has it."""
_STEPS = (MoveKind.IMPROVED, MoveKind.FIRST, MoveKind.CHANGED, MoveKind.REMOVED, MoveKind.RETURNED)


@dataclass(frozen=True)
class PushSummary:
    """The result of moving the baseline file of the remote."""

    path: str
    mode: str
    """``push``, ``pull-request`` or ``branch``: the way that was used in the end."""
    branch: str
    commit: str | None
    """None where there was nothing to change."""
    recorded: BaselineUpdate
    accepted: tuple[Move, ...] = ()
    notes: tuple[str, ...] = ()
    """One sentence for each thing that did not happen, with the reason."""
    pull_url: str = ""


def title(recorded: BaselineUpdate, accepted: Sequence[Move]) -> str:
    """Return the title of the commit: ``perf: ratchet baseline forward (attention/training_512, copy/a and 2 more)``."""
    moved = [step.case for step in accepted] + [move.case for kind in _STEPS for move in recorded.moves if move.kind is kind]
    if moved:
        return f"perf: ratchet baseline forward ({_names(moved)})"
    waiting = [move.case for move in recorded.moves]
    return f"perf: ratchet baseline notes ({_names(waiting)})" if waiting else "perf: ratchet baseline notes (times of today)"


def commit_message(recorded: BaselineUpdate, accepted: Sequence[Move], mode: str) -> str:
    """Return the title, and a line for each case that moved.

    ``[skip ci]`` keeps the commit from starting workflows; a pull request goes without, because its checks must run.
    """
    skip = "" if mode == "pull-request" else f" {_SKIP}"
    what_to_do = ("Cases that ",)  # is for the people who read a log
    lines = [line for line in _steps(recorded, accepted, "baseline") if not line.startswith(what_to_do)]
    return "\n".join([f"{title(recorded, accepted)}{skip}", "", *map(neutralise_workflow_commands, lines)])


def pull_body(recorded: BaselineUpdate, accepted: Sequence[Move], path: str) -> str:
    """Return the text of the pull request, about its newest commit."""
    lines = fenced(_steps(recorded, accepted, path), most=60)
    rest = "Earlier steps are in the other commits of this pull request."
    return f"Measurements of main move `{path}`. The newest steps:\n\n{lines}\n\n{rest}\n"


def forward_lines(done: PushSummary) -> list[str]:
    """Return lines for what moved, where it went, and what did not happen."""
    where = f"pushed {done.commit[:10]}." if done.commit else "nothing to push."
    where += f" {done.pull_url} takes it to main." if done.commit and done.pull_url else ""
    steps = _steps(done.recorded, done.accepted, done.path)
    return [*steps, log_line(f"{done.branch}: {where}"), *(log_line(note, 600) for note in done.notes)]


def forward_fields(done: PushSummary) -> dict[str, Any]:
    """Return JSON fields for other programs."""
    fields = recorded_fields(done.recorded, done.path) | {"accepted": accepted_fields(done.accepted, done.path)["accepted"]}
    where = {"mode": done.mode, "branch": done.branch, "commit": done.commit, "pull_request": done.pull_url or None}
    return fields | where | {"notes": done.notes}


def forward_outputs(done: PushSummary) -> dict[str, str]:
    """Return outputs for later steps of a workflow; ``moved`` is JSON with the names of the cases."""
    moved = [step.case for step in done.accepted] + [move.case for move in done.recorded.moves if move.kind in _STEPS]
    return {
        "moved": json.dumps(list(dict.fromkeys(moved))),
        "mode": done.mode,
        "branch": done.branch,
        "commit": done.commit or "",
        "pull-request-url": done.pull_url,
    }


def forward_summary(done: PushSummary) -> str:
    """Return Markdown for the summary of the workflow step."""
    return f"### Baseline\n\n{fenced(forward_lines(done), most=200)}\n"


def _steps(recorded: BaselineUpdate, accepted: Sequence[Move], path: str) -> list[str]:
    taken = accepted_lines(accepted, path)[:-1]  # the last one asks for a commit, which this is
    return [*taken, *recorded_lines(recorded, path)]


def _names(cases: Sequence[str]) -> str:
    return units.listed(list(dict.fromkeys(cases)), show=lambda name: neutralise_workflow_commands(clean(name, 60)))
