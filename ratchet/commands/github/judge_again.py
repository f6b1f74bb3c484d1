"""The regressions of a pull request that somebody with write access accepted, as GitHub knows them now."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ratchet.commands.github.event import Subject
from ratchet.commands.request import BASELINE
from ratchet.config import Settings, settings_from
from ratchet.errors import ArtifactError, RecordError, UsageError
from ratchet.forge.artifact import Intake, take_in
from ratchet.judge.baseline.chain import problems
from ratchet.judge.github.acceptance import acknowledged_in, believed, with_acceptances
from ratchet.judge.verdict import judge_run
from ratchet.records.acceptance import Acceptance
from ratchet.records.baseline import Baseline
from ratchet.records.files import load, save_bytes
from ratchet.records.forge import Comment, Pull
from ratchet.records.profile import CaseProfile
from ratchet.records.run import RunRecord
from ratchet.records.verdict import SLOWDOWNS, ReportRecord
from ratchet.report.check_run import candidate_paths
from ratchet.report.comment import CommentPage

if TYPE_CHECKING:
    from ratchet.forge.github import GitHub


EVERY = "*/*"
"""What a label accepts: every case that is red at that commit."""


def acceptances_of(github: GitHub, pull: Pull, comments: Iterable[Comment]) -> tuple[Acceptance, ...]:
    """Those that hold for the pull request's head; ``comments`` are all of its conversation."""
    by_id = {comment.id: comment for comment in comments}
    acknowledged = [each for each in acknowledged_in(by_id.values(), github.bot) if each.sha == pull.head_sha]
    permissions = {login: github.permission(login) for login in dict.fromkeys(each.by for each in acknowledged)}
    return believed(acknowledged, by_id, permissions, pull.head_sha, pull.labels)


def by_case(acceptances: Iterable[Acceptance], report: ReportRecord) -> tuple[Acceptance, ...]:
    """The same, one for each case: a label's stands for every red case that nobody named."""
    named = {each.case: each for each in acceptances}
    label = named.pop(EVERY, None)
    red = [case.name for case in report.cases if case.outcome in SLOWDOWNS]
    rest = [label.model_copy(update={"case": name}) for name in red if name not in named] if label else []
    return (*named.values(), *rest)


# Whether the commits that a run compared its head with lie where they should: on the base branch.


MOST = 50
"""Commits that one run may compare with; each that the base branch's own files do not name is one question to GitHub."""


def refuse_foreign(run: RunRecord, subject: Subject, baseline: Baseline, github: GitHub) -> tuple[str, ...]:
    """Raise ArtifactError where a reference commit is not on the base branch: against a slow commit of its own, any head passes.

    Of each commit that GitHub does not know, a sentence comes back: a branch that was rewritten loses commits too. Commits that
    the base branch's ``baseline`` names count as on it for that reason. What has no pull request was pushed by somebody with
    write access: for a push or a merge queue the head's own history counts too.
    """
    left = sorted(_compared(run) - _named(subject, baseline))
    if len(left) > MOST:
        raise ArtifactError(f"The run compares with {len(left)} commits, and {MOST} are the most.")
    refs = (subject.base_ref,) if subject.pull else (subject.run.head_sha, subject.base_ref)
    unknown = []
    for commit in left:
        held = [github.holds(ref, commit) for ref in refs]
        if not any(held) and False in held:
            raise ArtifactError(
                f"The run compares with {commit[:10] or 'no commit'}, which is not on {subject.base_ref}: measure against a "
                "commit of that branch."
            )
        if not any(held):
            unknown.append(
                f"GitHub does not know {commit[:10]}, which the run compares with: whether {subject.base_ref} has it is open."
            )
    return tuple(unknown)


def _compared(run: RunRecord) -> set[str]:
    trees = [run.reference, *(case.reference_tree for case in (*run.cases, *run.best))]
    return {tree.commit for tree in trees if tree is not None}


def _named(subject: Subject, baseline: Baseline) -> set[str]:
    """Commits of the base branch that are known without asking."""
    stored = {entry.git_commit for _, _, entry in baseline.every()}
    return stored | {subject.pull.base_sha} if subject.pull else stored


# Settings and baseline of a commit that is not checked out: as bytes from git or from the API.


@dataclass(frozen=True)
class Rules:
    """What a pull request is held to, and cannot change."""

    settings: Settings
    baseline: Baseline
    baseline_path: str
    """Within the repository."""


def rules_at(github: GitHub, ref: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> Rules:
    """Settings and baseline of a branch, through the API; in the mode ``branch`` that branch has the baseline, once it is there.

    Raises UsageError and RecordError for files that cannot be read, ForgeError where GitHub does not answer.
    """
    text = _decoded(github.file_at("pyproject.toml", ref) or b"", f"pyproject.toml of {ref}")
    settings = settings_from(text, f"pyproject.toml of {ref}", environ, options)
    path = str(PurePosixPath(settings.results) / BASELINE)
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise UsageError(f"The folder results of {ref} lies outside the repository.", "Set results in [tool.ratchet].")
    side = settings.baseline_branch
    place = side if settings.baseline_mode == "branch" and github.branch_exists(side) else ref
    content = github.file_at(path, place)
    return Rules(settings, Baseline() if content is None else baseline_from(content, f"{path} of {place}"), path)


def baseline_from(content: bytes, name: str) -> Baseline:
    """A baseline that came as bytes. Raises RecordError, which calls it ``name``."""
    with tempfile.TemporaryDirectory(prefix="ratchet-baseline-") as folder:
        path = Path(folder, BASELINE)
        save_bytes(path, content)
        try:
            return load(path, Baseline)
        except RecordError as error:
            raise RecordError(error.message.replace(str(path), name), error.hint) from None


def intact_baseline(content: bytes | None, name: str) -> Baseline:
    """The same, an empty one for no file. Raises RecordError also where its chains do not fit together."""
    stored = Baseline() if content is None else baseline_from(content, name)
    wrong = problems(stored)
    if wrong:
        raise RecordError(f"{name} does not verify, and was left as it is: {wrong[0]}", "See `ratchet baseline verify`.")
    return stored


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not valid TOML: {error}.", "Fix the file and try again.") from None


# An artifact of untrusted code → what may be said of it: judged from its samples, by the base ref's rules.


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
