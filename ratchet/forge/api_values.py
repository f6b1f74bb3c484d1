"""PyGithub's objects as our own values, for `ratchet.forge.github`. GitHub gives null for an account or a fork that is gone.

Meant to be pure, but PyGithub asks GitHub again for an attribute that an answer left out: call it within a try of `Tries`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from github.Artifact import Artifact
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun as ApiRun

from ratchet.records.forge import Annotation, CheckOutput, Comment, Pull, StoredArtifact, WorkflowRun

T = TypeVar("T")
Value = TypeVar("Value", Pull, Comment, WorkflowRun, StoredArtifact)


def pull(api: PullRequest) -> Pull:
    """Convert a pull request. ``merged`` comes from ``merged_at``: lists leave it out, and PyGithub would ask again for each."""
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
    """Convert a comment. Raises ValueError, as all functions here, for a missing field that is never null."""
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
    """Convert a run. A running one has no conclusion, and one of a deleted fork no repository."""
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
            started_at=api.run_started_at,
        )
    )


def artifact(api: Artifact) -> StoredArtifact:
    """Convert an artifact."""
    return _whole(StoredArtifact(name=api.name, created_at=known(api.created_at, "time")))


def check_output(output: CheckOutput, annotations: tuple[Annotation, ...]) -> dict[str, Any]:
    """Convert the output of a check run, with some of its annotations, for one call."""
    rows = [
        {
            "path": row.path,
            "start_line": row.line,
            "end_line": row.line,
            "annotation_level": row.level,
            "title": row.title,
            "message": row.message,
        }
        for row in annotations
    ]
    texts = {"title": output.title, "summary": output.summary, "text": output.text}
    return {**texts, "annotations": rows} if rows else texts


def known(value: T | None, what: str) -> T:
    """Return the value. Raises ValueError for None, which PyGithub gives for any field that an answer left out."""
    if value is None:
        raise ValueError(f"no {what} in it")
    return value


def _login(user: NamedUser | Organization | None) -> str:
    return "ghost" if user is None else user.login


def _name(repository: Repository | None) -> str | None:
    return None if repository is None else repository.full_name


def _whole(value: Value) -> Value:
    """Return the value. Raises ValueError if a field that is never null is None."""
    missing = [
        field.name for field in fields(value) if field.type in ("int", "str", "datetime") and getattr(value, field.name) is None
    ]
    if missing:
        raise ValueError(f"no {', '.join(missing)} in it")
    return value
