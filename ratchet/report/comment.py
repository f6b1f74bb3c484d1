"""The comment under a pull request: the verdict first, then the worst cases, then the rest folded away.

`ratchet.commands.github` fills a `CommentPage`, renders it here, and finds earlier comments by their first two lines. The check
run and its annotations come from the same page (`ratchet.report.check_run`). Pure, apart from reading this package's templates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ratchet import untrusted
from ratchet.errors import UsageError
from ratchet.judge.github.state import Conclusion, Gap, state_of
from ratchet.records import SLOWDOWNS, CaseVerdict, Outcome, ReportRecord
from ratchet.records.acceptance import Acceptance
from ratchet.report import profile, words
from ratchet.report.markdown import Detail, Reason, fitted, is_plain, machine, reasons, shared_content, template, tree
from ratchet.untrusted import Markdown


@dataclass(frozen=True)
class CommentPage:
    """Everything that a comment and a check run say."""

    report: ReportRecord | None
    """Judged in the trusted job; None where there is no verdict."""
    repository: str
    """OWNER/NAME."""
    head_sha: str
    """The commit that the run measured."""
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
    """Acceptances that cover a slowdown of this report; `ratchet.judge.github.acceptance.with_acceptances` has applied them."""
    artifact_url: str | None = None
    log_url: str | None = None
    """Address of the publishing job, where its log is what to read next."""
    report_id: str = "default"
    gaps: tuple[Gap, ...] = ()
    """Why this run is no pass; `ratchet.judge.github.state.with_gaps` has put them into the report."""
    rejudged: bool = True
    """Judged again from the raw samples, by thresholds and baseline of ``base_ref``."""
    rules: str = ""
    """The thresholds in words, and the file and the commit that they and the baseline come from."""
    notes: tuple[str, ...] = ()
    """Further sentences beside the verdict: parts of the artifact that were left out, and why."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Benchmark → its file in the repository, where it is known; annotations point there."""


def conclusion(page: CommentPage) -> Conclusion:
    """Return the conclusion of the check run; docs/github.md has a table of all states."""
    return state_of(page.report, {acceptance.case for acceptance in page.acceptances}, page.gaps).conclusion


LIMIT = 60_000
"""Bytes of UTF-8; GitHub accepts 65,536 characters."""

Part = Literal["all", "summary", "text"]
_HARDWARE = {"Driver": "driver", "CUDA": "CUDA", "PyTorch": "PyTorch", "Triton": "Triton"}
"""Label of `machine` → its name in a sentence."""
_MARKS: dict[Conclusion, str] = {"success": "✅", "failure": "❌", "neutral": "⚠️", "action_required": "🟠"}


@dataclass(frozen=True)
class _Group:
    """Cases under one heading: how many there are, and those that are shown."""

    all: int
    shown: Sequence[CaseVerdict]
    reasons: Sequence[Reason]

    @property
    def hidden(self) -> int:
        return self.all - len(self.shown)


def render_comment(page: CommentPage, limit: int = LIMIT) -> str:
    """Markdown of at most ``limit`` bytes of UTF-8 (8,000 always suffice).

    `ratchet.report.markdown` defines what is dropped until it fits. The verdict, the alerts, the counts and the links stay,
    and each list says how many it left out.
    """
    lines = first_lines(page.report_id, page.run_id, page.head_sha)
    return lines + render_part(page, "all", limit - len(lines.encode()))


def render_part(page: CommentPage, part: Part, limit: int = LIMIT) -> str:
    """Return the comment without its markers: all of it, only its open part (``summary``), or only its folded part (``text``)."""
    return fitted(lambda detail: template("comment.md.j2").render(_content(page, part, detail)), limit)


def _content(page: CommentPage, part: Part, detail: Detail) -> dict[str, Any]:
    report = page.report
    common = {
        "page": page,
        "part": part,
        "detail": detail,
        "report": report,
        "mark": _MARKS[conclusion(page)] if report else "⚠️",
        "headline": report.headline if report else f"No verdict: {page.problem or 'nothing was measured.'}",
        "alerts": _alerts(page),
        "commit": _commit(page),
        "run": untrusted.link(page.run_url, str(page.run_id)),
        "artifacts": _artifacts(page),
        "warnings": (*page.notes, *(report.warnings if report else ()))[: detail.cases],
        "words": words.WORDS,
        "profiles": (),
    }
    nothing = dict.fromkeys(("regressed", "failed", "slower", "accepted", "improved", "open"), _Group(0, (), ()))
    return common | (_cases(page, report, detail) if report else nothing)


