"""`ratchet baseline push`: what main measured becomes the next baseline on the remote, whoever else writes there too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.config import Settings, load_settings
from ratchet.errors import UsageError
from ratchet.forge.push import Mode, Protected, Target, push_file
from ratchet.forge.remote import Remote
from ratchet.judge.event import Push
from ratchet.pipeline.accepting import acceptances_of
from ratchet.pipeline.moving import Moving
from ratchet.pipeline.request import BASELINE, Request
from ratchet.pipeline.subject import event_of
from ratchet.records.acceptance import Acceptance
from ratchet.records.files import load
from ratchet.records.run import RunRecord
from ratchet.report.forward import Forward, pull_body, title

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub


@dataclass(frozen=True)
class Way:
    """How the baseline shall reach the remote; None: as the settings and the checkout say."""

    remote: str = "origin"
    mode: Mode | None = None
    onto: str | None = None
    """The branch that was measured."""


def push_baseline(
    recorded: Sequence[Path], way: Way, github: GitHub | None, request: Request, environ: Mapping[str, str]
) -> Forward:
    """Enter runs of the main branch into the baseline file of the remote, with what was accepted in their pull requests.

    Without ``github`` nothing is known of acceptances, and a pull request has to be opened by hand. Raises UsageError and
    RecordError for runs that are none of main's, GitError where nothing could be recorded, ForgeError where GitHub refuses.
    """
    clone = Remote(request.folder, way.remote)
    settings = load_settings(clone.root, environ, request.options)
    target = Target(way.mode or settings.baseline_mode, way.onto or _branch(clone, environ), settings.baseline_branch)
    if target.mode != "push" and target.main == target.side:
        raise UsageError(f"{target.side} is the branch that was measured.", "Set baseline_branch to another one.")
    runs = tuple(_checked(load(each, RunRecord), environ) for each in recorded)
    offered = _acceptances(github, _brought(clone, runs, environ)) if github else ()
    moving = Moving(clone, target, _path_in(clone, settings), settings.policy, runs, offered)
    notes: tuple[str, ...] = ()
    try:
        pushed = push_file(clone, target, moving.path, moving)
    except Protected as error:
        if target.mode != "push" or target.main == target.side:
            raise
        notes = (f"{error.message} It goes by a pull request instead.",)
        target = replace(target, mode="pull-request")
        moving = replace(moving, target=target)
        pushed = push_file(clone, target, moving.path, moving)
    steps = (moving.recorded, moving.accepted)
    done = Forward(moving.path, target.mode, pushed.branch, pushed.commit, *steps, (*notes, *moving.notes))
    return _carried(done, target, github) if target.mode == "pull-request" and pushed.commit else done


def _carried(done: Forward, target: Target, github: GitHub | None) -> Forward:
    """The same with the pull request that carries the branch to main: the one that is open already, or a new one."""
    if github is None:
        return replace(done, notes=(*done.notes, f"There is no GITHUB_TOKEN: open the pull request of {target.side} by hand."))
    words = (title(done.recorded, done.accepted), pull_body(done.recorded, done.accepted, done.path))
    return replace(done, pull_url=github.open_pull(*words, target.side, target.main, draft=False).url)


def _brought(clone: Remote, runs: Sequence[RunRecord], environ: Mapping[str, str]) -> list[str]:
    """The measured commits, and those that the same push brought: a merge queue pushes several pull requests at once."""
    event = event_of(environ) if environ.get("GITHUB_EVENT_NAME") == "push" and environ.get("GITHUB_EVENT_PATH") else None
    before = event.before if isinstance(event, Push) else ""
    commits = [each for run in runs for each in (clone.first_parents(before, run.head.commit) if before else [run.head.commit])]
    return list(dict.fromkeys(commits))


def _acceptances(github: GitHub, commits: Sequence[str]) -> tuple[Acceptance, ...]:
    """What was accepted in the pull requests that brought these commits."""
    merged = {pull.number: pull for commit in commits for pull in github.pulls_of_commit(commit) if pull.merged}
    return tuple(each for pull in merged.values() for each in acceptances_of(github, pull, github.comments(pull.number)))


def _checked(run: RunRecord, environ: Mapping[str, str]) -> RunRecord:
    pushed = environ.get("GITHUB_SHA") if environ.get("GITHUB_EVENT_NAME") == "push" else None
    if pushed and run.head.commit != pushed:
        raise UsageError(
            f"The run is of {run.head.commit[:10]}, and this job is for the push of {pushed[:10]}.",
            "Let the job that measures check out github.sha.",
        )
    return run


def _branch(clone: Remote, environ: Mapping[str, str]) -> str:
    named = environ.get("GITHUB_REF_NAME") if environ.get("GITHUB_REF_TYPE") == "branch" else None
    branch = named or clone.branch()
    if not branch:
        raise UsageError("No branch is checked out, so nobody knows which one was measured.", "Name it with --onto.")
    return branch


def _path_in(clone: Remote, settings: Settings) -> str:
    path = (clone.root / settings.results / BASELINE).resolve()
    if not path.is_relative_to(clone.root.resolve()):
        raise UsageError(f"{path} is outside the repository, so nobody can commit it.", "Set results in [tool.ratchet].")
    return path.relative_to(clone.root.resolve()).as_posix()
