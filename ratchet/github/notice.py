"""Choose the regressions of main that are certain enough to report, join those of one cause, and find the issue of each. Pure.

A regression is reported when two runs of one commit, of which the second began after the first had ended, both call it one. An
issue is found again by what its first lines say. A case that an open issue names belongs to that issue, whatever its cause is
called by now, and so does one that a closed issue names if it is compared with the same commit: there is never a second one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.github.records import SlowCase, SlowCause

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


def causes_of(cases: Sequence[CaseVerdict], profiles: Mapping[str, CaseProfile], report: ReportRecord) -> list[SlowCause]:
    """Return the causes of these regressions, the slowest case of all first: one for each finding, one for what none explains."""
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
        tree = case.best_tree or report.reference
        groups[key] = SlowCause(
            key=key,
            what=finding.what if finding else UNEXPLAINED,
            advice=finding.advice if finding else "",
            cases=(slow,),
            good=tree.commit if tree else "",
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


@dataclass(frozen=True)
class IssuePlan:
    """The changes to make to issues."""

    opened: tuple[SlowCause, ...] = ()
    updated: tuple[tuple[OwnIssue, SlowCause], ...] = ()
    """Issues that are there, some of them closed: these are opened again."""
    closed: tuple[OwnIssue, ...] = ()
    dismissed: tuple[tuple[OwnIssue, SlowCause], ...] = ()
    """Causes that a person does not want to hear of."""

    @property
    def news(self) -> tuple[SlowCause, ...]:
        """Return the causes that nobody was told of: new ones, those that came back, and known ones with another case."""
        known = [
            cause for issue, cause in self.updated if not issue.is_open or {case.name for case in cause.cases} - {*issue.cases}
        ]
        return (*self.opened, *known)


def plan_issues(causes: Sequence[SlowCause], issues: Sequence[OwnIssue], done: set[str]) -> IssuePlan:
    """Return what to do: ``done`` are the cases that are no longer slower. A case has one issue, and so has a cause."""
    by_issue: dict[int, list[SlowCause]] = {}
    opened: list[SlowCause] = []
    for cause in causes:
        left = list(cause.cases)
        for issue in sorted(issues, key=lambda one: (not one.is_open, -one.number)):
            named = {*issue.cases} if issue.is_open or issue.good == cause.good else set()
            if mine := [case for case in left if case.name in named]:
                by_issue.setdefault(issue.number, []).append(cause.model_copy(update={"cases": tuple(mine)}))
                left = [case for case in left if case not in mine]
        same = next((one for one in sorted(issues, key=lambda one: (not one.is_open, -one.number)) if one.key == cause.key), None)
        if left and same:
            by_issue.setdefault(same.number, []).append(cause.model_copy(update={"cases": tuple(left)}))
        elif left:
            opened.append(cause.model_copy(update={"cases": tuple(left)}))
    numbered = {issue.number: issue for issue in issues}
    merged = [(numbered[number], _merged(found)) for number, found in by_issue.items()]
    return IssuePlan(
        tuple(opened),
        tuple((issue, cause) for issue, cause in merged if issue.is_open or not issue.dismissed),
        tuple(one for one in issues if one.is_open and one.number not in by_issue and one.cases and {*one.cases} <= done),
        tuple((issue, cause) for issue, cause in merged if not issue.is_open and issue.dismissed),
    )


def _merged(causes: Sequence[SlowCause]) -> SlowCause:
    """Return one cause with the cases of all; it is called as the first."""
    cases = {case.name: case for cause in causes for case in cause.cases}
    return causes[0].model_copy(update={"cases": tuple(cases.values())})
