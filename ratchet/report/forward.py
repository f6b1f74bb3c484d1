"""The baseline on its way to the remote: its commit, its pull request, and what came of it, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.judge.moves import MoveKind, Recorded
from ratchet.judge.steps import Accepted
from ratchet.report.escape import clean, fenced, log_line
from ratchet.report.moves import accepted_fields, accepted_lines, recorded_fields, recorded_lines

_NAMED = 3
_SKIP = "[skip ci]"
_ACTIVE = re.compile(r"(?:[@#\[]|\bgh-)(?=\w)", re.IGNORECASE)
"""What GitHub acts upon in a message: a mention, an issue that it closes, a word that skips workflows."""
_STEPS = (MoveKind.IMPROVED, MoveKind.FIRST, MoveKind.CHANGED, MoveKind.REMOVED, MoveKind.RETURNED)


@dataclass(frozen=True)
class Forward:
    """What became of the baseline file of the remote."""

    path: str
    mode: str
    """``push``, ``pull-request`` or ``branch``: the way that was taken in the end."""
    branch: str
    commit: str | None
    """None where there was nothing to change."""
    recorded: Recorded
    accepted: tuple[Accepted, ...] = ()
    notes: tuple[str, ...] = ()
    """What did not happen, and why: a sentence each."""
    pull_url: str = ""


def title(recorded: Recorded, accepted: Sequence[Accepted]) -> str:
    """``perf: ratchet baseline forward (attention/training_512, copy/a and 2 more)``."""
    moved = [each.case for each in accepted] + [move.case for kind in _STEPS for move in recorded.moves if move.kind is kind]
    if moved:
        return f"perf: ratchet baseline forward ({_names(moved)})"
    waiting = [move.case for move in recorded.moves]
    return f"perf: ratchet baseline notes ({_names(waiting)})" if waiting else "perf: ratchet baseline notes (times of today)"


def commit_message(recorded: Recorded, accepted: Sequence[Accepted], mode: str) -> str:
    """Title, and a line for each case that moved. It starts no workflow, except as a pull request, whose checks must run."""
    skip = "" if mode == "pull-request" else f" {_SKIP}"
    lines = [line for line in _steps(recorded, accepted, "baseline") if not line.startswith("What ")]  # what to do is for people
    return "\n".join([f"{title(recorded, accepted)}{skip}", "", *map(_inert, lines)])


def pull_body(recorded: Recorded, accepted: Sequence[Accepted], path: str) -> str:
    """What the pull request says of its newest commit."""
    lines = fenced(_steps(recorded, accepted, path), most=60)
    return (
        f"What main measured moves `{path}`. The newest steps:\n\n{lines}\n\nEarlier steps that wait here are in its commits.\n"
    )


def forward_lines(done: Forward) -> list[str]:
    """What moved, where it went, and what did not happen."""
    return [*_steps(done.recorded, done.accepted, done.path), _where(done), *(log_line(note, 600) for note in done.notes)]


def forward_fields(done: Forward) -> dict[str, Any]:
    """The same for machines."""
    fields = recorded_fields(done.recorded, done.path) | {"accepted": accepted_fields(done.accepted, done.path)["accepted"]}
    where = {"mode": done.mode, "branch": done.branch, "commit": done.commit, "pull_request": done.pull_url or None}
    return fields | where | {"notes": done.notes}


def forward_outputs(done: Forward) -> dict[str, str]:
    """The same for the steps that follow: ``moved`` is JSON, the names of the cases."""
    moved = [each.case for each in done.accepted] + [move.case for move in done.recorded.moves if move.kind in _STEPS]
    return {
        "moved": json.dumps(list(dict.fromkeys(moved))),
        "mode": done.mode,
        "branch": done.branch,
        "commit": done.commit or "",
        "pull-request-url": done.pull_url,
    }


def forward_summary(done: Forward) -> str:
    """The same for the step's summary, as Markdown."""
    return f"### Baseline\n\n{fenced(forward_lines(done), most=200)}\n"


def _where(done: Forward) -> str:
    if done.commit is None:
        return log_line(f"{done.branch}: nothing to push.")
    by = f" {done.pull_url} takes it to main." if done.pull_url else ""
    return log_line(f"{done.branch}: pushed {done.commit[:10]}.{by}")


def _steps(recorded: Recorded, accepted: Sequence[Accepted], path: str) -> list[str]:
    taken = accepted_lines(accepted, path)[:-1]  # the last one asks for a commit, which this is
    return [*taken, *recorded_lines(recorded, path)]


def _inert(text: str) -> str:
    return _ACTIVE.sub(lambda match: f"{match[0]}\u200b", text)


def _names(cases: Sequence[str]) -> str:
    names = [_inert(clean(name, 60)) for name in dict.fromkeys(cases)]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
