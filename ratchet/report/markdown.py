"""`ReportRecord` → the Markdown of ``results/ratchet_report.md`` and of the step summary."""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.records import CaseVerdict, Outcome, ReportRecord
from ratchet.report import profile, words
from ratchet.report.pieces import machine, reasons, reproduce, template

_NAMED = 3


@dataclass(frozen=True)
class Detail:
    """How much of a report is shown where the length is limited."""

    cases: int
    """Cases, warnings and skipped cases: so many of each."""
    log_lines: int
    figures: bool = True
    """The table of throughput, the stages, and the figures of profiles."""


_DETAILS = (
    Detail(10**9, 20),
    Detail(150, 10),
    Detail(60, 8),
    Detail(30, 5, figures=False),
    Detail(8, 0, figures=False),
    Detail(0, 0, figures=False),
)


def render_markdown(report: ReportRecord, *, limit: int | None = None) -> str:
    """The whole report, or with ``limit`` as much of it as fits into so many characters: the worst cases stay.

    Every text that code under test may have written is escaped. GitHub takes 65,536 characters in a comment.
    """
    text = ""
    for detail in _DETAILS:
        text = _render(report, detail)
        if limit is None or len(text) <= limit:
            break
    return text


def _render(report: ReportRecord, detail: Detail) -> str:
    listed = words.worst_first(report)
    timed = [case for case in listed if case.outcome is not Outcome.SKIPPED]
    shown = timed[: detail.cases]
    red = _red_unnamed(report, timed)
    return template("report.md.j2").render(
        report=report,
        compares=words.compares(report),
        mark=words.mark(report),
        named=red[:_NAMED],
        unnamed=len(red[_NAMED:]),
        counted=words.counted(report),
        meanings=words.meanings(report),
        words=words.WORDS,
        cases=[case for case in shown if case.head or case.reference or words.compares(report)],
        hidden=len(timed) - len(shown),
        stored=any(case.comparison and case.comparison.source != "paired" for case in shown),
        reasons=reasons(report, shown),
        failures=[case for case in shown if case.last_lines] if detail.log_lines else [],
        log_lines=detail.log_lines,
        figures=[case for case in shown if case.head] if detail.figures else [],
        roofs=any(words.roof(case.head) != words.NOTHING for case in shown),
        roof_notes=words.roof_notes(shown),
        staged=[case for case in shown if case.head and case.head.stages_ms] if detail.figures else [],
        profiles=report.profiles[: detail.cases],
        unprofiled=report.unprofiled[: detail.cases],
        place="results folder",
        tables=profile.tables if detail.figures else lambda _: (),
        skipped=[case for case in listed if case.outcome is Outcome.SKIPPED][: detail.cases],
        dropped=[case for case in shown if case.dropped_blocks],
        warnings=report.warnings[: detail.cases],
        machine=machine(report.environment.fingerprint),
        reproduce=reproduce(report, timed),
    )


def _red_unnamed(report: ReportRecord, listed: list[CaseVerdict]) -> list[CaseVerdict]:
    """The cases that make a check red, slowest first, for a headline that does not name any of them."""
    red = [case for outcome in (Outcome.REGRESSED, Outcome.FAILED) for case in listed if case.outcome is outcome]
    return [] if any(case.name in report.headline for case in red) else red
