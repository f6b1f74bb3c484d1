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
_LONGEST = 1024
"""Characters of a name of a branch, workflow, label or input."""
_LONGEST_BODY = 262_144
"""Of a comment: 65,536 characters, and room for what counts as more than one."""
_HINT = "Run it in a workflow, where GITHUB_EVENT_PATH names the event's payload."


@dataclass(frozen=True)
class Change:
    """Something happened to a pull request, or a merge queue wants a check. All about it is asked of GitHub's API."""


@dataclass(frozen=True)
class Push:
    """A branch or tag moved."""

    before: str
    """All zeros where there was none."""


@dataclass(frozen=True)
class WorkflowRunDone:
    """A run of another workflow. Everything else about it is asked of GitHub's API."""

    run_id: int


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

    actor: str
    inputs: Mapping[str, str]


Event = Change | Push | WorkflowRunDone | CommentMade | Labelled | Dispatched


def parse_event(name: str, payload: Mapping[str, object]) -> Event:
    """The event called ``name`` (``GITHUB_EVENT_NAME``). Raises UsageError for one that ratchet does not act on, or a payload
    that is none of GitHub's.
    """
    reader = _READERS.get(name)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise UsageError("ratchet does not handle this event.", f"It handles {known}.")
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
            raise self.wrong(place, "is not text")
        if len(value) > longest:
            raise self.wrong(place, f"has more than {longest} characters")
        return value

    def number(self, place: str) -> int:
        value = self.find(place)
        if type(value) is not int or not 0 < value < 2**63:
            raise self.wrong(place, "is not a valid GitHub ID")
        return value

    def sha(self, place: str) -> str:
        value = self.text(place)
        if not _SHA.fullmatch(value):
            raise self.wrong(place, "is not the hash of a commit")
        return value

    def wrong(self, place: str, what: str) -> UsageError:
        return UsageError(f"The payload of the event {self.name} is none of GitHub's: {place} {what}.", _HINT)


def _pull_request(payload: _Payload) -> Change | Labelled:
    action = payload.text("action")
    if action not in ("labeled", "unlabeled"):
        return Change()
    return Labelled(
        action=action,
        number=payload.number("pull_request.number"),
        label=payload.text("label.name"),
        actor=payload.text("sender.login"),
        head_sha=payload.sha("pull_request.head.sha"),
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
    "merge_group": lambda _: Change(),
    "push": lambda payload: Push(payload.sha("before")),
    "workflow_run": lambda payload: WorkflowRunDone(payload.number("workflow_run.id")),
    "issue_comment": _issue_comment,
    "workflow_dispatch": _dispatch,
}
