"""Carry out `ratchet ci push`: enter runs of main into the baseline file of the remote, whoever else writes there.

It fetches from and pushes to the git remote, and asks GitHub for acceptances where there is a token; in a workflow, also whether
this run is the default branch's own. The steps are applied to the file as it is on the remote at that moment, and again for each
try of a push. The runs are kept in the history.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet import tools
from ratchet.common.baseline_steps import BaselineUpdate, Move, Person, accept, joined
from ratchet.common.baseline_text import PushSummary, commit_message, pull_body, title
from ratchet.common.baseline_update import intact, record
from ratchet.common.git_push import (
    FileChange,
    Mode,
    ProtectedBranch,
    PushTarget,
    Remote,
    RemoteFile,
    commit_on,
    push_file,
)
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import GitError, RecordError, UsageError
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, BaselineEntry, StepKind
from ratchet.core.records.files import dumps, loads
from ratchet.core.records.run import Policy, RunRecord
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.request import BASELINE, Request
from ratchet.github.artifact import STATIC, Intake, take_in, take_in_beside
from ratchet.github.errors import ArtifactError
from ratchet.github.event import PushEvent
from ratchet.github.event_file import event_of
from ratchet.github.judge_again import acceptances_of, by_case, with_sent_profiles
from ratchet.github.records import Acceptance, WorkflowRun
from ratchet.github.step import run_url

if TYPE_CHECKING:  # PyGithub is an extra; without a token nothing here needs it
    from ratchet.github.client import GitHub

EVENTS = ("push", "workflow_dispatch")
"""Events of the default branch that may move the baseline."""


def push_baseline(
    artifacts: Sequence[Path],
    github: GitHub | None,
    request: Request,
    environ: Mapping[str, str],
    *,
    remote: str,
    mode: Mode | None,
    onto: str | None,
) -> PushSummary:
    """Enter runs of the main branch into the baseline file of the remote, with what was accepted in their pull requests.

    ``onto``: the branch that was measured; it and the mode may be None: as the checkout and the settings say.
    Without ``github``, acceptances are unknown and a pull request has to be opened by hand. Raises UsageError for a workflow run
    or a run that is not of the main branch, ArtifactError for a run that may not be judged, RecordError for a baseline that
    cannot be read, GitError where nothing could be recorded, ForgeError where GitHub refuses.
    """
    job = run_of_main(onto, github, environ)
    clone = Remote(request.folder, remote)
    settings = load_settings(clone.root, environ, request.options, request.folder)
    main = job.head_branch if job else onto or clone.branch()
    if not main:
        raise UsageError("No branch is checked out, so it is unknown which one was measured.", "Name it with --onto.")
    path, static_path = (_path_in(clone, settings, name) for name in (BASELINE, STATIC))
    target = PushTarget(mode or settings.baseline_mode, main, settings.baseline_branch, (path, static_path))
    if target.mode != "push" and target.main == target.side:
        raise UsageError(f"{target.side} is the branch that was measured.", "Set baseline_branch to another one.")
    taken = [taken_in(artifact, job, environ) for artifact in artifacts]
    runs = tuple(intake.run for intake in taken)
    static, notes = _static_record(artifacts[0], runs[0], target.mode, environ)
    acceptances = unrecorded_acceptances(github, clone, runs, job, environ) if github else ()
    moving = BaselineChange(clone, path, settings.policy, runs, acceptances)
    target, pushed, protected = _pushed(clone, target, path, moving)
    judged = [(run, with_sent_profiles(report, intake)) for intake, (run, report) in zip(taken, moving.measured, strict=True)]
    kept = tools.part("kept_runs").push_runs(clone, settings, target.main, judged, moving.recorded.baseline, run_url(environ))
    notes = (*protected, *moving.notes, *kept, *notes)
    title_of, commit, branch = title(moving.recorded, moving.accepted), pushed, target.branch
    if static is not None:
        target, beside, protected = _pushed(clone, target, static_path, partial(_next_static, clone, static_path, static))
        notes = (*notes, *protected, *([f"{static_path}: pushed {beside[:10]}."] if beside else []))
        if commit is None:
            title_of, commit = TITLE, beside
    done = PushSummary(path, target.mode, branch, pushed, moving.recorded, moving.accepted, notes)
    if target.mode != "pull-request" or commit is None:
        return done
    if github is None:
        return replace(done, notes=(*notes, f"There is no GITHUB_TOKEN: open the pull request of {target.side} by hand."))
    words = (title_of, pull_body(done.recorded, done.accepted, done.path))
    return replace(done, pull_url=github.open_pull(*words, target.side, target.main, draft=False).url)


def _pushed(
    remote: Remote, target: PushTarget, path: str, change: Callable[[PushTarget, RemoteFile], FileChange | None]
) -> tuple[PushTarget, str | None, tuple[str, ...]]:
    """Push a file; where main takes no push, for a pull request. Return where it went, its commit, and a note."""
    try:
        return target, push_file(remote, target, path, partial(change, target)), ()
    except ProtectedBranch as error:
        if target.mode != "push" or target.main == target.side:
            raise
        target = replace(target, mode="pull-request")
        note = f"{error.message} A pull request takes its place."
        return target, push_file(remote, target, path, partial(change, target)), (note,)


def _static_record(artifact: Path, run: RunRecord, mode: Mode, environ: Mapping[str, str]) -> tuple[Any, tuple[str, ...]]:
    """Return the static record that was made with a run, and why there is none though the artifact has a file of that name."""
    try:
        with tempfile.TemporaryDirectory(prefix="ratchet-artifact-", dir=environ.get("RUNNER_TEMP")) as workspace:
            recorded = take_in_beside(artifact, STATIC, Path(workspace))
    except ArtifactError as error:
        return None, (f"The static record was left out: {error.message}",)
    if recorded is None or (recorded.tree.commit, recorded.tree.content) != (run.head.commit, run.head.content):
        return None, ()  # that of an earlier commit, which the job left as it was since it still holds
    if recorded.tree.dirty:
        return None, ("The static record was left out: the tree had uncommitted changes.",)
    if mode == "branch":
        return None, ("The static record was left out: it belongs on main, which is never written in the mode branch.",)
    return recorded, ()


def unrecorded_acceptances(
    github: GitHub, clone: Remote, runs: Sequence[RunRecord], job: WorkflowRun | None, environ: Mapping[str, str]
) -> tuple[Acceptance, ...]:
    """Return the acceptances of the pull requests of all commits that no run has recorded, the latest first for each case.

    These are the measured commits and those before them, back to the last one that such a run recorded, by GitHub's own list.
    A push may go unrecorded: `[skip ci]` in the title of a squash, or no runner. Without such a run, those of the same push: a
    merge queue pushes several pull requests at once.
    """
    last = github.last_success(job.path, job.head_branch, job.id) if job else None
    before = last.head_sha if last else ""
    if not before and environ.get("GITHUB_EVENT_NAME") == "push" and environ.get("GITHUB_EVENT_PATH"):
        event = event_of(environ)
        before = event.before if isinstance(event, PushEvent) else ""
    found = [clone.first_parents(before, run.head.commit) if before else [run.head.commit] for run in runs]
    commits = dict.fromkeys(commit for commits in found for commit in commits)
    pulls = {pull.number: pull for commit in commits for pull in github.pulls_of_commit(commit) if pull.merged}.values()
    return tuple(acceptance for pull in pulls for acceptance in acceptances_of(github, pull, github.comments(pull.number)))


def run_of_main(onto: str | None, github: GitHub | None, environ: Mapping[str, str]) -> WorkflowRun | None:
    """Return the workflow run of this job as GitHub describes it; None outside a workflow.

    Raises UsageError unless a push to the default branch, or a dispatch on it, started it: on another branch the workflow file,
    the settings and the measured code are that branch's own, and any of its commits would become the baseline of all.
    """
    number = environ.get("GITHUB_RUN_ID", "")
    if not number:
        return None
    if github is None or not number.isdecimal():
        wrong = "GITHUB_TOKEN is not set" if github is None else f"GITHUB_RUN_ID is {number}"
        raise UsageError(f"{wrong}, so GitHub cannot say which branch this run is of.", "Set it as the shipped workflow does.")
    run, main = github.workflow_run(int(number)), github.default_branch()
    is_ours = (run.head_repository or "").casefold() == github.repository.casefold()
    if run.event not in EVENTS or not is_ours or {run.head_branch, onto or main} != {main}:
        raise UsageError(
            f"This run is of the event {run.event} on {onto or run.head_branch or 'no branch'}{'' if is_ours else ' of a fork'}: "
            f"only pushes to {main}, and dispatches on it, move the baseline.",
            f"Merge first; then the push measures it. To measure again, start the workflow on {main}.",
        )
    return run


def taken_in(artifact: Path, job: WorkflowRun | None, environ: Mapping[str, str]) -> Intake:
    """Return the run of an artifact, and its profiles. Raises ArtifactError, UsageError for another commit than the job's."""
    with tempfile.TemporaryDirectory(prefix="ratchet-artifact-", dir=environ.get("RUNNER_TEMP")) as workspace:
        intake = take_in(artifact, Path(workspace))
    run = intake.run
    if job and run.head.commit != job.head_sha:
        raise UsageError(
            f"The run is of {run.head.commit[:10] or 'no commit'}, and this job is for {job.head_sha[:10]}.",
            "Let the job that measures check out github.sha.",
        )
    return intake


