"""What `ratchet publish` leaves behind for people and for the steps that follow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ratchet.forge.actions import LARGEST_SUMMARY
from ratchet.pipeline.publishing import Published
from ratchet.pipeline.request import MARKDOWN, REPORT
from ratchet.records.files import save, save_text
from ratchet.records.verdict import Outcome
from ratchet.report.comment import render_comment
from ratchet.report.escape import log_line, markdown
from ratchet.report.markdown import render_markdown

_WORDS = {"pass": "passed", "regression": "regressed", "not measured": "unmeasured", "none": "unmeasured"}


def write_published(done: Published, environ: Mapping[str, str]) -> Path | None:
    """The verdict and the report as files of this job; the path of the Markdown, None where there is no verdict."""
    if done.report is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="ratchet-report-", dir=environ.get("RUNNER_TEMP")))
    save(folder / REPORT, done.report)
    save_text(folder / MARKDOWN, render_markdown(done.report))
    return folder / MARKDOWN


def outputs_of(done: Published, report_path: Path | None) -> dict[str, str]:
    """The step's outputs. ``regressions`` leaves out what was accepted."""
    accepted = {each.case for each in done.page.acceptances} if done.page else set()
    red = [name for name in done.names(Outcome.REGRESSED, Outcome.FAILED) if name not in accepted]
    return {
        "verdict": _WORDS.get(done.verdict, done.verdict),
        "regressions": str(len(red)),
        "improvements": str(len(done.names(Outcome.IMPROVED))),
        "report-path": str(report_path or ""),
        "comment-url": done.comment_url,
        "check-url": done.check_url,
    }


def lines_of(done: Published) -> Iterator[str]:
    """What the log says: one line of text each, and no command to the runner."""
    if done.subject.ended:
        yield log_line(done.subject.why)
    elif done.page:
        yield log_line(done.report.headline if done.report else f"No verdict: {done.page.problem}")
    yield from (log_line(note) for note in done.notes)
    yield from (f"{label} {url}" for label, url in (("Check run:", done.check_url), ("Comment:", done.comment_url)) if url)


def summary_of(done: Published) -> str:
    """The step's summary: the comment, with room for more detail, or the sentence why there is none."""
    return render_comment(done.page, LARGEST_SUMMARY) if done.page else f"{markdown(done.subject.why)}\n"
