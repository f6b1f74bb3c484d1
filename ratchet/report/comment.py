"""`CommentPage` → the sticky comment under a pull request: the verdict first, then the worst, then the rest folded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ratchet.records import SLOWDOWNS, CaseVerdict, Outcome, ReportRecord
from ratchet.report import escape, profile, words
from ratchet.report.chart import chart_of_changes
from ratchet.report.comment_page import CommentPage, Conclusion, conclusion
from ratchet.report.escape import Markdown
from ratchet.report.markers import first_lines
from ratchet.report.pieces import Reason, is_plain, machine, reasons, reproduce, template, tree

LIMIT = 60_000
"""Bytes of UTF-8; GitHub takes 65,536 characters."""

Part = Literal["all", "summary", "text"]
_HARDWARE = {"Driver": "driver", "CUDA": "CUDA", "PyTorch": "PyTorch", "Triton": "Triton"}
"""Of `pieces.machine`: its label → the word in a sentence."""
_MARKS: dict[Conclusion, str] = {"success": "✅", "failure": "❌", "neutral": "⚠️", "action_required": "🟠"}


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


def render_comment(page: CommentPage, limit: int = LIMIT) -> str:
    """Markdown of at most ``limit`` bytes of UTF-8 (8,000 always suffice).

    What is dropped until it fits, in this order: the tables of figures under the profiler; of every list all but 60 cases, and
    of every log all but ten lines; all but 25 cases, and what the profiles show beyond one sentence a case; the logs, the
    chart, the machine, and all but ten cases; all but three; all. The verdict, the alerts, the counts and the links stay, and
    each list says how many it left out.
    """
    lines = first_lines(page.report_id, page.run_id, page.head_sha)
    return lines + render_part(page, "all", limit - len(lines.encode()))


def render_part(page: CommentPage, part: Part, limit: int = LIMIT) -> str:
    """The same without its markers: all of it, what stands open (``summary``), or what is folded away (``text``)."""
    text = ""
    for detail in _DETAILS:
        text = template("comment.md.j2").render(_content(page, part, detail))
        if len(text.encode()) <= limit:
            break
    return text


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
    nothing = dict.fromkeys(("regressed", "failed", "slower", "accepted", "improved", "open"), _Group(0, (), ()))
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
        "meanings": words.meanings(report),
        "compares": words.compares(report),
        "regressed": red,
        "failed": group(Outcome.FAILED),
        "accepted": group(*SLOWDOWNS, accepted=True),
        "accepted_as": Counter(case.outcome for case in listed if case.outcome in SLOWDOWNS and case.name in taken),
        "improved": improved,
        "slower": group(Outcome.SLOWER),
        "open": group(Outcome.UNFIT, Outcome.INCONCLUSIVE),
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
        found.append(f"**Stale:** the pull request is now at {now}; this report is about {escape.markdown(page.head_sha[:10])}.")
    if page.report and page.problem:
        found.append(str(escape.markdown(page.problem)))
    if page.log_url:
        found.append(f"Where to look: {escape.link(page.log_url, 'the job that publishes')}.")
    if page.edited_baseline:
        found.append(
            f"**This pull request edits the baseline file.** It was judged by the file of {base}; the baseline moves by itself "
            "after a merge, or by `/ratchet accept`."
        )
    if page.report and not page.rejudged:
        found.append("This verdict comes from the job that ran the code. No trusted job has judged the samples again.")
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
