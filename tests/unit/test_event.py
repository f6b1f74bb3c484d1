"""Payloads of GitHub's events."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.errors import UsageError
from ratchet.github.event import (
    ChangeEvent,
    CommentEvent,
    DispatchEvent,
    Event,
    LabelEvent,
    PushEvent,
    WorkflowRunEvent,
    parse_event,
)

SHA, BASE = "3f" * 20, "9e" * 20
PULL = {
    "number": 7,
    "head": {"sha": SHA, "ref": "topic`$(x)`", "repo": {"full_name": "octocat/kernels"}},
    "base": {"sha": BASE, "ref": "main"},
}
RUN = {
    "id": 900,
    "name": "CUDA benchmark ratchet",
    "path": ".github/workflows/cuda_benchmark_ratchet.yml",
    "event": "pull_request",
    "head_sha": SHA,
    "head_branch": "topic",
    "head_repository": {"full_name": "octocat/kernels"},
    "conclusion": "success",
    "run_attempt": 2,
    "html_url": "https://github.com/octocat/kernels/actions/runs/900",
    "pull_requests": [],
}
COMMENT = {
    "action": "created",
    "comment": {"id": 11, "user": {"login": "octocat"}, "body": "/ratchet profile a/b"},
    "issue": {"number": 7, "pull_request": {"url": "x"}},
}
EVENTS: dict[str, dict[str, Any]] = {
    "pull_request": {"action": "synchronize", "pull_request": PULL},
    "pull_request_target": {
        "action": "labeled",
        "pull_request": PULL,
        "label": {"name": "ratchet:accept"},
        "sender": {"login": "a-maintainer"},
    },
    "push": {"after": SHA, "before": BASE, "ref": "refs/heads/main", "forced": True, "deleted": False},
    "merge_group": {
        "action": "checks_requested",
        "merge_group": {"head_sha": SHA, "head_ref": "refs/heads/q", "base_sha": BASE, "base_ref": "refs/heads/main"},
    },
    "workflow_run": {"action": "completed", "workflow_run": RUN},
    "issue_comment": COMMENT,
    "workflow_dispatch": {
        "ref": "refs/heads/main",
        "sender": {"login": "octocat"},
        "inputs": {"pr": "7", "draft": True, "x": None},
    },
}
PARSED: dict[str, tuple[type[Event], dict[str, Any]]] = {
    "pull_request": (ChangeEvent, {"action": "synchronize"}),
    "pull_request_target": (
        LabelEvent,
        {"action": "labeled", "number": 7, "label": "ratchet:accept", "actor": "a-maintainer", "head_sha": SHA},
    ),
    "push": (PushEvent, {"before": BASE}),
    "merge_group": (ChangeEvent, {"action": "checks_requested"}),
    "workflow_run": (WorkflowRunEvent, {"run_id": 900, "attempt": 2}),
    "issue_comment": (
        CommentEvent,
        {
            "action": "created",
            "comment_id": 11,
            "number": 7,
            "author": "octocat",
            "body": "/ratchet profile a/b",
            "pull_request": {"url": "x"},
        },
    ),
}


@pytest.mark.parametrize("name", PARSED)
def test_each_event(name: str) -> None:
    """Each event of a workflow is read into what happened."""
    event = parse_event(name, EVENTS[name])
    assert (type(event), event.model_dump()) == PARSED[name]


@pytest.mark.parametrize("action", ["labeled", "unlabeled"])
def test_a_label_comes_and_goes(action: str) -> None:
    """A label that is put on a pull request or taken off is an event of the label."""
    event = parse_event("pull_request_target", EVENTS["pull_request_target"] | {"action": action})
    assert isinstance(event, LabelEvent)
    assert event.action == action


@pytest.mark.parametrize("name", PARSED)
def test_fields_are_read_where_github_writes_them(name: str) -> None:
    """A field of our own name elsewhere in the payload changes nothing."""
    strange = {"run_id": 1, "number": 2, "author": "x", "actor": "x", "head_sha": "0" * 40, "comment_id": 3, "body": "x"}
    assert parse_event(name, strange | EVENTS[name]) == parse_event(name, EVENTS[name])


def test_inputs_are_texts() -> None:
    """A ticked box and an input that was not given come as text."""
    found = parse_event("workflow_dispatch", EVENTS["workflow_dispatch"])
    assert isinstance(found, DispatchEvent)
    assert dict(found.inputs) == {"pr": "7", "draft": "true", "x": ""}


def changed(name: str, place: str, value: object) -> dict[str, Any]:
    payload = copy.deepcopy(EVENTS[name])
    *above, last = place.split(".")
    here = payload
    for step in above:
        here = here[step]
    here[last] = value
    return payload


def test_what_may_be_missing() -> None:
    """A comment under an issue is one, of no pull request."""
    under_issue = parse_event("issue_comment", changed("issue_comment", "issue.pull_request", None))
    assert isinstance(under_issue, CommentEvent)
    assert under_issue.pull_request is None


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("pull_request", "action", None),
        ("pull_request_target", "pull_request.number", True),
        ("pull_request_target", "pull_request.number", "7"),
        ("pull_request_target", "pull_request.number", 0),
        ("pull_request_target", "pull_request.number", 2**64),
        ("pull_request_target", "pull_request.head", "text"),
        ("pull_request_target", "pull_request.head.sha", "main"),
        ("pull_request_target", "pull_request.head.sha", f"{SHA}\n"),
        ("pull_request_target", "label.name", "x" * 2000),
        ("workflow_run", "workflow_run", []),
        ("workflow_run", "workflow_run.id", 1.5),
        ("push", "before", "--upload-pack=x"),
        ("issue_comment", "comment.body", None),
        ("issue_comment", "comment.body", "x" * 300_000),
        ("workflow_dispatch", "inputs", ["a"]),
        ("workflow_dispatch", "inputs", {"a": {"b": 1}}),
        ("workflow_dispatch", "inputs", {"a": "x" * 2000}),
    ],
)
def test_what_cannot_be(name: str, place: str, value: object) -> None:
    """A field of an impossible shape is refused by its name, and its content is not repeated."""
    with pytest.raises(UsageError) as caught:
        parse_event(name, changed(name, place, value))
    assert caught.value.message.startswith(f"The payload of the event {name} is not as GitHub writes it: {place}")
    assert len(caught.value.message) < 200
    assert caught.value.hint == "Run it in a workflow, where GITHUB_EVENT_PATH names the event's payload."


def test_an_event_without_meaning() -> None:
    """An event that nothing acts on is refused with those that something does."""
    with pytest.raises(UsageError) as caught:
        parse_event("::error::x", {})
    assert str(caught.value) == (
        "ratchet does not handle this event. It handles issue_comment, merge_group, pull_request, pull_request_target, push, "
        "workflow_dispatch, workflow_run."
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(sorted(EVENTS)), st.data())
def test_any_payload_is_answered(name: str, data: st.DataObject) -> None:
    """With any value in the place of any field, a payload is read or refused with one sentence."""
    payload = copy.deepcopy(EVENTS[name])
    here: Any = payload
    while True:
        key = data.draw(st.sampled_from(sorted(here)))
        if isinstance(here[key], dict) and here[key] and data.draw(st.booleans()):
            here = here[key]
            continue
        here[key] = data.draw(JSON)
        break
    with contextlib.suppress(UsageError):
        assert parse_event(name, payload)