def _path_in(clone: Remote, settings: Settings, name: str) -> str:
    path = (clone.root / settings.results / name).resolve()
    if not path.is_relative_to(clone.root.resolve()):
        raise UsageError(f"{path} is outside the repository, so it cannot be committed.", "Set results in [tool.ratchet].")
    return path.relative_to(clone.root.resolve()).as_posix()


# One try of a push: the next baseline file, computed from the present one.


@dataclass
class BaselineChange:
    """The steps of some runs. `push_file` calls it once per try; the results of the last call are kept."""

    remote: Remote
    path: str
    policy: Policy
    runs: tuple[RunRecord, ...]
    acceptances: tuple[Acceptance, ...]
    recorded: BaselineUpdate = field(default_factory=lambda: BaselineUpdate(Baseline(), (), (), {}, {}))
    measured: tuple[tuple[RunRecord, ReportRecord], ...] = ()
    accepted: tuple[Move, ...] = ()
    notes: tuple[str, ...] = ()

    def __call__(self, target: PushTarget, file: RemoteFile) -> FileChange | None:
        """Return the next file; None if nothing changes. Raises GitError, RecordError or UsageError before a push."""
        main = _of_branch(file.content, f"{self.path} of {target.main}")
        waiting = None if file.waiting is None else _of_branch(file.waiting, f"{self.path} of {target.side}")
        apart = target.mode == "branch"
        before = main if waiting is None else waiting if apart else joined(main, waiting)
        measured = []
        for run in self.runs:
            commit = commit_on(self.remote, file.main, run.head.commit, run.head.content)
            if commit is None:
                raise GitError(
                    f"{run.head.commit[:10]} is no longer on {target.main}: nothing was recorded.",
                    "The next run on that branch records what is there now.",
                )
            landed = run.model_copy(update={"head": run.head.model_copy(update={"commit": commit})})
            measured.append((landed, judge_run(landed, before, self.policy)))
        self.measured = tuple(measured)
        self.recorded = record(before, self.measured)
        after, self.accepted, self.notes = with_accepted(self.recorded.baseline, self.measured, self.acceptances)
        if after in ((waiting or Baseline(),) if apart else (main, waiting)):
            return None
        return FileChange(dumps(after).encode(), commit_message(self.recorded, self.accepted, target.mode))


