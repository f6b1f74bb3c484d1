"""What moved in the baseline file, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ratchet import units
from ratchet.judge.moves import Move, MoveKind, Recorded
from ratchet.judge.steps import Accepted, Renamed
from ratchet.report.baseline import milliseconds, moved_by, short, table
from ratchet.report.escape import log_line

WORDS = {
    MoveKind.FIRST: "entered",
    MoveKind.CANDIDATE: "waiting",
    MoveKind.DROPPED: "refuted",
    MoveKind.APART: "differing",
}
"""For what is not called by its kind."""


def recorded_lines(done: Recorded, path: str) -> list[str]:
    """A sum, then a line for each case to which something happened, then what to do about it."""
    several = len({move.machine for move in done.moves}) > 1
    counts = Counter(_word(move.kind) for move in done.moves)
    said = [f"{count} {word}" for word, count in counts.items()]
    said += [f"{len(done.unchanged)} as before"] if done.unchanged else []
    left_out = ", ".join(f"{name} {outcome.lower()}" for name, outcome in done.left_out.items())
    said += [f"{len(done.left_out)} not entered ({left_out})"] if left_out else []
    kinds = {move.kind for move in done.moves}
    lines = [
        log_line(f"{path}: {', '.join(said) or 'nothing to enter'}."),
        *table([_row(move, several) for move in done.moves], right=2),
    ]
    if MoveKind.CANDIDATE in kinds:
        lines.append(
            "What is waiting was proven faster once: run `ratchet check --against-baseline` again, and record that run too."
        )
    lines += [
        log_line(f"{new} does the work of {old}, which is gone: if it is the same, `ratchet baseline rename {old} {new}`.")
        for new, old in done.renames.items()
    ]
    if MoveKind.APART in kinds:
        lines.append(
            "What differs was measured with other settings than its baseline, at the same commit: measure with the same ones, or "
            "start anew with `ratchet baseline accept`."
        )
    return lines


def recorded_fields(done: Recorded, path: str) -> dict[str, Any]:
    """The same for machines."""
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
    return {"path": path, "moves": moves, "unchanged": done.unchanged, "left_out": done.left_out}


def accepted_fields(done: Sequence[Accepted], path: str) -> dict[str, Any]:
    """The same for machines."""
    moves = [
        {
            "case": each.case,
            "git_commit": each.after.git_commit,
            "before_ms": each.before.median_ms if each.before else None,
            "after_ms": each.after.median_ms,
            "step": each.after.steps[-1].model_dump(mode="json"),
        }
        for each in done
    ]
    return {"path": path, "accepted": moves}


def accepted_lines(done: Sequence[Accepted], path: str) -> list[str]:
    """A line for each case: from where to where, by how much, who and why."""
    return [
        log_line(
            f"{each.case}: {_from_to(each)} ({_by_how_much(each)}), "
            f"accepted by {each.after.steps[-1].by}: {each.after.steps[-1].reason}",
            600,
        )
        for each in done
    ] + [log_line(f"{path}: {len(done)} moved. Commit the file, so that others see it.")]


def renamed_lines(done: Sequence[Renamed], old: str, new: str, path: str) -> list[str]:
    """A line for each machine."""
    lines = []
    for each in done:
        gone = each.displaced
        instead = (
            f"; the {milliseconds(gone.median_ms)} of {short(gone.git_commit)}, recorded under that name, gave way"
            if gone
            else ""
        )
        steps = len(each.after.steps) - 1
        lines.append(
            log_line(f"{old} goes on as {new} [{each.machine}], with its {steps} step{'s'[: steps != 1]}{instead}.", 600)
        )
    return [*lines, log_line(f"{path}: {len(done)} renamed. Commit the file together with the change of the name.")]


def _word(kind: MoveKind) -> str:
    return WORDS.get(kind, kind.value)


def _row(move: Move, several: bool) -> tuple[str, ...]:
    before, after = move.before, move.after
    step = after.steps[-1]
    time, change, words = "", "", move.note
    match move.kind:
        case MoveKind.FIRST:
            time, words = milliseconds(after.median_ms), f"at {short(after.git_commit)}"
        case MoveKind.CHANGED:
            time, words = milliseconds(after.median_ms), f"at {short(after.git_commit)}; starts anew, {step.reason}"
        case MoveKind.IMPROVED if before and step.ratio:
            time = f"{milliseconds(before.median_ms)} → {milliseconds(after.median_ms)}"
            change, words = units.change(step.ratio), f"at {short(after.git_commit)}, in two measurements"
        case MoveKind.CANDIDATE if after.candidate:
            change, words = moved_by(after.candidate.measurement), f"at {short(after.candidate.commit)}"
        case MoveKind.REMOVED | MoveKind.RETURNED:
            words = f"at {short(step.commit)}"
    return _word(move.kind), move.case, time, change, f"{words} [{move.machine}]" if several else words


def _from_to(done: Accepted) -> str:
    now = milliseconds(done.after.median_ms)
    return f"{milliseconds(done.before.median_ms)} → {now}" if done.before else f"no baseline → {now}"


def _by_how_much(done: Accepted) -> str:
    found = done.measurement
    if found is None:
        return "not measured side by side"
    if done.after.steps[-1].ratio:
        return moved_by(found)
    return f"{moved_by(found)} against {short(found.reference)}, which is not its baseline"
