"""Records that two tools write: `explain` in an advice, `lab` in the session of an experiment. Pure."""

from __future__ import annotations

from ratchet.core.records import Record


class ChecklistAnswer(Record):
    """One of the ten questions that come before a change, and what a trace of the case answers."""

    question: str
    answer: str
    from_data: bool
