"""Choose the regressions of main that are certain enough to report, join those of one cause, and find the issue of each. Pure.

A regression is reported when two runs of one commit, of which the second began after the first had ended, both call it one. An
issue is found again by what its first lines say. A case that an open issue names belongs to that issue, whatever its cause is
called by now, and so does one that a closed issue names if it is compared with the same commit: there is never a second one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from ratchet.common.baseline_steps import HASH
from ratchet.core import units, untrusted
from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.run import CASE_NAME, Tree
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.github.records import Issue, Notice, SlowCase, SlowCause

_SETTLED = (Outcome.UNCHANGED, Outcome.IMPROVED, Outcome.IDENTICAL, Outcome.MISSING)
"""Outcomes of a case that is no longer slower."""
UNEXPLAINED = "No profile explains it."


def confirmed(reports: Sequence[ReportRecord]) -> list[CaseVerdict]:
    """Return the cases that two runs of one commit call regressed; the verdicts are those of the first run."""
    ordered = sorted(reports, key=lambda report: report.started_at)
    found: dict[str, CaseVerdict] = {}
    for number, first in enumerate(ordered):
        ended = first.started_at + timedelta(seconds=first.wall_s)
        later = [one for one in ordered[number + 1 :] if one.started_at >= ended and one.head.commit == first.head.commit]
        again = {case.name for one in later for case in one.cases if case.outcome is Outcome.REGRESSED}
        for case in first.cases:
            if case.outcome is Outcome.REGRESSED and case.name in again:
                found.setdefault(case.name, case)
    return list(found.values())


def settled(reports: Sequence[ReportRecord]) -> set[str]:
    """Return the cases that were measured, and that no run calls slower or cannot tell."""
    outcomes: dict[str, set[Outcome]] = {}
    for report in reports:
        for case in report.cases:
            outcomes.setdefault(case.name, set()).add(case.outcome)
    return {name for name, seen in outcomes.items() if seen <= {*_SETTLED}}


def causes_of(
    cases: Sequence[CaseVerdict],
    profiles: Mapping[str, CaseProfile],
    report: ReportRecord,
    references: Mapping[str, Tree] = MappingProxyType({}),
) -> list[SlowCause]:
    """Return the causes of these regressions, the slowest case of all first: one for each finding, one for what none explains.

    ``references``: what a case was compared with, where it is not the reference of the run: the baseline names a commit a case.
    """
    groups: dict[str, SlowCause] = {}
    for case in sorted(cases, key=lambda case: -(case.changed_ratio or 1.0)):
        profile = profiles.get(case.name)
        finding = (
            next((one for one in profile.causes if one.confidence != "low"), None) if profile and profile.reference else None
        )
        key = f"{finding.key} in {finding.kernel or case.name}" if finding else f"unexplained since {report.head.commit}"
        slow = _slow_case(case)
        if key in groups:
            groups[key] = groups[key].model_copy(update={"cases": (*groups[key].cases, slow)})
            continue
        tree = case.best_tree or references.get(case.name) or report.reference
        groups[key] = SlowCause(
            key=key,
            what=finding.what if finding else UNEXPLAINED,
            advice=finding.advice if finding else "",
            cases=(slow,),
            # A text of an artifact: in an issue's hidden lines anything else than a commit could end the comment.
            good=tree.commit if tree and HASH.fullmatch(tree.commit) else "",
            bad=report.head.commit,
        )
    return list(groups.values())


def _slow_case(case: CaseVerdict) -> SlowCase:
    own, best = case.comparison, case.best
    shown = best if best and (own is None or best.ratio > own.ratio) else own
    assert shown is not None  # noqa: S101  a case without a comparison is not called regressed
    head, before = case.head, case.reference
    return SlowCase(
        name=case.name,
        ratio=shown.ratio,
        low=shown.low,
        high=shown.high,
        before_ms=before.median_ms if before else None,
        after_ms=head.median_ms if head else None,
    )


# Which issue a cause belongs to.


@dataclass(frozen=True)
class OwnIssue:
    """An issue that we wrote."""

    number: int
    key: str
    cases: tuple[str, ...]
    good: str
    """As it said when it was opened, and so for ``bad``."""
    bad: str
    is_open: bool
    dismissed: bool
    """A person closed it as not planned."""
    culprit: str = ""
    """What a search for the commit has found, in Markdown."""
    machines: tuple[str, ...] = ()
    """Digests of the kinds of machine that call it slower, where main is measured on several."""


@dataclass(frozen=True)
class IssuePlan:
    """The changes to make to issues."""

    opened: tuple[SlowCause, ...] = ()
    updated: tuple[tuple[OwnIssue, SlowCause], ...] = ()
    """Issues that are there, some of them closed: these are opened again."""
    closed: tuple[OwnIssue, ...] = ()
    elsewhere: tuple[OwnIssue, ...] = ()
    """Issues whose cases are no longer slower on this kind of machine, and still are on another one."""
    dismissed: tuple[tuple[OwnIssue, SlowCause], ...] = ()
    """Causes that a person does not want to hear of."""

    @property
    def news(self) -> tuple[SlowCause, ...]:
        """Return the causes that nobody was told of: new ones, those that came back, and known ones with another case."""
        known = [
            cause for issue, cause in self.updated if not issue.is_open or {case.name for case in cause.cases} - {*issue.cases}
        ]
        return (*self.opened, *known)


def plan_issues(causes: Sequence[SlowCause], issues: Sequence[OwnIssue], done: set[str], machine: str = "") -> IssuePlan:
    """Return what to do: ``done`` are the cases that are no longer slower. A case has one issue, and so has a cause.

    ``machine``: the digest of the kind of machine that this is about, where main is measured on several.
    """
    by_issue: dict[int, list[SlowCause]] = {}
    opened: list[SlowCause] = []
    ordered = sorted(issues, key=lambda one: (not one.is_open, -one.number))
    for cause in causes:
        left = list(cause.cases)
        for issue in ordered:
            named = {*issue.cases} if issue.is_open or issue.good == cause.good else set()
            if mine := [case for case in left if case.name in named]:
                by_issue.setdefault(issue.number, []).append(cause.model_copy(update={"cases": tuple(mine)}))
                left = [case for case in left if case not in mine]
        if left:
            same = next((one for one in ordered if one.key == cause.key), None)
            known = by_issue.setdefault(same.number, []) if same else opened
            known.append(cause.model_copy(update={"cases": tuple(left)}))
    numbered = {issue.number: issue for issue in issues}
    merged = []  # one cause with the cases of all, which is called as the first
    for number, found in by_issue.items():
        cases = {case.name: case for cause in found for case in cause.cases}
        merged.append((numbered[number], found[0].model_copy(update={"cases": tuple(cases.values())})))
    # A person dismissed what was compared with one commit: the same cause against another one is a regression of its own.
    unwanted = [issue.number for issue, cause in merged if issue.dismissed and issue.good == cause.good]
    over = [one for one in issues if one.is_open and one.number not in by_issue and one.cases and {*one.cases} <= done]
    elsewhere = [one for one in over if machine and {*one.machines} - {machine}]
    return IssuePlan(
        tuple(opened),
        tuple((issue, cause) for issue, cause in merged if issue.number not in unwanted),
        tuple(one for one in over if one not in elsewhere),
        tuple(one for one in elsewhere if machine in one.machines),
        tuple((issue, cause) for issue, cause in merged if issue.number in unwanted),
    )


# A notice as the text of an issue, and as a message for Slack. An issue begins with comments that nobody sees: by them it is
# found again (`own_issue`). Everything in it that comes from an artifact is escaped.


MOST_CASES = 100
"""Cases in one issue's text and in its hidden list."""
_STATE = re.compile(
    r"<!-- ratchet:regression:([0-9a-f]{16}) -->\n"
    r"<!-- since: ([0-9a-f]{40,64}|-) ([0-9a-f]{40,64})((?: [0-9a-f]{16})*) -->\n<!-- cases: ([^\n]*) -->\n"
)
_CULPRIT = re.compile(r"<!-- culprit -->\n.*?\n<!-- end of culprit -->", re.DOTALL)