def _cases(page: CommentPage, report: ReportRecord, detail: Detail) -> dict[str, Any]:
    """Return content that depends on the cases, worst first."""
    listed = words.worst_first(report)
    taken = {acceptance.case: acceptance for acceptance in page.acceptances}

    def group(*outcomes: Outcome, accepted: bool = False) -> _Group:
        own = [case for case in listed if case.outcome in outcomes and (case.name in taken) == accepted]
        return _Group(len(own), own[: detail.cases], reasons(report, own[: detail.cases]))

    red, improved = group(Outcome.REGRESSED), group(Outcome.IMPROVED)
    every = listed[: detail.cases]
    worst = [case.name for case in listed if is_plain(case.name)]
    parts = machine(report.environment.fingerprint)
    hardware = [str(parts["Device"]), *(f"{word} {parts[label]}" for label, word in _HARDWARE.items() if label in parts)]
    return shared_content(report, detail, listed) | {
        "total": len(listed),
        "regressed": red,
        "failed": group(Outcome.FAILED),
        "accepted": group(*SLOWDOWNS, accepted=True),
        "accepted_as": Counter(case.outcome for case in listed if case.outcome in SLOWDOWNS and case.name in taken),
        "improved": improved,
        "slower": group(Outcome.SLOWER),
        "open": group(Outcome.UNFIT, Outcome.INCONCLUSIVE),
        "every": _Group(len(listed), every, reasons(report, [case for case in every if case.outcome not in _EXPLAINED])),
        "cases": every,
        "taken": taken,
        "regressed_because": _because(red, report),
        "improved_because": _because(improved, report),
        "hardware": ", ".join(hardware),
        "profiled": tuple(profile.case for profile in report.profiles),
        "place": "artifact",
        "chart": chart_of_changes(listed) if detail.machine else None,
        "example": Markdown(worst[0] if worst else "CASE"),
    }


_EXPLAINED = (Outcome.FAILED, Outcome.REGRESSED, Outcome.IMPROVED, *words.NO_ANSWER)
"""Outcomes whose reasons are already above the table of all cases."""


def _because(group: _Group, report: ReportRecord) -> dict[str, str]:
    """Return text for each case that has some: the cause that its profile shows, else its reason if it has a best commit.

    A host-bound case says so after that.
    """
    causes = {of_case.case: profile.first_sentence(of_case) for of_case in report.profiles}
    texts = {
        case.name: " ".join(filter(None, (causes.get(case.name) or (case.reason if case.best else ""), case.host_bound)))
        for case in group.shown
    }
    return {name: text for name, text in texts.items() if text}


def _alerts(page: CommentPage) -> list[Markdown]:
    """Return sentences that a reader must know before believing the verdict."""
    alerts = []
    base = untrusted.name(page.base_ref)
    if page.stale_for:
        now = untrusted.markdown(page.stale_for[:10])
        alerts.append(
            f"**Stale:** the pull request is now at {now}; this report is about {untrusted.markdown(page.head_sha[:10])}."
        )
    if page.report and page.problem:
        alerts.append(str(untrusted.markdown(page.problem)))
    if page.log_url:
        alerts.append(f"Where to look: {untrusted.link(page.log_url, 'the publishing job')}.")
    if page.edited_baseline:
        alerts.append(
            f"**This pull request edits the baseline file.** It was judged by the file of {base}; the baseline moves by itself "
            "after a merge, or by `/ratchet accept`."
        )
    if page.report and not page.rejudged:
        alerts.append("This verdict comes from the job that ran the code. No trusted job has judged the samples again.")
    return [Markdown(alert) for alert in alerts]


