"""The comment under a pull request: the verdict in one sentence, what changed, what to do, the facts; the rest is folded away.

It is read on a phone first: open tables have three columns whose cells break, and nothing else is wider than its text.

`ratchet.github` fills a `CommentPage`, renders it here, and finds earlier comments by their first two lines. The check
run and its annotations come from the same page (`ratchet.github.check_run`). Pure, apart from reading this package's templates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from ratchet import tools
from ratchet.core import units, untrusted
from ratchet.core.errors import UsageError
from ratchet.core.records.verdict import SLOWDOWNS, CaseVerdict, Outcome, ReportRecord
from ratchet.core.report import words
from ratchet.core.report.markdown import Detail, Reason, fitted, is_plain, machine, reasons, shared_content, template, tree
from ratchet.core.untrusted import Markdown
from ratchet.github.event import MOST_CASES, is_case
from ratchet.github.records import Acceptance, Change, Conclusion
from ratchet.github.state import Gap, PublishedState, state_of


@dataclass(frozen=True)
class MeasuredRun:
    """The workflow run that a page is about."""

    repository: str
    """OWNER/NAME."""
    head_sha: str
    """The commit that the run measured."""
    base_ref: str
    url: str
    id: int
    merge_base: str = ""
    """The commit where the head left ``base_ref``: the verdict is about both. Empty without a pull request."""
    report_id: str = "default"
    stale_for: str | None = None
    """Hash of the pull request's head, where it is another one by now."""


@dataclass(frozen=True)
class CommentPage:
    """Everything that a comment and a check run say."""

    report: ReportRecord | None
    """Judged in the trusted job; None where there is no verdict."""
    run: MeasuredRun
    problem: str = ""
    """One sentence: why there is no verdict; beside a verdict, what is missing from it."""
    changes: tuple[Change, ...] = ()
    """What the pull request changes of the way in which it was measured."""
    acceptances: tuple[Acceptance, ...] = ()
    """Acceptances that cover a slowdown of this report; `ratchet.github.state.with_acceptances` has applied them."""
    log_url: str | None = None
    """Address of the publishing job, where its log is what to read next."""
    gaps: tuple[Gap, ...] = ()
    """Why this run is no pass; `ratchet.github.state.with_gaps` has put them into the report."""
    rules: str = ""
    """The thresholds in words, and the file and the commit that they and the baseline come from."""
    notes: tuple[str, ...] = ()
    """Further sentences beside the verdict: parts of the artifact that were left out, and why."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Benchmark → its file in the repository, where it is known; annotations point there."""
    model: str = ""
    """The GPU model that all this is about, where the pull request was measured on several."""
    models: Mapping[str, CommentPage] = field(default_factory=dict)
    """All models, where there are several."""

    @property
    def state(self) -> PublishedState:
        """How the run ends; docs/github.md lists all states."""
        return state_of(self.report, {acceptance.case for acceptance in self.acceptances}, self.gaps)


LIMIT = 60_000
"""Bytes of UTF-8; GitHub accepts 65,536 characters."""

