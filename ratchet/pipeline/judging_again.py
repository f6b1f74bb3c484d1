"""An artifact of untrusted code → what may be said of it: judged from its samples, by the base ref's rules."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.errors import ArtifactError, RecordError
from ratchet.forge.artifact import Intake, take_in
from ratchet.judge.acceptance import with_acceptances
from ratchet.judge.verdict import judge_run
from ratchet.pipeline.accepting import acceptances_of, by_case
from ratchet.pipeline.at_ref import Rules, rules_at
from ratchet.pipeline.references import refuse_foreign
from ratchet.pipeline.subject import Subject
from ratchet.records.acceptance import Acceptance
from ratchet.records.baseline import Baseline
from ratchet.records.forge import Comment, Pull
from ratchet.records.profile import CaseProfile
from ratchet.records.run import RunRecord
from ratchet.records.verdict import ReportRecord
from ratchet.report.check_run import candidate_paths
from ratchet.report.comment_page import CommentPage

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub

ARTIFACT = "ratchet-run"
"""What the job that measures calls what it uploads."""
_SHOWN = 3


@dataclass(frozen=True)
class Material:
    """What a page is made of."""

    subject: Subject
    place: Path | None
    """The artifact; None where the job left none."""
    comments: tuple[Comment, ...]
    """Of the pull request."""
    report_id: str
    options: Mapping[str, Any]


def blank_page(subject: Subject, github: GitHub, report_id: str, problem: str) -> CommentPage:
    """The page of a run without a verdict."""
    run = subject.run
    return CommentPage(None, github.repository, run.head_sha, subject.base_ref, run.url, run.id, problem, report_id=report_id)


def page_of(material: Material, github: GitHub, environ: Mapping[str, str]) -> CommentPage:
    """The page with its verdict, or with the sentence why the artifact gives none.

    Raises UsageError and RecordError where the rules of the base ref cannot be read, ForgeError where GitHub does not answer.
    """
    subject = material.subject
    rules = rules_at(github, subject.base_ref, environ, material.options)
    page = replace(
        blank_page(subject, github, material.report_id, ""),
        artifact_url=f"{subject.run.url}#artifacts",
        edited_baseline=bool(subject.pull) and _is_edited(subject.pull, rules, github),
    )
    try:
        taken = _taken_in(material, github, environ)
        unknown = refuse_foreign(taken.run, subject, rules.baseline, github)
    except (ArtifactError, RecordError) as error:
        return replace(page, problem=error.message, artifact_url=None)
    report = _report(taken, rules)
    accepted = _accepted(report, subject.pull, material.comments, github)
    page = replace(page, report=accepted[0], acceptances=accepted[1], notes=(*taken.problems, *unknown))
    return replace(page, paths=_paths(page, rules, subject, github))


def _taken_in(material: Material, github: GitHub, environ: Mapping[str, str]) -> Intake:
    run = material.subject.run
    if material.place is None:
        raise ArtifactError(_nothing_left(material.subject, github))
    with tempfile.TemporaryDirectory(prefix="ratchet-artifact-", dir=environ.get("RUNNER_TEMP")) as workspace:
        taken = take_in(material.place, Path(workspace))
    if taken.run.head.commit != run.head_sha:
        raise ArtifactError(
            f"The artifact is of {_short(taken.run.head.commit)}, but run {run.id} is of {run.head_sha[:10]}: the job "
            "that measures has to check out github.event.pull_request.head.sha."
        )
    if taken.run.kind != "check":
        raise ArtifactError(
            "The artifact holds times of one commit alone, which compare with nothing: measure with `ratchet check`."
        )
    return taken


def _nothing_left(subject: Subject, github: GitHub) -> str:
    run = subject.run
    if ARTIFACT in github.artifact_names(run.id):
        return f"Run {run.id} left an artifact, but it could not be fetched: it may have expired. Measure again."
    ended = f"ended with “{run.conclusion}”" if run.conclusion else "has not ended"
    return f"The job that measures {ended} and left no results: its log says why."


def _report(taken: Intake, rules: Rules) -> ReportRecord:
    """The verdict by the base ref's baseline and policy; what the artifact itself says of its verdict is not looked at."""
    run = taken.run
    report = judge_run(run, rules.baseline, rules.settings.policy)
    extra = [_unmeasured(run, rules.baseline), "The tree had uncommitted changes when it was measured." if run.head.dirty else ""]
    warnings = (*filter(None, extra), *report.warnings)
    return report.model_copy(update={"warnings": warnings, "profiles": _profiles(taken, report)})


def _unmeasured(run: RunRecord, baseline: Baseline) -> str:
    """A sentence about cases that the baseline has for this machine and this run has not, not even as missing."""
    stored = baseline.entries(run.environment.fingerprint)
    names = sorted(name for name, entry in stored.items() if not entry.removed)
    left = [name for name in names if name not in {case.name for case in run.cases}]
    if not left:
        return ""
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return f"Not measured, though the baseline has them: {', '.join(left[:_SHOWN])}{more}."


def _profiles(taken: Intake, report: ReportRecord) -> tuple[CaseProfile, ...]:
    """Those of cases that changed, and of the code that was measured; which way a case went is what the verdict here says."""
    ratios = {case.name: case.changed_ratio for case in report.cases if case.changed_ratio is not None}
    references = {case.name: case.reference_tree or taken.run.reference for case in taken.run.cases}
    return tuple(
        each.model_copy(update={"ratio": ratios[each.case]})
        for each in taken.profiles
        if each.case in ratios and (each.head_tree, each.reference_tree) == (taken.run.head, references.get(each.case))
    )


def _accepted(
    report: ReportRecord, pull: Pull | None, comments: tuple[Comment, ...], github: GitHub
) -> tuple[ReportRecord, tuple[Acceptance, ...]]:
    if pull is None:
        return report, ()
    done = with_acceptances(report, by_case(acceptances_of(github, pull, comments), report))
    return done.report, done.acceptances


def _is_edited(pull: Pull | None, rules: Rules, github: GitHub) -> bool:
    """Whether somebody changes the baseline by hand: our own pull request of it, from its own branch here, is none."""
    if pull is None or rules.baseline_path not in github.changed_files(pull.number):
        return False
    ours = (github.bot, github.repository, rules.settings.baseline_branch)
    return (pull.author, pull.head_repository, pull.head_ref) != ours


def _paths(page: CommentPage, rules: Rules, subject: Subject, github: GitHub) -> dict[str, str]:
    found = candidate_paths(page, rules.settings.bench)
    return {name: path for name, path in found.items() if github.file_at(path, subject.run.head_sha) is not None}


def _short(commit: str) -> str:
    return commit[:10] or "no commit"