def _commit(page: CommentPage) -> Markdown:
    """Return the head as GitHub knows it, the tree that was measured for it, and the reference."""
    head = untrusted.markdown(page.head_sha[:10])
    report = page.report
    if report is None:
        return head
    against = f" against {tree(report.reference)}" if report.reference else ""
    against += f", {words.BENCH_FROM_HEAD}" if report.bench_from else ""
    if report.head.commit == page.head_sha:
        return Markdown(f"{tree(report.head)}{against}")
    return Markdown(f"{head}, measured as {tree(report.head)}{against}")


def _artifacts(page: CommentPage) -> Markdown | None:
    if page.artifact_url is None:
        return None
    return Markdown(f"Samples, profiler reports and pictures: {untrusted.link(page.artifact_url, 'artifacts of the run')}")


# The first two lines of a comment: ratchet finds its comment by the first, and the second names the run and the commit.


MARKER = "<!-- ratchet:report:{id} -->"
"""The first line, with the id of the report."""
_RUN = "<!-- ratchet:run:{run_id}:{sha} -->"
_RUN_READ = re.compile(r"<!-- ratchet:run:([1-9][0-9]{0,18}):([0-9a-f]{40}(?:[0-9a-f]{24})?) -->")
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def marker(report_id: str) -> str:
    """Return the first line of a comment. Raises UsageError for an id that is not a plain word."""
    if not _ID.fullmatch(report_id):
        raise UsageError("The id of a report holds letters, digits, _ . and - only, at most 64.", "Choose another id.")
    return MARKER.format(id=report_id)


def first_lines(report_id: str, run_id: int, head_sha: str) -> str:
    """Return both lines, each with its line end. Raises UsageError for an id that is not a plain word."""
    return f"{marker(report_id)}\n{_RUN.format(run_id=run_id, sha=head_sha)}\n"


def run_id_of(body: str) -> int | None:
    """Return the run that one of our comments is about; None for any other text."""
    match = _second_line(body)
    return int(match[1]) if match else None


def sha_of(body: str) -> str | None:
    """Return the head that one of our comments is about; None for any other text."""
    match = _second_line(body)
    return match[2] if match else None


def _second_line(body: str) -> re.Match[str] | None:
    lines = body.replace("\r\n", "\n").split("\n", 2)
    return _RUN_READ.fullmatch(lines[1]) if len(lines) > 1 and lines[0].startswith("<!-- ratchet:report:") else None


# Changes as bars of text. Not Mermaid: its bars grow from the end of the axis, so beside +5 % the bar of −12 % is the shortest.


MOST_BARS = 20
LONGEST_LABEL = 32
HALVES = 48
"""Length of the longest bar in half characters."""


def chart_of_changes(cases: Sequence[CaseVerdict]) -> Markdown | None:
    """Draw the first cases that were compared, a line each: name, change, and a bar to the right where it is slower.

    None where fewer than two were compared: a chart of one bar says less than its number.
    """
    shown = [(case, case.comparison) for case in cases if case.comparison][:MOST_BARS]
    if len(shown) < 2:
        return None
    changes = [comparison.ratio - 1 for _, comparison in shown]
    most = max(map(abs, changes)) or 1.0
    labels = [_label(case.name, place) for place, (case, _) in enumerate(shown, 1)]
    texts = [words.change(comparison) for _, comparison in shown]
    wide, wider = max(map(len, labels)), max(map(len, texts))
    left = (max(_halves(-change, most) for change in changes) + 1) // 2
    lines = [
        f"{label:<{wide}}  {text:>{wider}}  {_bar(change, most, left)}".rstrip()
        for label, text, change in zip(labels, texts, changes, strict=True)
    ]
    return untrusted.fenced(lines)


def _bar(change: float, most: float, left: int) -> str:
    faster, slower = _halves(-change, most), _halves(change, most)
    to_left = f"{'▐' * (faster % 2)}{'█' * (faster // 2)}"
    return f"{to_left:>{left}}│{'█' * (slower // 2)}{'▌' * (slower % 2)}"


def _halves(change: float, most: float) -> int:
    return max(0, round(HALVES * change / most))


def _label(name: str, place: int) -> str:
    """Shorten a long name to its end, which is its config and says most; replace a name that is not plain by a number."""
    if not is_plain(name):
        return f"case {place}"
    return name if len(name) <= LONGEST_LABEL else f"…{name[1 - LONGEST_LABEL :]}"