Part = Literal["all", "summary", "text"]
_HARDWARE = {"Driver": "driver", "CUDA": "CUDA", "PyTorch": "PyTorch", "Triton": "Triton"}
"""Label of `machine` → its name in a sentence."""
_NOT_LISTED = (Outcome.IDENTICAL, Outcome.SKIPPED)
"""Outcomes whose cases have no row in the table of all cases, but one line together."""
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

    `ratchet.core.report.markdown` defines what is dropped until it fits. The verdict, the alerts, the counts and the links stay,
    and each list says how many it left out.
    """
    lines = f"{marker(page.run.report_id)}\n{_RUN.format(run_id=page.run.id, sha=page.run.head_sha)}\n"
    last = _failed_line(page.report) if page.report else ""
    return lines + render_part(page, "all", limit - len((lines + last).encode())) + last


def render_part(page: CommentPage, part: Part, limit: int = LIMIT) -> str:
    """Return the comment without its markers: all of it, only its open part (``summary``), or only its folded part (``text``)."""
    return fitted(lambda detail: template("github/comment.md.j2").render(_content(page, part, detail)), limit)


def _content(page: CommentPage, part: Part, detail: Detail) -> dict[str, Any]:
    report, rows = page.report, _rows(page)
    shared = f", {words.BENCH_FROM_HEAD}" if report and report.bench_from else ""
    common = {
        "page": page,
        "part": part,
        "detail": detail,
        "report": report,
        "page_mark": _MARKS[page.state.conclusion],
        "headline": _headline(report) if report else f"No verdict: {page.problem or 'nothing was measured.'}",
        "alerts": _alerts(page),
        "head": _head(page),
        "reference": Markdown(f"{tree(report.reference)}{shared}") if report and report.reference else None,
        "run": untrusted.link(page.run.url, str(page.run.id)),
        "files": untrusted.link(f"{page.run.url}#artifacts", "samples, profiler reports and pictures") if report else None,
        "columns": {name: _MARKS[of_model.state.conclusion] for name, of_model in page.models.items()},
        "rows": rows[: detail.cases],
        "rows_hidden": len(rows[detail.cases :]),
        "warnings": (*page.notes, *(report.warnings if report else ()))[: detail.cases],
        "words": words.WORDS,
        "profiles": (),
    }
    nothing = dict.fromkeys(("regressed", "failed", "slower", "accepted", "improved", "open"), _Group(0, (), ()))
    return common | (_cases(page, report, detail) if report else nothing)


def _rows(page: CommentPage) -> list[tuple[str, ...]]:
    """Return each case that was timed on some model, with its change on every model; the slowest first."""
    found = [{case.name: case for case in of_model.report.cases} if of_model.report else {} for of_model in page.models.values()]

    def slowest(name: str) -> float:
        compared = [cases[name].comparison for cases in found if name in cases]
        return max((comparison.ratio for comparison in compared if comparison), default=0.0)

    timed = dict.fromkeys(name for cases in found for name, case in cases.items() if case.outcome not in _NOT_LISTED)
    names = sorted(timed, key=slowest, reverse=True)
    return [(name, *(_cell(cases.get(name)) for cases in found)) for name in names]


def _cell(case: CaseVerdict | None) -> str:
    """Return how a case ended on one model: ``❌ +5.2 %``, or its outcome in a word where nothing was compared."""
    if case is None:
        return words.NOTHING
    word = words.word(case)
    return f"{word.mark} {short_change(case) if case.comparison else word.text}"


def short_change(case: CaseVerdict) -> str:
    """Return the change that made the outcome, for a sentence: ``+119 % (2.2×)``; with a star for a stored reference."""
    ratio = case.changed_ratio or (case.comparison.ratio if case.comparison else None)
    if ratio is None:
        return words.NOTHING
    return units.slowdown(ratio) + ("*" if case.comparison and not case.comparison.is_paired else "")


def _headline(report: ReportRecord) -> str:
    """Return the headline without its full stop, and without the reason of a case, which stands below."""
    headline: str = tools.part("profile_text").headline(report)
    reason = next((case.reason for case in report.cases if case.reason and headline.endswith(f". {case.reason}")), "")
    return headline.removesuffix(reason).rstrip(" .")


def _cases(page: CommentPage, report: ReportRecord, detail: Detail) -> dict[str, Any]:
    """Return content that depends on the cases, worst first."""
    listed = words.worst_first(report)
    taken = {acceptance.case: acceptance for acceptance in page.acceptances}

    def group(*outcomes: Outcome, accepted: bool = False) -> _Group:
        own = [case for case in listed if case.outcome in outcomes and (case.name in taken) == accepted]
        return _Group(len(own), own[: detail.cases], reasons(report, own[: detail.cases]))

    red, slower, improved = group(Outcome.REGRESSED), group(Outcome.SLOWER), group(Outcome.IMPROVED)
    listed_alone = [case for case in listed if case.outcome not in _NOT_LISTED]
    every = listed_alone[: detail.cases]
    changed = [case for case in (*red.shown, *slower.shown, *improved.shown) if is_plain(case.name) and is_case(case.name)]
    to_accept = [Markdown(case.name) for case in changed if case.outcome in SLOWDOWNS]
    parts = machine(report.environment.fingerprint)
    hardware = [str(parts["Device"]), *(f"{word} {parts[label]}" for label, word in _HARDWARE.items() if label in parts)]
    profiled = {profile.case for profile in report.profiles}
    return shared_content(report, detail, listed) | {
        "total": len(listed),
        "regressed": red,
        "failed": group(Outcome.FAILED),
        "accepted": group(*SLOWDOWNS, accepted=True),
        "accepted_as": Counter(case.outcome for case in listed if case.outcome in SLOWDOWNS and case.name in taken),
        "improved": improved,
        "slower": slower,
        "missing": words.by_sentence(slower.shown, words.missing),
        "open": group(Outcome.UNFIT, Outcome.INCONCLUSIVE),
        "every": _Group(
            len(listed_alone),
            every,
            reasons(report, [case for case in every if case.outcome not in _EXPLAINED or case.host_bound]),
        ),
        "alone": {
            outcome: tuple(case.name for case in listed if case.outcome is outcome)
            for outcome in _NOT_LISTED
            if report.counts.get(outcome)
        },
        "compared": [case for case in every if case.comparison],
        "identical": report.counts.get(Outcome.IDENTICAL, 0),
        "taken": taken,
        "regressed_because": _because(red, report),
        "improved_because": _because(improved, report),
        "unchecked": dict(islice(words.by_sentence(listed, lambda case: case.unchecked).items(), min(detail.cases, _NOTES))),
        "host_bound": tuple(case.name for case in listed if case.host_bound) if detail.cases else (),
        "hardware": ", ".join(hardware),
        "place": "artifact",
        "chart": chart_of_changes(listed) if detail.machine else None,
        "to_accept": to_accept[:MOST_CASES],
        "slowdowns": red.all + slower.all,
        "to_profile": [Markdown(case.name) for case in changed if case.name not in profiled][:MOST_CASES],
    }


_NOTES = 5
"""Different sentences about results without a reference."""
_EXPLAINED = (Outcome.FAILED, Outcome.REGRESSED, Outcome.IMPROVED, *words.NO_ANSWER)
"""Outcomes whose reasons are already above the table of all cases."""


def _because(group: _Group, report: ReportRecord) -> dict[str, str]:
    """Return text for each case that has some: the cause that its profile shows, else its reason if the table is not enough."""
    causes = {of_case.case: tools.part("profile_text").first_sentence(of_case) for of_case in report.profiles}
    texts = {}
    for case in group.shown:
        needs_reason = case.best is not None or (case.comparison is not None and case.comparison.source == "kernels")
        if text := causes.get(case.name) or (case.reason if needs_reason else ""):
            texts[case.name] = text
    return texts


def _alerts(page: CommentPage) -> list[Markdown]:
    """Return sentences that a reader must know before believing the verdict."""
    base = untrusted.name(page.run.base_ref)
    told = [(change, text.format(base=base)) for change, text in _CHANGES.items() if change in page.changes]
    alerts = [text for change, text in told if change in _FIRST]
    if page.run.stale_for:
        now = untrusted.markdown(page.run.stale_for[:10])
        alerts.append(
            f"**Stale:** the pull request is now at {now}; this report is about {untrusted.markdown(page.run.head_sha[:10])}."
        )
    if page.report and page.problem:
        alerts.append(str(untrusted.markdown(page.problem)))
    if page.log_url:
        alerts.append(f"Where to look: {untrusted.link(page.log_url, 'the publishing job')}.")
    alerts += [text for change, text in told if change not in _FIRST]
    return [Markdown(alert) for alert in alerts]


_CHANGES: dict[Change, str] = {
    "workflow": "**The measuring workflow was changed in this pull request.** Read the change before you believe the samples.",
    "workflow of the base": "**The measuring workflow of {base} is not that of the default branch.** Read it before you believe "
    "the samples.",
    "jobs": "**This pull request changes files of jobs** (`.github`). Read them before you believe the samples.",
    "unknown": "GitHub does not know where the head left {base}, so nobody knows what it changes of the measurement.",
    "settings": "This pull request changes the settings. It was judged by those of {base}.",
    "benchmarks": "This pull request changes the benchmarks that it is measured by.",
    "baseline": "**This pull request edits the baseline file.** It was judged by the file of {base}; the baseline moves by "
    "itself after a merge, or by `/ratchet accept`.",
}
"""Sentences, in this order."""
_FIRST = ("workflow", "workflow of the base")
"""Whoever changed these can have any samples uploaded: nothing stands before that."""


def _head(page: CommentPage) -> Markdown:
    """Return the head as GitHub knows it, and the tree that was measured for it."""
    known, report = untrusted.markdown(page.run.head_sha[:10]), page.report
    if report is None:
        return known
    return tree(report.head) if report.head.commit == page.run.head_sha else Markdown(f"{known}, measured as {tree(report.head)}")


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


def run_id_of(body: str) -> int | None:
    """Return the run that one of our comments is about; None for any other text."""
    match = _second_line(body)
    return int(match[1]) if match else None


def sha_of(body: str) -> str | None:
    """Return the head that one of our comments is about; None for any other text."""
    match = _second_line(body)
    return match[2] if match else None


_FAILED = "<!-- ratchet:failed:"
"""The last line, where cases failed: nobody can accept these."""
LONGEST_FAILED = 1_000
"""Characters of their names; of further ones the publishing job says that their acceptance changes nothing."""


def _failed_line(report: ReportRecord) -> str:
    names = " ".join(case.name for case in report.cases if case.outcome is Outcome.FAILED and is_plain(case.name))
    cut = names if len(names) <= LONGEST_FAILED else names[:LONGEST_FAILED].rpartition(" ")[0]
    return f"\n{_FAILED}{cut} -->\n" if cut else ""


def failed_in(body: str) -> tuple[str, ...]:
    """Return the cases that one of our comments names as failed."""
    last = body.rstrip().rpartition("\n")[2]
    return tuple(last.removeprefix(_FAILED).removesuffix(" -->").split()) if last.startswith(_FAILED) else ()


def _second_line(body: str) -> re.Match[str] | None:
    lines = body.replace("\r\n", "\n").split("\n", 2)
    return _RUN_READ.fullmatch(lines[1]) if len(lines) > 1 and lines[0].startswith("<!-- ratchet:report:") else None


# Changes as bars of text. Not Mermaid: its bars grow from the end of the axis, so beside +5 % the bar of −12 % is the shortest.


MOST_BARS = 20
LONGEST_LABEL = 32
HALVES = 48
"""Length of the longest bar in half characters."""


def chart_of_changes(cases: Sequence[CaseVerdict]) -> Markdown | None:
    """Draw the first cases that were compared, a line each: name, change, interval, outcome, and a bar, to the right if slower.

    None where fewer than two were compared: a chart of one bar says less than its number.
    """
    shown = [(case, case.comparison) for case in cases if case.comparison][:MOST_BARS]
    if len(shown) < 2:
        return None
    changes = [comparison.ratio - 1 for _, comparison in shown]
    most = max(map(abs, changes)) or 1.0
    labels = [_label(case.name, place) for place, (case, _) in enumerate(shown, 1)]
    texts = [f"{words.change(comparison)} {words.interval(comparison)} {words.word(case).text}" for case, comparison in shown]
    wide, wider = max(map(len, labels)), max(map(len, texts))
    left = (max(_halves(-change, most) for change in changes) + 1) // 2
    lines = [
        f"{label:<{wide}}  {text:<{wider}}  {_bar(change, most, left)}".rstrip()
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
