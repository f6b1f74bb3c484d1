"""A tuning record on disk while it grows: whole after every evaluation, so that a kill loses at most the one under way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from ratchet.errors import OutputError
from ratchet.records.files import dumps, save_text
from ratchet.records.tuning import Evaluation, TuningRecord

TUNING_FOLDER = "tuning"
"""In the repository, unless another is asked for."""
SUGGESTIONS = "suggestions.md"
EARLIER = "earlier"
"""Folder within it for records in whose place a new one was begun. Nobody takes them for the record of a case."""
_KEYED = f"*.{'[0-9a-f]' * 10}"
"""Names as `ratchet.records.tuning.tuning_path` makes them."""
WRITTEN = (SUGGESTIONS, f"{EARLIER}/**", *(f"{_KEYED}.{kind}" for kind in ("json", "png", "svg")))
"""Globs of what a search leaves in the folder."""
_EMPTY = '\n  "evaluations": [],\n'
"""A string in JSON holds no line break, so these lines are in the file once."""


class TuningFile:
    """Writes one record again and again as `ratchet.records.files.save` does, but puts each evaluation into words only once.

    After some thousand evaluations on several GPUs, `save` alone would keep the GPUs waiting. A record that was begun anew takes
    the place of an earlier one with its first evaluation, and the earlier one is kept; a resumed record goes on in its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[Evaluation, ...] = ()
        self._texts: list[str] = []
        self._ours = False

    def save(self, record: TuningRecord) -> None:
        """Raises OutputError where the folder or the disk refuses."""
        anew = not self._ours and len(record.sessions) == 1 and self.path.is_file()
        if anew and not record.evaluations:
            return  # nothing was tried yet that would be worth more than what is there
        if anew:
            keep_earlier(self.path)
        save_text(self.path, self.text(record))
        self._ours = True

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


def keep_earlier(path: Path) -> Path:
    """Move a record to where it is in nobody's way: ``earlier/CASE.MACHINE.1.json``, with the first number that is free.

    Raises OutputError where that is refused.
    """
    target = next(each for each in _places(path) if not each.exists())
    try:
        target.parent.mkdir(exist_ok=True)
        return path.rename(target)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be moved to {target}: {error.strerror or error}.", "Move it away, or go on with it: --resume."
        ) from error


def kept_earlier(path: Path) -> Path | None:
    """What was kept last of the records that were in this place before; None where none was."""
    return next(reversed(list(itertools.takewhile(Path.exists, _places(path)))), None)


def _places(path: Path) -> Iterator[Path]:
    return (path.parent / EARLIER / f"{path.stem}.{number}{path.suffix}" for number in itertools.count(1))


def _text(evaluation: Evaluation) -> str:
    """As it stands in the list of a record: four spaces in."""
    return "\n".join(f"    {line}" for line in dumps(evaluation).splitlines())
