"""`CommentPage` → the sticky comment under a pull request: the verdict first, then the worst, then the rest folded away."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ratchet.errors import UsageError
from ratchet.records import CaseVerdict, Outcome, ReportRecord
from ratchet.records.acceptance import Acceptance
from ratchet.report import escape, profile, words
from ratchet.report.chart import chart_of_changes
from ratchet.report.escape import Markdown
from ratchet.report.pieces import Reason, is_plain, machine, reasons, reproduce, template, tree

MARKER = "<!-- ratchet:report:{id} -->"
"""The first line of our comment, with the report's id: by it the comment is found again."""
LIMIT = 60_000
"""Bytes of UTF-8; GitHub takes 65,536 characters."""

Conclusion = Literal["success", "failure", "neutral"]
Part = Literal["all", "summary", "text"]
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_RUN = re.compile(r"<!-- ratchet:run:([1-9][0-9]{0,18}):([0-9a-f]{40}(?:[0-9a-f]{24})?) -->")
_HARDWARE = {"Driver": "driver", "CUDA": "CUDA", "PyTorch": "PyTorch", "Triton": "Triton"}
"""Of `pieces.machine`: its label → the word in a sentence."""
_HELD = (Outcome.UNCHANGED, Outcome.IMPROVED, Outcome.IDENTICAL)
"""Outcomes of cases that were compared and are no slower."""
_MARKS: dict[Conclusion, str] = {"success": "✅", "failure": "❌", "neutral": "⚠️"}


@dataclass(frozen=True)
class CommentPage:
    """All that a comment and a check run say."""

    report: ReportRecord | None
    """Judged in the trusted job; None where there is no verdict."""
    repository: str
    """OWNER/NAME."""
    head_sha: str
    """What the run measured."""
    base_ref: str
    run_url: str
    run_id: int
    problem: str = ""
    """One sentence: why there is no verdict; beside a verdict, what is missing from it."""
    stale_for: str | None = None
    """Hash of the pull request's head, where it is another one by now."""
    edited_baseline: bool = False
    """The pull request changes the baseline file."""
    acceptances: tuple[Acceptance, ...] = ()
    """Those that took a regression of this report (`ratchet.judge.acceptance.with_acceptances` gave the report)."""
    artifact_url: str | None = None
    report_id: str = "default"
    rejudged: bool = True
    """Judged again from the raw samples, by thresholds and baseline of ``base_ref``."""
    notes: tuple[str, ...] = ()
    """Further sentences beside the verdict: parts of the artifact that were left out, and why."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Benchmark → its file in the repository, where it is known; annotations point there."""


@dataclass(frozen=True)
class Detail:
    """How much is shown where the length is limited."""

    cases: int
    """Rows of each table, reasons and warnings: so many of each."""
    log_lines: int
    counters: bool = True
    """The tables of figures under the profiler."""
    findings: bool = True
    """The causes that the profiles show, with what to try."""
    chart: bool = True
    machine: bool = True
    """Machine, plan and how to read it."""


_DETAILS = (
    Detail(200, 20),
    Detail(200, 20, counters=False),
    Detail(60, 10, counters=False),
    Detail(25, 5, counters=False, findings=False),
    Detail(10, 0, counters=False, findings=False, chart=False, machine=False),
    Detail(3, 0, counters=False, findings=False, chart=False, machine=False),
    Detail(0, 0, counters=False, findings=False, chart=False, machine=False),
)


@dataclass(frozen=True)
class _Group:
    """Cases that stand together: how many there are, and those that are shown."""

    all: int
    shown: Sequence[CaseVerdict]
    reasons: Sequence[Reason]

    @property
    def hidden(self) -> int:
        return self.all - len(self.shown)


def marker(report_id: str) -> str:
    """The first line of a comment. Raises UsageError for an id that is no plain word."""
    if not _ID.fullmatch(report_id):
        raise UsageError("The id of a report holds letters, digits, _ . and - only, at most 64.", "Choose another id.")
    return MARKER.format(id=report_id)


def render_comment(page: CommentPage, limit: int = LIMIT) -> str:
    """Markdown of at most ``limit`` bytes of UTF-8 (8,000 always suffice).

    What is dropped until it fits, in this order: the tables of figures under the profiler; of every list all but 60 cases, and
    of every log all but ten lines; all but 25 cases, and what the profiles show beyond one sentence a case; the logs, the
    chart, the machine, and all but ten cases; all but three; all. The verdict, the alerts, the counts and the links stay, and
    each list says how many it left out.
    """
    lines = f"{marker(page.report_id)}\n<!-- ratchet:run:{page.run_id}:{page.head_sha} -->\n"
    return lines + render_part(page, "all", limit - len(lines.encode()))


def render_part(page: CommentPage, part: Part, limit: int = LIMIT) -> str:
    """The same without its markers: all of it, what stands open (``summary``), or what is folded away (``text``)."""
    text = ""
    for detail in _DETAILS:
        text = template("comment.md.j2").render(_content(page, part, detail))
        if len(text.encode()) <= limit:
            break
    return text


def conclusion(page: CommentPage) -> Conclusion:
    """Red for a regression, a wrong result, and a run that handed over nothing to judge; green only where something was compared
    and everything that was is no slower, or accepted; otherwise neutral, since noise is no fault of the change.
    """
    report = page.report
    if report is None or not report.cases:
        return "failure"
    if report.verdict == "regression":
        return "failure"
    outcomes = [case.outcome for case in report.cases]
    answered = not any(outcome in words.NO_ANSWER for outcome in outcomes)
    compared = page.acceptances or any(outcome in _HELD for outcome in outcomes)
    return "success" if report.verdict == "pass" and answered and compared else "neutral"