def digest_of(key: str) -> str:
    """Return the key of a cause as an issue's first line has it."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


def first_line(key: str) -> str:
    """Return the line by which the issue of a cause is found; ``key`` is its digest, here and in what follows."""
    return f"<!-- ratchet:regression:{key} -->"


def own_issue(issue: Issue) -> OwnIssue | None:
    """Return what our issue says of itself; None for an issue whose hidden lines somebody changed."""
    found = _STATE.match(issue.body.replace("\r\n", "\n"))
    if found is None:
        return None
    cases = tuple(name for name in found[5].split(" ") if CASE_NAME.fullmatch(name))
    dismissed = not issue.is_open and issue.state_reason == "not_planned"
    known = _CULPRIT.search(issue.body.replace("\r\n", "\n"))
    culprit = known[0] if known else ""
    good, bad, machines = found[2].strip("-"), found[3], tuple(found[4].split())
    return OwnIssue(issue.number, found[1], cases, good, bad, issue.is_open, dismissed, culprit, machines)


def issue_title(cause: SlowCause) -> str:
    """Return a title that mentions nobody."""
    worst, *others = cause.cases
    more = f" and {units.plural(len(others), 'more case')}" if others else ""
    return untrusted.plain(f"main is slower: {worst.name} {units.change(worst.ratio, 1)}{more}", 200)


def issue_body(cause: SlowCause, notice: Notice, before: OwnIssue | None = None, machine: str = "") -> str:
    """Return the text of an issue; ``before`` is what it said: while it is open it names the commits that it was opened for."""
    good, bad = (before.good, before.bad) if before and before.is_open else (cause.good, cause.bad)
    names = list(dict.fromkeys([*(case.name for case in cause.cases), *(before.cases if before else ())]))[:MOST_CASES]
    key = before.key if before else cause.key
    machines = dict.fromkeys([*(before.machines if before and before.is_open else ()), *filter(None, [machine])])
    hidden = [first_line(key), f"<!-- since: {' '.join([good or '-', bad, *machines])} -->", f"<!-- cases: {' '.join(names)} -->"]
    rows = ["| case | before | now | slower by |", "|:--|--:|--:|--:|", *(_row(case) for case in cause.cases[:MOST_CASES])]
    commits = f"{_short(good)} … {_short(bad)}" if good else _short(bad)
    lines = [
        f"Two runs of main in a row have shown that {units.plural(len(cause.cases), 'case')} became slower.",
        "",
        *rows,
        "",
        f"**Commits**: {commits} (the first is the last commit known to be faster)",
        "",
        f"**Cause**: {untrusted.markdown(cause.what)}",
    ]
    lines += [f"**Try**: {untrusted.markdown(cause.advice)}"] if cause.advice else []
    lines += ["", *(f"- {untrusted.markdown(counter, 200)}" for counter in cause.counters)] if cause.counters else []
    lines += ["", before.culprit] if before and before.is_open and before.culprit else []
    seen = f"Seen last at {_short(notice.commit)}, in {untrusted.link(notice.run_url, 'this run')}."
    ending = (
        "This text is renewed while the regression is there, and the issue closes when it is gone. Close it as *not planned* to "
        "hear no more of it, or accept the change: `/ratchet accept` in a pull request."
    )
    return "\n".join([*hidden, *lines, "", seen, "", f"<sub>{ending}</sub>", ""])


def with_culprit(issue: Issue, lines: Iterable[str]) -> str:
    """Return the text of our issue with these lines of Markdown about what a search has found, in place of earlier ones."""
    section = "\n".join(["<!-- culprit -->", *lines, "<!-- end of culprit -->"])
    body = issue.body.replace("\r\n", "\n")
    if _CULPRIT.search(body):
        return _CULPRIT.sub(lambda _: section, body, count=1)
    return f"{body.rstrip()}\n\n{section}\n"


def without_machine(body: str, machine: str) -> str:
    """Return the text of our issue without a kind of machine on which it is over."""
    first, since, rest = body.replace("\r\n", "\n").split("\n", 2)
    return "\n".join([first, since.replace(f" {machine}", ""), rest])


def fixed_body(issue: Issue, notice: Notice) -> str:
    """Return the text of an issue whose cases are no longer slower."""
    link = untrusted.link(notice.run_url, "this run")
    return (
        f"{issue.body.rstrip()}\n\n**Fixed**: at {_short(notice.commit)} none of these cases is slower any more, says {link}.\n"
    )


def _row(case: SlowCase) -> str:
    before, after = (units.duration(ms / 1e3) if ms else "–" for ms in (case.before_ms, case.after_ms))
    by = " ".join(units.estimate(case.ratio, case.low, case.high))
    return f"| {untrusted.cell_name(case.name)} | {before} | {after} | {by} |"


def _short(commit: str) -> str:
    return commit if re.fullmatch(r"[0-9a-f]{40,64}", commit) else untrusted.markdown(commit, 64)


# A message for a channel.


def slack_message(notice: Notice) -> dict[str, Any]:
    """Return the body for an incoming webhook of Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks"""
    lines = [f"*{_slack(notice.repository)}*: {_slack(notice.headline)}"]
    for cause in notice.causes:
        lines += [
            f"• {_slack(case.name)} {' '.join(units.estimate(case.ratio, case.low, case.high))}" for case in cause.cases[:10]
        ]
        lines += [f"  {_slack(cause.what)}"]
    lines += [f"• {_slack(name)} is no longer slower" for name in notice.fixed[:10]]
    lines += [f"<{address}>" for address in (*notice.issues, notice.run_url) if re.fullmatch(r"https?://[\w.:/-]+", address)]
    return {"text": "\n".join(lines)[:3000], "unfurl_links": False, "unfurl_media": False}


def _slack(text: str) -> str:
    """Return text in which Slack sees no mention, link or format."""
    escaped = untrusted.plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_~`])", "\u200b\\1", escaped)
