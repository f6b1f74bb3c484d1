"""A tuning record on disk while it grows: whole after every evaluation, so that a kill loses at most the one under way."""

from __future__ import annotations

from pathlib import Path

from ratchet.records.files import dumps, save_text
from ratchet.records.tuning import Evaluation, TuningRecord

_EMPTY = '\n  "evaluations": [],\n'
"""A string in JSON holds no line break, so these lines are in the file once."""


class TuningFile:
    """Writes one record again and again as `ratchet.records.files.save` does, but puts each evaluation into words only once.

    After some thousand evaluations on several GPUs, `save` alone would keep the GPUs waiting.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[Evaluation, ...] = ()
        self._texts: list[str] = []

    def save(self, record: TuningRecord) -> None:
        """Raises OutputError where the folder or the disk refuses."""
        save_text(self.path, self.text(record))

    def text(self, record: TuningRecord) -> str:
        """What `ratchet.records.files.dumps` makes of it."""
        frame = dumps(record.model_copy(update={"evaluations": ()}))
        if not record.evaluations:
            return frame
        count = len(self._known)
        if any(one is not other for one, other in zip(self._known, record.evaluations[:count], strict=True)):
            raise ValueError("a tuning record only grows")
        self._texts += [_text(each) for each in record.evaluations[count:]]
        self._known = record.evaluations
        before, after = frame.split(_EMPTY)
        evaluations = ",\n".join(self._texts)
        return f'{before}\n  "evaluations": [\n{evaluations}\n  ],\n{after}'


def _text(evaluation: Evaluation) -> str:
    """As it stands in the list of a record: four spaces in."""
    return "\n".join(f"    {line}" for line in dumps(evaluation).splitlines())