def run_id_of(body: str) -> int | None:
    """The run that one of our comments is about; None for any other text."""
    found = _second_line(body)
    return int(found[1]) if found else None


def sha_of(body: str) -> str | None:
    """The head that one of our comments is about; None for any other text."""
    found = _second_line(body)
    return found[2] if found else None


def _second_line(body: str) -> re.Match[str] | None:
    lines = body.replace("\r\n", "\n").split("\n", 2)
    return _RUN.fullmatch(lines[1]) if len(lines) > 1 and lines[0].startswith("<!-- ratchet:report:") else None


def _content(page: CommentPage, part: Part, detail: Detail) -> dict[str, Any]:
    report = page.report
    shared = {
        "page": page,
        "part": part,
        "detail": detail,
        "report": report,
        "mark": _MARKS[conclusion(page)] if report else "⚠️",
        "headline": report.headline if report else f"No verdict: {page.problem or 'nothing was measured.'}",
        "alerts": _alerts(page),
        "commit": _commit(page),
        "run": escape.link(page.run_url, str(page.run_id)),
        "artifacts": _artifacts(page),
        "warnings": (*page.notes, *(report.warnings if report else ()))[: detail.cases],
        "words": words.WORDS,
        "profiles": (),
    }
    nothing = dict.fromkeys(("regressed", "failed", "accepted", "improved", "open"), _Group(0, (), ()))
    return shared | (_cases(page, report, detail) if report else nothing)


def _cases(page: CommentPage, report: ReportRecord, detail: Detail) -> dict[str, Any]:
    """What depends on the cases, worst first."""
    listed = words.worst_first(report)
    taken = {each.case: each for each in page.acceptances}

    def group(*outcomes: Outcome, accepted: bool = False) -> _Group:
        own = [case for case in listed if case.outcome in outcomes and (case.name in taken) == accepted]
        return _Group(len(own), own[: detail.cases], reasons(report, own[: detail.cases]))

    red, improved = group(Outcome.REGRESSED), group(Outcome.IMPROVED)
    every = listed[: detail.cases]
    profiles = report.profiles[: detail.cases]
    worst = [case.name for case in listed if is_plain(case.name)]
    return {
        "total": len(listed),
        "counted": words.counted(report),
        "compares": words.compares(report),
        "regressed": red,
        "failed": group(Outcome.FAILED),
        "accepted": group(Outcome.REGRESSED, accepted=True),
        "improved": improved,
        "open": group(*words.NO_ANSWER),
        "every": _Group(len(listed), every, reasons(report, [case for case in every if case.outcome not in _TOLD])),
        "taken": taken,
        "regressed_because": _because(red, report),
        "improved_because": _because(improved, report),
        "hardware": _hardware(report),
        "profiles": profiles,
        "profiled": tuple(each.case for each in report.profiles),
        "unprofiled": report.unprofiled[: detail.cases],
        "place": "artifact",
        "tables": profile.tables if detail.counters else lambda _: (),
        "chart": chart_of_changes(listed) if detail.chart else None,
        "failures": [case for case in every if case.last_lines] if detail.log_lines else [],
        "stored": any(case.comparison and case.comparison.source != "paired" for case in every),
        "dropped": [case for case in every if case.dropped_blocks],
        "machine": machine(report.environment.fingerprint),
        "reproduce": reproduce(report, listed) if detail.cases else None,
        "example": Markdown(worst[0] if worst else "CASE"),
    }


_TOLD = (Outcome.FAILED, Outcome.REGRESSED, Outcome.IMPROVED, *words.NO_ANSWER)
"""Their reasons stand above the table of all cases already."""


def _because(group: _Group, report: ReportRecord) -> dict[str, str]:
    """One sentence for each case that has more to say than its row: the cause that its profile shows, or what it was held to."""
    causes = {each.case: profile.first_sentence(each) for each in report.profiles}
    told = {case.name: causes.get(case.name) or (case.reason if case.best else "") for case in group.shown}
    return {name: text for name, text in told.items() if text}


def _alerts(page: CommentPage) -> list[Markdown]:
    """What a reader must know before believing the verdict."""
    found = []
    base = escape.name(page.base_ref)
    if page.stale_for:
        now = escape.markdown(page.stale_for[:10])
        found.append(f"**Stale:** the pull request is at {now} by now; this is of {escape.markdown(page.head_sha[:10])}.")
    if page.report and page.problem:
        found.append(str(escape.markdown(page.problem)))
    if page.edited_baseline:
        found.append(
            f"**This pull request edits the baseline file.** It was judged by the file of {base}; the baseline moves by itself "
            "after a merge, or by `/ratchet accept`."
        )
    if page.report and not page.rejudged:
        found.append("This is what the job that ran the code says; it was not judged again.")
    return [Markdown(each) for each in found]


def _commit(page: CommentPage) -> Markdown:
    """The head as GitHub knows it, with what was measured of it and against what."""
    head = escape.markdown(page.head_sha[:10])
    report = page.report
    if report is None:
        return head
    against = f" against {tree(report.reference)}" if report.reference else ""
    if report.head.commit == page.head_sha:
        return Markdown(f"{tree(report.head)}{against}")
    return Markdown(f"{head}, measured as {tree(report.head)}{against}")


def _hardware(report: ReportRecord) -> str:
    parts = machine(report.environment.fingerprint)
    return ", ".join([str(parts["Device"]), *(f"{word} {parts[label]}" for label, word in _HARDWARE.items() if label in parts)])


def _artifacts(page: CommentPage) -> Markdown | None:
    if page.artifact_url is None:
        return None
    return Markdown(f"Samples, reports of the profiler and pictures: {escape.link(page.artifact_url, 'artifacts of the run')}")
