"""What a comment and a check run are made of, and how the check run ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ratchet.records import Outcome, ReportRecord
from ratchet.records.acceptance import Acceptance
from ratchet.report import words

Conclusion = Literal["success", "failure", "neutral", "action_required"]
_HELD = (Outcome.UNCHANGED, Outcome.IMPROVED, Outcome.IDENTICAL)
"""Outcomes of cases that were compared and are no slower."""


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
    log_url: str | None = None
    """The job that publishes, where its log is what to read next."""
    report_id: str = "default"
    rejudged: bool = True
    """Judged again from the raw samples, by thresholds and baseline of ``base_ref``."""
    notes: tuple[str, ...] = ()
    """Further sentences beside the verdict: parts of the artifact that were left out, and why."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Benchmark → its file in the repository, where it is known; annotations point there."""


def conclusion(page: CommentPage) -> Conclusion:
    """Red for a regression, a wrong result, and a run that handed over nothing to judge; green only where something was compared
    and everything that was is no slower, or accepted; otherwise neutral, since noise is no fault of the change.
    A slowdown without proof asks for a person: a required check is satisfied by neutral, and not by that.
    """
    report = page.report
    if report is None or not report.cases:
        return "failure"
    if report.verdict == "regression":
        return "failure"
    taken = {each.case for each in page.acceptances}
    outcomes = [case.outcome for case in report.cases if case.name not in taken]
    if Outcome.SLOWER in outcomes:
        return "action_required"
    answered = not any(outcome in words.NO_ANSWER for outcome in outcomes)
    compared = page.acceptances or any(outcome in _HELD for outcome in outcomes)
    return "success" if report.verdict == "pass" and answered and compared else "neutral"
