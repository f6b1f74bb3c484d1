"""The files of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ratchet.errors import OutputError
from ratchet.pipeline.request import CURRENT, MARKDOWN, REPORT, Done
from ratchet.records.files import save, save_text
from ratchet.records.run import RunRecord
from ratchet.report.markdown import render_markdown

PAGE = "page.png"
SUMMARY_LIMIT = 1_000_000
"""Characters; GitHub takes 1 MiB of step summary."""


def write(done: Done, environ: Mapping[str, str]) -> list[Path]:
    """Write the run, the verdict and the Markdown report; returns their paths, the report first, and then those of profiles.

    Raises OutputError; the run is then kept in the temporary folder if there is room.
    """
    try:
        save(done.results / CURRENT, done.run)
        written = write_report(done)
    except OutputError as error:
        raise OutputError(error.message, f"{error.hint} {_rescued(done.run)}".strip()) from None
    _append_summary(done, environ)
    pages = [done.results / each.files[PAGE] for each in done.report.profiles if PAGE in each.files]
    return [*written, done.results / CURRENT, *pages]


def write_report(done: Done) -> list[Path]:
    """Write the Markdown report and the verdict; returns their paths."""
    paths = [done.results / MARKDOWN, done.results / REPORT]
    save_text(paths[0], render_markdown(done.report))
    save(paths[1], done.report)
    return paths


def _rescued(record: RunRecord) -> str:
    path = Path(tempfile.gettempdir()) / f"ratchet-run-{record.started_at:%Y%m%d-%H%M%S}.json"
    try:
        save(path, record)
    except OutputError:
        return "The run could not be kept anywhere else either."
    return f"The run was kept in {path}: `ratchet report {path}` shows it."


def _append_summary(done: Done, environ: Mapping[str, str]) -> None:
    place = environ.get("GITHUB_STEP_SUMMARY")
    if place:
        try:
            with Path(place).open("a", encoding="utf-8") as summary:
                summary.write(render_markdown(done.report, limit=SUMMARY_LIMIT))
        except OSError as error:
            raise OutputError(
                f"The step summary {place} cannot be written: {error.strerror}.",
                f"Unset GITHUB_STEP_SUMMARY, or free some space; the report is in {done.results / MARKDOWN}.",
            ) from None
