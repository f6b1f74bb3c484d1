"""The files of a tuning run: ``suggestions.md`` over all records of a folder, with a plot beside each."""

from __future__ import annotations

from pathlib import Path

from ratchet.errors import PageError, RecordError
from ratchet.records.files import load, save_text
from ratchet.records.tuning import TuningRecord
from ratchet.report.figures.convergence import draw_convergence
from ratchet.report.suggestions import headings, render_suggestions

SUGGESTIONS = "suggestions.md"


def write_suggestions(changed: Path) -> list[Path]:
    """Write the report on every record of a folder, and draw that of ``changed``; returns the paths, the report's first.

    A record that cannot be read, and a picture that cannot be drawn, are named in it. Raises OutputError.
    """
    folder = changed.parent
    records, warnings = _records(folder)
    pictures, drawn = {}, []
    for (path, record), heading in zip(records, headings([record for _, record in records]), strict=True):
        if path == changed:
            try:
                drawn = draw_convergence(record, folder, path.stem)
            except PageError as error:
                warnings.append(str(error))
                continue
        picture = path.with_suffix(".png")
        if picture.exists():
            pictures[heading] = picture.name
    save_text(folder / SUGGESTIONS, render_suggestions([record for _, record in records], pictures, warnings))
    return [folder / SUGGESTIONS, *drawn]


def _records(folder: Path) -> tuple[list[tuple[Path, TuningRecord]], list[str]]:
    found, warnings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append((path, load(path, TuningRecord)))
        except RecordError as error:
            warnings.append(f"{path.name} was left out: {error.message.replace(str(path), 'it')}")
    return found, warnings
