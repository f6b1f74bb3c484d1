"""Judge an artifact of untrusted code again, from its samples, by the settings and the baseline of the base branch.

`ratchet ci publish` calls `page_of`; `ratchet ci push` and `ratchet ci command` use the parts. Everything about the pull request
comes from GitHub's API, nothing from the artifact. It reads from GitHub, unpacks the artifact into a temporary folder, and
publishes nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ratchet.core import units
from ratchet.core.config import Settings, settings_from, tool_table
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, BaselineEntry, StepKind
from ratchet.core.records.files import loads
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import SLOWDOWNS, Outcome, ReportRecord
from ratchet.core.request import BASELINE
from ratchet.core.units import listed, threshold
from ratchet.github.artifact import Intake, take_in
from ratchet.github.check_run import candidate_paths
from ratchet.github.comment import CommentPage, MeasuredRun
from ratchet.github.errors import ArtifactError
from ratchet.github.event_file import Subject
from ratchet.github.provenance import changes_of
from ratchet.github.records import Acceptance, Comment, Pull
from ratchet.github.state import Gap, PublishedState, acknowledged_in, believed, with_acceptances, with_gaps
from ratchet.github.static_proof import with_proofs

if TYPE_CHECKING:  # PyGithub is an extra, and `ratchet ci push` does without it
    from ratchet.github.client import GitHub

# The commits that a run compared with, and the cases that it left out. Beside a slow commit of its own any head looks fast
# enough, so the reference has to be the merge base, or the commit that the base branch's baseline names for the case.


MOST = 50
"""Commits that one run may compare with; each that the base branch's own files do not name is one question to GitHub."""
_ARRIVALS = (StepKind.FIRST, StepKind.RENAMED, StepKind.RETURNED)
"""Steps by which a case enters under its name, or comes back."""


