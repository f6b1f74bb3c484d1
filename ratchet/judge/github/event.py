"""Read what GitHub wrote to ``GITHUB_EVENT_PATH``.

The commands that run in a workflow call `parse_event` with the parsed file. Pure.

A stranger may have chosen every text in a payload: titles, branches, comments. A field that is missing, of another type or of an
impossible shape ends in UsageError, with the name of the field and never its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from ratchet.errors import UsageError

_LONGEST = 1024
"""Most characters of the name of a branch, workflow, label or input."""
Text = Annotated[str, StringConstraints(max_length=_LONGEST)]
Body = Annotated[str, StringConstraints(max_length=262_144)]
"""GitHub allows 65,536 characters, some of which count as more than one here."""
Id = Annotated[int, Field(gt=0, lt=2**63)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")]


def _at(field: str, *inner: str) -> Any:
    return Field(validation_alias=AliasPath(field, *inner))


class _Payload(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class ChangeEvent(_Payload):
    """Something happened to a pull request, or a merge queue wants a check. GitHub's API says the rest."""

    action: Text


class PushEvent(_Payload):
    """A branch or tag moved."""

    before: Sha
    """All zeros where there was none."""


class WorkflowRunEvent(_Payload):
    """A run of another workflow ended. GitHub's API says the rest."""

    run_id: Id = _at("workflow_run", "id")
    attempt: Id = Field(default=1, validation_alias=AliasPath("workflow_run", "run_attempt"))


class CommentEvent(_Payload):
    """A comment under an issue or a pull request."""

    action: Text
    comment_id: Id = _at("comment", "id")
    number: Id = _at("issue", "number")
    author: Text = _at("comment", "user", "login")
    body: Body = _at("comment", "body")
    pull_request: Any = Field(default=None, validation_alias=AliasPath("issue", "pull_request"))
    """None under an issue."""


class LabelEvent(_Payload):
    """A label was put on a pull request, or taken off."""

    action: Text
    number: Id = _at("pull_request", "number")
    label: Text = _at("label", "name")
    actor: Text = _at("sender", "login")
    head_sha: Sha = _at("pull_request", "head", "sha")


class DispatchEvent(_Payload):
    """A person or a workflow started the workflow with these inputs, each as text."""

    actor: Text = _at("sender", "login")
    inputs: dict[str, str] = {}

    @field_validator("inputs", mode="before")
    @classmethod
    def _as_texts(cls, value: object) -> dict[str, str]:
        """Turn every input into text: some runner versions give a ticked box as true, and an input without a value as null."""
        if value is not None and not (isinstance(value, dict) and all(isinstance(name, str) for name in value)):
            raise ValueError("it is not an object")
        texts = {name: str(v).lower() if isinstance(v, bool) else "" if v is None else v for name, v in (value or {}).items()}
        if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts.values()):
            raise ValueError("it holds something else than short texts")
        return texts


Event = ChangeEvent | PushEvent | WorkflowRunEvent | CommentEvent | LabelEvent | DispatchEvent
_KINDS: dict[str, type[Event]] = {
    "pull_request": ChangeEvent,
    "pull_request_target": ChangeEvent,
    "merge_group": ChangeEvent,
    "push": PushEvent,
    "workflow_run": WorkflowRunEvent,
    "issue_comment": CommentEvent,
    "workflow_dispatch": DispatchEvent,
}


def parse_event(name: str, payload: Mapping[str, object]) -> Event:
    """Read the payload of the event ``name`` (``GITHUB_EVENT_NAME``).

    Raises UsageError for an event that ratchet does not handle, and for a payload that GitHub does not write.
    """
    if name not in _KINDS:
        raise UsageError("ratchet does not handle this event.", f"It handles {', '.join(sorted(_KINDS))}.")
    try:
        event = _KINDS[name].model_validate(payload)
        if isinstance(event, ChangeEvent) and event.action in ("labeled", "unlabeled"):
            event = LabelEvent.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"The payload of the event {name} is not as GitHub writes it: {place}: {first['msg']}.",
            "Run it in a workflow, where GITHUB_EVENT_PATH names the event's payload.",
        ) from None
    return event
