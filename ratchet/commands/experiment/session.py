"""Keep the session of experiments of a repository: one record, and the table and the handoff that are made from it.

`start` and `run` beside it write, the other subcommands read. Everything lies in the results folder.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ratchet.errors import UsageError
from ratchet.judge.experiment import ceilings, is_plateau, luck, rotation
from ratchet.records.experiment import WHOLE, ExperimentRecord, SessionRecord, StatusRecord
from ratchet.records.files import load, save, save_text
from ratchet.report.experiment import handoff_text, table_text

SESSION, TABLE, HANDOFF = "experiments/session.json", "experiments.tsv", "HANDOFF.md"


def open_session(results: Path) -> SessionRecord:
    """Return the session, and write its table and handoff again where a kill came between. Raises UsageError without one."""
    path = results / SESSION
    if not path.exists():
        raise UsageError(
            "There is no session of experiments here, and none begins without a profile.",
            "Run `ratchet experiment start CASE` before any change.",
        )
    session = load(path, SessionRecord)
    for file, text in _texts(session).items():
        if not (results / file).is_file() or (results / file).read_text(encoding="utf-8", errors="replace") != text:
            save_text(results / file, text)
    return session


def save_session(results: Path, session: SessionRecord) -> None:
    """Write the session, then what is made from it; each file is whole at any time."""
    texts = _texts(session)
    save(results / SESSION, session)
    for file, text in texts.items():
        save_text(results / file, text)


def status_of(session: SessionRecord, now: datetime | None = None) -> StatusRecord:
    """Return what is known so far and what to try next. Without ``now``, the budget is left out."""
    kept = [one for one in session.experiments if one.decision.status == "keep"]
    speedup = 1.0
    for one in kept:
        speedup /= one.e2e.comparison.ratio if one.e2e and one.decision.branch == "e2e" else 1.0
    return StatusRecord(
        case=session.case,
        reference=session.reference,
        experiments=len(session.experiments),
        kept=len(kept),
        e2e_ms=session.time_us(WHOLE) / 1e3,
        speedup=speedup,
        minutes_left=minutes_left(session, now) if now else None,
        luck=luck(session.experiments),
        rotation=rotation(session),
        ceilings=ceilings(session),
        plateau=is_plateau(session),
    )


def minutes_left(session: SessionRecord, now: datetime) -> float | None:
    """Return what is left of the budget; None where there is none."""
    if session.minutes is None:
        return None
    return max(0.0, session.minutes - (now - session.started_at).total_seconds() / 60)


def show_experiment(results: Path, number: int | None) -> ExperimentRecord:
    """Return an experiment, by default the last one. Raises UsageError where there is none of this number."""
    session = open_session(results)
    found = [one for one in session.experiments if number in (None, one.number)]
    if not found:
        last = len(session.experiments)
        raise UsageError(
            f"There is no experiment {number or ''}".rstrip() + ".", f"They are numbered 1 to {last}." if last else ""
        )
    return found[-1]


def handoff(results: Path) -> tuple[Path, str]:
    """Return where the handoff is, and its text."""
    return results / HANDOFF, handoff_text(session := open_session(results), status_of(session))


def show_status(results: Path) -> StatusRecord:
    """Return the status of the session now."""
    return status_of(open_session(results), datetime.now(UTC))


def _texts(session: SessionRecord) -> dict[str, str]:
    return {TABLE: table_text(session), HANDOFF: handoff_text(session, status_of(session))}