@dataclass(frozen=True)
class RunHistory:
    """A run among the commits of its repository. Each question to GitHub is asked once."""

    run: RunRecord
    subject: Subject
    baseline: Baseline
    """The baseline of the base branch."""
    github: GitHub

    @cached_property
    def references(self) -> Mapping[str, str]:
        """The commit that each case was compared with.

        Raises ArtifactError where a case does not say so, or was compared with the head itself.
        """
        commits = {}
        for case in self.run.cases:
            tree = case.reference_tree or self.run.reference
            if case.in_reference and tree is None and not case.failures:
                raise ArtifactError(f"The run does not say which commit {case.name} was compared with: measure again.")
            if case.in_reference and tree is not None:
                commits[case.name] = tree.commit
        if self.run.head.commit in commits.values():
            raise ArtifactError(f"The run compares {self.run.head.commit[:10]} with itself: measure against another commit.")
        return commits

    @cached_property
    def branched_off(self) -> tuple[str, ...]:
        """The commits where the head left its base branch, as that stands now and as it stood for GitHub's pull request.

        In a merge queue also the commit that the entry is made on, which the name of its branch has.
        """
        pull, head = self.subject.pull, self.subject.run.head_sha
        left = [self.subject.merge_base, self.github.merge_base(pull.base_sha, head)] if pull else []
        left += [] if pull else [self.github.merge_base(self.subject.base_ref, head)]
        return tuple(dict.fromkeys(commit for commit in (self.subject.queued_onto, *left) if commit))

    def refuse_foreign(self) -> None:
        """Raise ArtifactError where a reference commit is not on the base branch, or GitHub does not know it.

        Commits that the base branch's baseline names count as on it. A push or a merge queue comes from somebody with write
        access, so the head's own history counts too.
        """
        known = {entry.git_commit for _, _, entry in self.baseline.every()}
        if self.subject.pull:
            known.add(self.subject.pull.base_sha)
        shown = [self.run.reference, *(case.reference_tree for case in self.run.best)]
        unchecked = sorted({*self.references.values(), *(tree.commit for tree in shown if tree)} - known)
        if len(unchecked) > MOST:
            raise ArtifactError(f"The run compares with {len(unchecked)} commits, more than the limit of {MOST}.")
        base = self.subject.base_ref
        refs = (base,) if self.subject.pull else (self.subject.run.head_sha, base)
        for commit in unchecked:
            answers = [self.github.holds(ref, commit) for ref in refs]
            if not any(answers):
                short = commit[:10] or "no commit"
                known_elsewhere = f"The run compares with {short}, which is not on {base}"
                nowhere = f"GitHub does not know {short}, which the run compares with"
                raise ArtifactError(f"{known_elsewhere if False in answers else nowhere}: measure against a commit of {base}.")

    def gaps(self) -> Iterator[Gap]:
        """Yield why this run is no pass, however fast its head: another reference, or cases that were left out."""
        stored = self.baseline.entries(self.run.environment.fingerprint)
        older = self.baseline.carried(self.run.environment.fingerprint)
        named = {name: entry.git_commit for name, entry in {**older, **stored}.items()}
        others = sorted({commit for name, commit in self.references.items() if commit != named.get(name)})
        head = self.subject.run.head_sha
        # A head that is on its base branch, such as a push to main, left it nowhere: there any earlier commit will do.
        if others and head not in self.branched_off and not {*others} <= {*self.branched_off}:
            wrong = [commit for commit in others if commit not in self.branched_off]
            left = self.branched_off[0][:10] if self.branched_off else "which GitHub does not know"
            yield Gap(
                PublishedState.OTHER_REFERENCE,
                f"Compared with {listed([commit[:10] for commit in wrong])}: a pass takes the commit where the head left "
                f"{self.subject.base_ref}, {left}, or the one that the baseline names for the case.",
            )
        yield from self._unmeasured(stored)

    def _unmeasured(self, stored: Mapping[str, BaselineEntry]) -> Iterator[Gap]:
        """Yield what is missing of the baseline's cases for this machine that the base branch had when the head left it."""
        cases = {case.name: case for case in self.run.cases}

        @cache  # each answer costs questions to GitHub, so nothing is asked before a case is missing
        def was_there(entered: str) -> bool:
            left = self.branched_off[0] if self.branched_off else self.subject.run.head_sha
            return self.github.holds(left, entered) is not False

        absent: list[str] = []
        uncompared: list[str] = []
        removed: list[str] = []
        for name, entry in sorted(stored.items()):
            case = cases.get(name)
            if entry.removed or (case and case.in_head and case.in_reference and not case.skipped):
                continue
            # The base branch may have got a case under its name, or got it back, after the head had left it.
            entered = next((step.commit for step in reversed(entry.steps) if step.kind in _ARRIVALS), entry.steps[0].commit)
            if was_there(entered):
                (absent if case is None else uncompared if case.in_head else removed).append(name)
        if absent:
            yield Gap(PublishedState.LEFT_OUT, f"Not measured, though the baseline has them: {listed(absent)}.", len(absent))
        if uncompared:
            yield Gap(PublishedState.LEFT_OUT, f"Skipped or called new, though the baseline has them: {listed(uncompared)}.")
        if removed:
            yield Gap(PublishedState.REMOVED, f"The head removes what the baseline has: {listed(removed)}.")


EVERY = "*/*"
"""The case that a label accepts: every one that is red at that commit."""


# Regressions that a person with write access accepted.


def acceptances_of(github: GitHub, pull: Pull, comments: Iterable[Comment]) -> tuple[Acceptance, ...]:
    """Return the acceptances that hold for the pull request's head; ``comments`` are its whole conversation."""
    by_id = {comment.id: comment for comment in comments}
    acknowledged = [acceptance for acceptance in acknowledged_in(by_id.values(), github.bot) if acceptance.sha == pull.head_sha]
    permissions = {login: github.permission(login) for login in dict.fromkeys(acceptance.by for acceptance in acknowledged)}
    return believed(acknowledged, by_id, permissions, pull.head_sha, pull.labels)


def by_case(acceptances: Iterable[Acceptance], report: ReportRecord) -> tuple[Acceptance, ...]:
    """Return the first acceptance of each case: a label's stands for every red case without one of its own."""
    named: dict[str, Acceptance] = {}
    for acceptance in acceptances:
        named.setdefault(acceptance.case, acceptance)
    label = named.pop(EVERY, None)
    red = [case.name for case in report.cases if case.outcome in SLOWDOWNS]
    rest = [label.model_copy(update={"case": name}) for name in red if name not in named] if label else []
    return (*named.values(), *rest)


# Settings and baseline of the base branch, which is not checked out.


@dataclass(frozen=True)
class BaseRules:
    """The settings and the baseline that a pull request is judged by, and cannot change."""

    settings: Settings
    baseline: Baseline
    baseline_path: str
    """Within the repository."""
    origin: str
    """The thresholds, and the file and the commit that they and the baseline come from, in words."""


