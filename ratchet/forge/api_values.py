"""PyGithub's objects → our values. GitHub gives null for an account or a fork that is gone."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun as ApiRun

from ratchet.records.forge import Annotation, CheckOutput, Comment, Pull, WorkflowRun

T = TypeVar("T")
Value = TypeVar("Value", Pull, Comment, WorkflowRun)


def pull(api: PullRequest) -> Pull:
    """`merged` comes from ``merged_at``, for lists leave the other field out and PyGithub would ask again for each."""
    return _whole(
        Pull(
            number=api.number,
            state=api.state,
            merged=api.merged_at is not None,
            draft=bool(api.draft),
            author=_login(api.user),
            title=api.title,
            head_sha=api.head.sha,
            head_ref=api.head.ref,
            head_repository=_name(api.head.repo),
            base_sha=api.base.sha,
            base_ref=api.base.ref,
            labels=tuple(label.name for label in api.labels),
            url=api.html_url,
        )
    )


def comment(api: IssueComment) -> Comment:
    """Raises ValueError, as all here do, where GitHub left out what is never null."""
    return _whole(
        Comment(
            id=api.id,
            author=_login(api.user),
            body=api.body,
            created_at=api.created_at,
            updated_at=api.updated_at,
            url=api.html_url,
        )
    )


def workflow_run(api: ApiRun) -> WorkflowRun:
    """A run that goes on has no conclusion yet, and one of a fork that is gone no repository."""
    return _whole(
        WorkflowRun(
            id=api.id,
            name=api.name or "",
            path=known(api.path, "path").partition("@")[0],  # a ref may follow
            event=api.event,
            head_sha=api.head_sha,
            head_branch=api.head_branch or "",
            head_repository=_name(api.head_repository),
            conclusion=api.conclusion,
            url=api.html_url,
            attempt=api.run_attempt,
        )
    )


def check_output(output: CheckOutput, annotations: tuple[Annotation, ...]) -> dict[str, Any]:
    """What one call about a check run says, with some of the annotations."""
    said: dict[str, Any] = {"title": output.title, "summary": output.summary, "text": output.text}
    rows = [
        {
            "path": each.path,
            "start_line": each.line,
            "end_line": each.line,
            "annotation_level": each.level,
            "title": each.title,
            "message": each.message,
        }
        for each in annotations
    ]
    return said | ({"annotations": rows} if rows else {})


def known(value: T | None, what: str) -> T:
    """Refuse None: PyGithub gives it for any field that an answer left out."""
    if value is None:
        raise ValueError(f"no {what} in it")
    return value


def _login(user: NamedUser | Organization | None) -> str:
    return "ghost" if user is None else user.login


def _name(repository: Repository | None) -> str | None:
    return None if repository is None else repository.full_name


def _whole(value: Value) -> Value:
    """`known` of every field that is never null."""
    holes = [each.name for each in fields(value) if each.type in ("int", "str", "datetime") and getattr(value, each.name) is None]
    if holes:
        raise ValueError(f"no {', '.join(holes)} in it")
    return value
