"""The files of a tuning run: ``suggestions.md`` over all records of a folder, with a plot beside each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ratchet.errors import PageError, RecordError
from ratchet.records.files import load, save_text
from ratchet.records.tuning import TuningRecord
from ratchet.records.tuning_file import SUGGESTIONS
from ratchet.report.figures.convergence import draw_convergence
from ratchet.report.suggestions import headings, render_suggestions


def write_suggestions(changed: Path) -> list[Path]:
    """Write the report on every record of a folder, and draw that of ``changed``; returns the paths, the report's first.

    A record that cannot be read, and a picture that cannot be drawn, are named in it. Raises OutputError.
    """
    records, warnings = _records(changed.parent)
    record = dict(records).get(changed)
    drawn = []
    try:
        drawn = draw_convergence(record, changed.parent, changed.stem) if record else []
    except PageError as error:
        warnings.append(str(error))
        remove_pictures(changed)
    return [_written(changed.parent, records, warnings), *drawn]


def render_again(folder: Path) -> Path:
    """Write the report on every record of a folder, with the pictures that are there. Raises OutputError."""
    return _written(folder, *_records(folder))


def remove_pictures(path: Path) -> None:
    """Of the record that was in this place before: they show another search."""
    for kind in (".png", ".svg"):
        path.with_suffix(kind).unlink(missing_ok=True)


def _written(folder: Path, records: Sequence[tuple[Path, TuningRecord]], warnings: Sequence[str]) -> Path:
    only = [record for _, record in records]
    drawn = [path.with_suffix(".png") for path, _ in records]
    pictures = {heading: picture.name for heading, picture in zip(headings(only), drawn, strict=True) if picture.exists()}
    save_text(folder / SUGGESTIONS, render_suggestions(only, pictures, warnings))
    return folder / SUGGESTIONS


def _records(folder: Path) -> tuple[list[tuple[Path, TuningRecord]], list[str]]:
    found, warnings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append((path, load(path, TuningRecord)))
        except RecordError as error:
            warnings.append(f"{path.name} was left out: {error.message.replace(str(path), 'it')}")
    return found, warnings
