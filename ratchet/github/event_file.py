"""Find the workflow run to publish and its pull request, from the event and GitHub's API, never from measured data.

`ratchet ci publish` calls `subject_of`; `ratchet ci command` and `ratchet ci push` read their event with `event_of`. It reads the
event's file and asks GitHub; it changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.core.errors import UsageError
from ratchet.github.event import CommentEvent, DispatchEvent, Event, LabelEvent, WorkflowRunEvent, parse_event
from ratchet.github.provenance import is_foreign, measuring_path
from ratchet.github.records import Pull, WorkflowRun

if TYPE_CHECKING:  # PyGithub is an extra, and `ratchet ci push` does without it
    from ratchet.github.client import GitHub

LARGEST_EVENT = 25 * 2**20
"""Most bytes of an event; GitHub delivers no larger payload."""
_QUEUE = re.compile(r"gh-readonly-queue/(.+)/pr-\d+-([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_PULL_EVENTS = ("pull_request", "pull_request_target")


@dataclass(frozen=True)
class Subject:
    """A workflow run, and the pull request or branch that its verdict goes to."""

    run: WorkflowRun
    base_ref: str
    """The branch whose settings and baseline hold."""
    pull: Pull | None = None
    queued_onto: str = ""
    """In a merge queue, the commit that this entry is made on."""
    merge_base: str = ""
    """The commit where the pull request's head left ``base_ref``; empty where GitHub does not know it."""
    ended: str = ""
    """``stale``, ``closed``, ``skipped``, ``waiting``, ``foreign``, ``kept`` or ``older``: there is nothing to publish."""
    why: str = ""
    """One sentence about that."""


def event_of(environ: Mapping[str, str]) -> Event:
    """Read the event that started this job. Raises UsageError outside a workflow, and for an unknown event."""
    name, place = environ.get("GITHUB_EVENT_NAME"), environ.get("GITHUB_EVENT_PATH")
    hint = "Run it in a workflow; `ratchet ci publish` also takes --run-id."
    if not name or not place:
        raise UsageError("GITHUB_EVENT_NAME or GITHUB_EVENT_PATH is not set, so this is not a job of a workflow.", hint)
    try:
        with Path(place).open("rb") as stream:
            content = stream.read(LARGEST_EVENT + 1)
        payload = json.loads(content) if len(content) <= LARGEST_EVENT else None
    except OSError as error:
        raise UsageError(f"The event {place} cannot be read: {error.strerror}.", hint) from None
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise UsageError(f"The event {place} is not a JSON object.", hint)
    return parse_event(name, payload)


def subject_of(run_id: int | None, github: GitHub, environ: Mapping[str, str]) -> Subject:
    """Find the run that is named, else the one of the event, and its pull request.

    Raises UsageError where no run is named, ForgeError where GitHub does not know it.
    """
    event = None if run_id else event_of(environ)
    run = github.workflow_run(run_id or _run_of(event, environ))
    ended = why = ""
    if isinstance(event, WorkflowRunEvent) and event.attempt < run.attempt:
        ended = "older"
        why = f"Attempt {event.attempt} of run {run.id} has ended, and attempt {run.attempt} has begun since: that one reports."
    elif is_foreign(run, environ):
        ended = "foreign"
        why = f"Run {run.id} is of {run.path}, not of {measuring_path(environ)}: only samples of that workflow are published."
    elif run.conclusion == "skipped":
        ended, why = "skipped", f"Run {run.id} was skipped, so nothing was measured and nothing is published."
    elif run.conclusion == "action_required":  # GitHub calls such a run completed, and sends its event
        ended = "waiting"
        why = f"Run {run.id} waits until a person with write access approves it, so nothing is published yet."
    if ended:
        return Subject(run, github.default_branch(), ended=ended, why=why)
    if run.event in _PULL_EVENTS:
        pulls = github.find_pulls(run.head_repository, run.head_branch) if run.head_repository else ()
        if any(pull.head_sha == run.head_sha for pull in pulls):
            pulls = (*pulls, *_open_at_head(run, github))
        return _pull_subject(run, pulls, github)
    queue = _QUEUE.fullmatch(run.head_branch) if run.event == "merge_group" else None  # anybody may push such a branch
    if queue:
        return Subject(run, queue[1], queued_onto=queue[2])
    # A check run on the head of a pull request counts there, whatever started the run: it is that pull request's.
    pulls = _open_at_head(run, github)
    return _pull_subject(run, pulls, github) if pulls else Subject(run, github.default_branch())


def _open_at_head(run: WorkflowRun, github: GitHub) -> tuple[Pull, ...]:
    """Return the open pull requests whose head was measured, from whatever branch: they share a check run."""
    return tuple(pull for pull in github.pulls_of_commit(run.head_sha) if (pull.state, pull.head_sha) == ("open", run.head_sha))


def _run_of(event: Event | None, environ: Mapping[str, str]) -> int:
    if isinstance(event, WorkflowRunEvent):
        return event.run_id
    named = event.inputs.get("run_id", "") if isinstance(event, DispatchEvent) else ""
    if not named and not isinstance(event, CommentEvent | LabelEvent | DispatchEvent):
        named = environ.get("GITHUB_RUN_ID", "")  # measured in an earlier job of this very run
    if not re.fullmatch(r"[1-9][0-9]{0,18}", named):
        raise UsageError("Nothing says which run is to be published.", "Name it with --run-id.")
    return int(named)


def _pull_subject(run: WorkflowRun, pulls: Sequence[Pull], github: GitHub) -> Subject:
    """Find the pull request whose head was measured, among those from its branch: GitHub names none for a fork."""
    measured = [pull for pull in pulls if pull.head_sha == run.head_sha]
    commit, default = run.head_sha[:10], github.default_branch()
    if measured:
        pull = min(measured, key=lambda pull: (pull.base_ref != default, pull.number))
        return Subject(run, pull.base_ref, pull, merge_base=github.merge_base(pull.base_ref, run.head_sha) or "")
    if pulls:
        why = (
            f"{commit} was measured, but the head of #{pulls[0].number} is {pulls[0].head_sha[:10]} by now: its own run reports."
        )
        return Subject(run, pulls[0].base_ref, ended="stale", why=why)
    why = f"No open pull request has the head {commit}: it was closed or merged, or its branch is gone. Nothing is published."
    return Subject(run, default, ended="closed", why=why)