def rules_at(github: GitHub, ref: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> BaseRules:
    """Read settings and baseline of a branch at its present commit. In the mode ``branch``, another branch has the baseline.

    Raises UsageError and RecordError for files that cannot be read, ForgeError where GitHub does not answer.
    """
    name, commit = f"pyproject.toml of {ref}", github.tip(ref) or ref
    try:
        text = (github.file_at("pyproject.toml", commit) or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not valid TOML: {error}.", "Fix the file and try again.") from None
    settings = settings_from(text, name, environ, options)
    path = str(PurePosixPath(settings.results) / BASELINE)
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise UsageError(f"The folder results of {ref} lies outside the repository.", "Set results in [tool.ratchet].")
    side = settings.baseline_branch if settings.baseline_mode == "branch" else ""
    at_side = github.tip(side) if side else None
    place, at = (side, at_side) if at_side else (ref, commit)
    content = github.file_at(path, at)
    thresholds = origin_of_thresholds(settings, text, f"{name} at {commit[:10]}", environ, options)
    origin = f"{thresholds}; {'no baseline in ' if content is None else 'baseline '}{path} of {place} at {at[:10]}"
    return BaseRules(settings, Baseline() if content is None else loads(content, f"{path} of {place}", Baseline), path, origin)


def origin_of_thresholds(
    settings: Settings, text: str, place: str, environ: Mapping[str, str], options: Mapping[str, Any]
) -> str:
    """Say both thresholds and where each comes from: ``gate 3 %, improvement 5 % from pyproject.toml of main at 533226cf33``.

    The arguments are those of `settings_from`; ``place`` names the file and its commit.
    """
    table = tool_table(text, place) or {}
    origins: dict[str, list[str]] = {}
    for key, word in (("regression_threshold", "gate"), ("improvement_threshold", "improvement")):
        if options.get(key) is not None:
            origin = "an option of this command"
        elif environ.get(f"RATCHET_{key.upper()}"):
            origin = f"this workflow, not from {place}"
        else:
            origin = place if key in table else f"the defaults, since {place} sets none"
        value = getattr(settings, key)
        origins.setdefault(origin, []).append(f"{word} {value if value == 'auto' else units.threshold(value)}")
    return "; ".join(f"{', '.join(values)} from {origin}" for origin, values in origins.items())


# The page that is published, made from an artifact.

ARTIFACT = "benchmark-ratchet-results"
"""The name under which the measuring job uploads."""


@dataclass(frozen=True)
class PageSources:
    subject: Subject
    place: Path | None
    """The artifact; None if the job left none."""
    comments: tuple[Comment, ...]
    """All comments of the pull request."""
    report_id: str
    static: Path | None = None
    """The artifact of the job without a GPU; None if there is none."""
    model: str = ""
    """The GPU model whose artifact this is, where there are several."""

    @property
    def artifact(self) -> str:
        """The name under which its job uploads."""
        return f"{ARTIFACT}-{self.model}" if self.model else ARTIFACT


def blank_page(subject: Subject, github: GitHub, report_id: str, problem: str) -> CommentPage:
    """Return the page of a run without a verdict."""
    run = subject.run
    about = MeasuredRun(github.repository, run.head_sha, subject.base_ref, run.url, run.id, subject.merge_base, report_id)
    return CommentPage(None, about, problem)


def page_of(material: PageSources, rules: BaseRules, github: GitHub, environ: Mapping[str, str]) -> CommentPage:
    """Return the page with its verdict, or with the sentence why the artifact gives none.

    Raises ForgeError where GitHub does not answer.
    """
    subject = material.subject
    page = replace(blank_page(subject, github, material.report_id, ""), rules=rules.origin)
    if subject.pull:
        changes = changes_of(subject.pull, subject.merge_base, rules.settings, rules.baseline_path, github, environ)
        page = replace(page, changes=tuple(changes))
    try:
        intake, unproved = _take_in(material, rules, github, environ)
        history = RunHistory(intake.run, subject, rules.baseline, github)
        history.refuse_foreign()
    except (ArtifactError, RecordError) as error:
        return replace(page, problem=error.message)
    report, gaps = _judge(intake, rules), (*unproved, *history.gaps())
    acceptances = by_case(acceptances_of(github, subject.pull, material.comments), report) if subject.pull else ()
    accepted, used = with_acceptances(report, acceptances)
    notes, policies = [*intake.problems], (intake.run.policy, rules.settings.policy)
    was, now = (f"gate {threshold(policy.regression)} and improvement {threshold(policy.improvement)}" for policy in policies)
    if was != now:  # the GPU job stops measuring a case when it is decided by its own
        notes.append(f"The GPU job measured for {was}; this verdict is by {now}.")
    failed = {case.name for case in report.cases if case.outcome is Outcome.FAILED}
    notes += [
        f"{acceptance.case} failed, so the acceptance by {acceptance.by} changes nothing: only a slowdown can be accepted."
        for acceptance in acceptances
        if acceptance.case in failed
    ]
    ended = with_gaps(accepted, {acceptance.case for acceptance in used}, gaps)
    page = replace(page, report=ended, acceptances=used, gaps=gaps, notes=tuple(notes))
    paths = candidate_paths(page, rules.settings.bench)
    here = {name: path for name, path in paths.items() if github.file_at(path, subject.run.head_sha) is not None}
    return replace(page, paths=here)


def _take_in(
    material: PageSources, rules: BaseRules, github: GitHub, environ: Mapping[str, str]
) -> tuple[Intake, tuple[Gap, ...]]:
    """Return the run to judge, and why it is no pass. Raises ArtifactError where there is none."""
    if material.static is None:
        return _measured(material, github, environ), ()
    measured = _measured(material, github, environ) if material.place else None
    with tempfile.TemporaryDirectory(prefix="ratchet-artifact-", dir=environ.get("RUNNER_TEMP")) as workspace:
        return with_proofs(material.static, measured, material.subject.run.head_sha, rules.settings, github, Path(workspace))


def _measured(material: PageSources, github: GitHub, environ: Mapping[str, str]) -> Intake:
    """Return what the job on the GPU left. Raises ArtifactError."""
    run = material.subject.run
    stored = github.artifacts(run.id)
    ours = [artifact for artifact in stored if artifact.name == material.artifact] or ([] if material.model else stored)
    if ours and max(artifact.created_at for artifact in ours) < run.started_at:
        raise ArtifactError(
            f"The results of run {run.id} are those of an earlier attempt: attempt {run.attempt} left none. Its log says why."
        )
    if material.place is None:
        if material.artifact in {artifact.name for artifact in stored}:
            raise ArtifactError(
                f"Run {run.id} left an artifact, but it could not be fetched: it may have expired. Measure again."
            )
        ended = f"ended with “{run.conclusion}”" if run.conclusion else "has not ended"
        if material.model:
            raise ArtifactError(f"No runner of this model gave results in time: run {run.id} {ended}.")
        raise ArtifactError(f"The job that measures {ended} and left no results: its log says why.")
    with tempfile.TemporaryDirectory(prefix="ratchet-artifact-", dir=environ.get("RUNNER_TEMP")) as workspace:
        intake = take_in(material.place, Path(workspace))
    if intake.run.head.commit != run.head_sha:
        raise ArtifactError(
            f"The artifact is of {intake.run.head.commit[:10] or 'no commit'}, but run {run.id} is of {run.head_sha[:10]}: the "
            "job that measures has to check out github.event.pull_request.head.sha."
        )
    if intake.run.kind != "check":
        raise ArtifactError(
            "The artifact holds times of one commit alone, which compare with nothing: measure with `ratchet check`."
        )
    return intake


def _judge(intake: Intake, rules: BaseRules) -> ReportRecord:
    """Judge by the base ref's baseline and policy; the artifact's own verdict is not read."""
    run = intake.run
    report = judge_run(run, rules.baseline, rules.settings.policy, datetime.now(UTC).date())
    warnings = list(report.warnings)
    if run.head.dirty:
        warnings.insert(0, "The tree had uncommitted changes when it was measured.")
    return with_sent_profiles(report.model_copy(update={"warnings": tuple(warnings)}), intake)


def with_sent_profiles(report: ReportRecord, intake: Intake) -> ReportRecord:
    """Add the profiles of cases that changed and of the code that was measured, with the direction of the verdict here."""
    run = intake.run
    ratios = {case.name: case.changed_ratio for case in report.cases if case.changed_ratio is not None}
    references = {case.name: case.reference_tree or run.reference for case in run.cases}
    profiles = tuple(
        profile.model_copy(update={"ratio": ratios[profile.case]})
        for profile in intake.profiles
        if profile.case in ratios and (profile.head_tree, profile.reference_tree) == (run.head, references.get(profile.case))
    )
    return report.model_copy(update={"profiles": profiles})
