"""What GitHub wrote to ``GITHUB_EVENT_PATH`` → what happened, as one of a few plain values.

Every text in a payload may have been chosen by a stranger: titles, branches, comments. A field that is missing, of another type
or of an impossible shape ends in UsageError, with the name of the field and never its content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ratchet.errors import UsageError

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_LONGEST = 1024
"""Characters of a name of a branch, workflow, label or input."""
_LONGEST_BODY = 262_144
"""Of a comment: 65,536 characters, and room for what counts as more than one."""
_HINT = "Run it in a workflow, where GITHUB_EVENT_PATH names the event's payload."


@dataclass(frozen=True)
class PullRequest:
    """Something happened to a pull request: opened, new commits, closed."""

    action: str
    number: int
    head_sha: str
    head_ref: str
    head_repository: str | None
    """None where the fork is gone."""
    base_sha: str
    base_ref: str


@dataclass(frozen=True)
class Push:
    """A branch or tag moved."""

    sha: str
    """All zeros where it was deleted."""
    ref: str
    """``refs/heads/main``."""
    before: str
    forced: bool
    deleted: bool


@dataclass(frozen=True)
class MergeGroup:
    """A merge queue wants a check of what it would merge."""

    action: str
    head_sha: str
    head_ref: str
    base_sha: str
    base_ref: str


@dataclass(frozen=True)
class WorkflowRunDone:
    """A run of another workflow. Its numbers of pull requests are left out: they are empty for forks."""

    action: str
    run_id: int
    name: str
    path: str
    event: str
    """What started it: ``pull_request``, ``push`` …"""
    head_sha: str
    head_branch: str
    """Empty where GitHub gives none."""
    head_repository: str | None
    conclusion: str | None
    attempt: int
    url: str


@dataclass(frozen=True)
class CommentMade:
    """A comment under an issue or a pull request."""

    action: str
    comment_id: int
    number: int
    author: str
    body: str
    on_pull_request: bool


@dataclass(frozen=True)
class Labelled:
    """A label was put on a pull request, or taken off."""

    action: str
    number: int
    label: str
    actor: str
    head_sha: str


@dataclass(frozen=True)
class Dispatched:
    """A person or a workflow started the workflow with these inputs, each as text."""

    ref: str
    actor: str
    inputs: Mapping[str, str]


Event = PullRequest | Push | MergeGroup | WorkflowRunDone | CommentMade | Labelled | Dispatched


def parse_event(name: str, payload: Mapping[str, object]) -> Event:
    """The event called ``name`` (``GITHUB_EVENT_NAME``). Raises UsageError for one that ratchet does not act on, or a payload
    that is none of GitHub's.
    """
    reader = _READERS.get(name)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise UsageError("This event is none that ratchet acts on.", f"It acts on {known}.")
    return reader(_Payload(name, payload))


@dataclass(frozen=True)
class _Payload:
    """Fields by their dotted names, each of the type asked for."""

    name: str
    document: Mapping[str, object]

    def find(self, place: str) -> object:
        """None where it is null or absent."""
        here: object = self.document
        for step in place.split("."):
            if here is None:
                return None
            if not isinstance(here, Mapping):
                raise self.wrong(place, "stands in no object")
            here = here.get(step)
        return here

    def text(self, place: str, longest: int = _LONGEST) -> str:
        value = self.find(place)
        if not isinstance(value, str):
            raise self.wrong(place, "is no text")
        if len(value) > longest:
            raise self.wrong(place, f"has more than {longest} characters")
        return value

    def perhaps(self, place: str) -> str | None:
        return None if self.find(place) is None else self.text(place)

    def number(self, place: str) -> int:
        value = self.find(place)
        if type(value) is not int or not 0 < value < 2**63:
            raise self.wrong(place, "is no number of GitHub's")
        return value

    def sha(self, place: str) -> str:
        return self._matching(place, _SHA, "is no hash of a commit")

    def repository(self, place: str) -> str | None:
        return None if self.find(place) is None else self._matching(place, _REPOSITORY, "is no OWNER/NAME")

    def flag(self, place: str) -> bool:
        value = self.find(place)
        if not isinstance(value, bool | None):
            raise self.wrong(place, "is neither true nor false")
        return value or False

    def wrong(self, place: str, what: str) -> UsageError:
        return UsageError(f"The payload of the event {self.name} is none of GitHub's: {place} {what}.", _HINT)

    def _matching(self, place: str, pattern: re.Pattern[str], what: str) -> str:
        value = self.text(place)
        if not pattern.fullmatch(value):
            raise self.wrong(place, what)
        return value


def _pull_request(payload: _Payload) -> PullRequest | Labelled:
    action = payload.text("action")
    if action in ("labeled", "unlabeled"):
        return Labelled(
            action=action,
            number=payload.number("pull_request.number"),
            label=payload.text("label.name"),
            actor=payload.text("sender.login"),
            head_sha=payload.sha("pull_request.head.sha"),
        )
    return PullRequest(
        action=action,
        number=payload.number("pull_request.number"),
        head_sha=payload.sha("pull_request.head.sha"),
        head_ref=payload.text("pull_request.head.ref"),
        head_repository=payload.repository("pull_request.head.repo.full_name"),
        base_sha=payload.sha("pull_request.base.sha"),
        base_ref=payload.text("pull_request.base.ref"),
    )


def _push(payload: _Payload) -> Push:
    return Push(
        sha=payload.sha("after"),
        ref=payload.text("ref"),
        before=payload.sha("before"),
        forced=payload.flag("forced"),
        deleted=payload.flag("deleted"),
    )


def _merge_group(payload: _Payload) -> MergeGroup:
    return MergeGroup(
        action=payload.text("action"),
        head_sha=payload.sha("merge_group.head_sha"),
        head_ref=payload.text("merge_group.head_ref"),
        base_sha=payload.sha("merge_group.base_sha"),
        base_ref=payload.text("merge_group.base_ref"),
    )


def _workflow_run(payload: _Payload) -> WorkflowRunDone:
    return WorkflowRunDone(
        action=payload.text("action"),
        run_id=payload.number("workflow_run.id"),
        name=payload.perhaps("workflow_run.name") or "",
        path=payload.text("workflow_run.path"),
        event=payload.text("workflow_run.event"),
        head_sha=payload.sha("workflow_run.head_sha"),
        head_branch=payload.perhaps("workflow_run.head_branch") or "",
        head_repository=payload.repository("workflow_run.head_repository.full_name"),
        conclusion=payload.perhaps("workflow_run.conclusion"),
        attempt=payload.number("workflow_run.run_attempt"),
        url=payload.text("workflow_run.html_url"),
    )


def _issue_comment(payload: _Payload) -> CommentMade:
    return CommentMade(
        action=payload.text("action"),
        comment_id=payload.number("comment.id"),
        number=payload.number("issue.number"),
        author=payload.text("comment.user.login"),
        body=payload.text("comment.body", _LONGEST_BODY),
        on_pull_request=payload.find("issue.pull_request") is not None,
    )


def _dispatch(payload: _Payload) -> Dispatched:
    inputs = payload.find("inputs") or {}
    if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):
        raise payload.wrong("inputs", "is no object")
    return Dispatched(
        ref=payload.text("ref"),
        actor=payload.text("sender.login"),
        inputs=MappingProxyType({name: _input(payload, value) for name, value in inputs.items()}),
    )


def _input(payload: _Payload, value: object) -> str:
    """Inputs are texts; some versions of the runner give a box that was ticked as true."""
    if isinstance(value, bool):
        return str(value).lower()
    text = "" if value is None else value
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise payload.wrong("inputs", "holds something else than short texts")
    return text


_READERS: dict[str, Callable[[_Payload], Event]] = {
    "pull_request": _pull_request,
    "pull_request_target": _pull_request,
    "push": _push,
    "merge_group": _merge_group,
    "workflow_run": _workflow_run,
    "issue_comment": _issue_comment,
    "workflow_dispatch": _dispatch,
}