def _of_branch(content: bytes | None, name: str) -> Baseline:
    """Read the baseline of a branch, empty for no file. Raises RecordError."""
    return Baseline() if content is None else intact(loads(content, name, Baseline), name)


def with_accepted(
    baseline: Baseline, measured: Sequence[tuple[RunRecord, ReportRecord]], acceptances: Sequence[Acceptance]
) -> tuple[Baseline, tuple[Move, ...], tuple[str, ...]]:
    """Move each accepted case to the head that was measured; return the baseline, the moves, and why others did not move.

    A case that the same acceptance moved before stays: a job may run again, or look back further than the last that recorded.
    """
    accepted: list[Move] = []
    notes: list[str] = []
    for run, report in measured:
        for acceptance in by_case(acceptances, report):
            entry = baseline.entries(run.environment.fingerprint).get(acceptance.case)
            taken = [step.commit for step in entry.steps if step.kind is StepKind.ACCEPTED] if entry else []
            if run.head.commit in taken or (entry and entry.git_commit == run.head.commit):
                continue
            if is_of_another(acceptance, entry, run.head.commit):
                continue
            try:
                baseline, moved = accept(
                    baseline, run, report, [acceptance.case], Person(acceptance.by, acceptance.reason, acceptance.at)
                )
            except UsageError as error:
                notes.append(f"{acceptance.case} was accepted by {acceptance.by}, but does not move: {error.message}")
            else:
                accepted += moved
    return baseline, tuple(accepted), tuple(dict.fromkeys(notes))


def is_of_another(acceptance: Acceptance, entry: BaselineEntry | None, commit: str) -> bool:
    """Return whether the acceptance moved its case to another commit before, so that it says nothing of this one."""
    own = (StepKind.ACCEPTED, acceptance.by, acceptance.reason, acceptance.at)
    steps = entry.steps if entry else ()
    return any((step.kind, step.by, step.reason, step.timestamp) == own and step.commit != commit for step in steps)


# The record for verdicts without a GPU (``static.json``), which stands beside the baseline.

TITLE = "perf: ratchet static record"


def _next_static(remote: Remote, path: str, recorded: Any, target: PushTarget, file: RemoteFile) -> FileChange | None:
    """Return the file with the record of a measured commit; None where the branch has that of this commit or a later one.

    Raises GitError for a lost commit.
    """
    tree = recorded.tree
    commit = commit_on(remote, file.main, tree.commit, tree.content)
    if commit is None:
        raise GitError(f"{tree.commit[:10]} is no longer on {target.main}: its static record was dropped.", "")
    there = file.content if file.waiting is None else file.waiting
    with contextlib.suppress(RecordError):  # one that nobody can read is replaced
        if there and remote.is_ancestor(commit, loads(there, path, tools.records()["static"]).tree.commit):
            return None
    landed = recorded.model_copy(update={"tree": tree.model_copy(update={"commit": commit})})
    skip = " [skip ci]" if target.mode == "push" else ""
    return FileChange(dumps(landed).encode(), f"{TITLE} of {commit[:10]}{skip}")
