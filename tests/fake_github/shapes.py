"""Answers with every field that GitHub's description asks for: ours where we have one, else the least that is valid."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from tests.fake_github.contract import description, resolve
from tests.fake_github.state import Check, Comment, Issue, Pull, Run, State

_SAMPLES = {"date-time": "2026-11-21T08:00:00Z", "uri": "https://example.org/", "email": "octocat@example.org"}


def fill(name: str, known: dict[str, Any]) -> Any:
    """An object of the schema ``name``, with ``known`` laid over it."""
    return _over(_least({**description()["components"]["schemas"][name], "nullable": False}), known)


def _over(base: Any, known: Any) -> Any:
    if isinstance(base, dict) and isinstance(known, dict):
        return base | {key: _over(base.get(key), value) for key, value in known.items()}
    return known


def _least(schema: dict[str, Any]) -> Any:
    schema = resolve(schema)
    if schema.get("nullable"):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("oneOf", "anyOf"):
        if word in schema and "properties" not in schema:
            return _least(schema[word][0])
    if "allOf" in schema:
        merged: dict[str, Any] = {}
        for each in schema["allOf"]:
            merged |= _least(each) or {}
        return merged
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        return {
            key: _least(schema["properties"][key]) for key in schema.get("required", []) if key in schema.get("properties", {})
        }
    plain: dict[str, Any] = {"integer": schema.get("minimum", 1), "number": 1, "boolean": False, "array": []}
    return plain[kind] if kind in plain else _SAMPLES.get(schema.get("format", ""), "x" * schema.get("minLength", 0))


class Shapes:
    """The answers about one repository, with addresses under ``url``."""

    def __init__(self, state: State, url: str) -> None:
        self._state = state
        self._api = f"{url}/repos/{state.repository}"
        self._web = f"https://github.com/{state.repository}"

    def user(self, login: str) -> dict[str, Any]:
        return fill("simple-user", {"login": login, "id": _number(login), "type": "Bot" if login.endswith("[bot]") else "User"})

    def repository(self) -> dict[str, Any]:
        owner, _, name = self._state.repository.partition("/")
        known = {"name": name, "full_name": self._state.repository, "default_branch": self._state.default_branch}
        return fill("full-repository", known | {"owner": self.user(owner), "url": self._api, "html_url": self._web})

    def branch(self, name: str, sha: str) -> dict[str, Any]:
        return fill("branch-with-protection", {"name": name, "commit": self.commit(sha)})

    def commit(self, sha: str) -> dict[str, Any]:
        who = self.user("octocat")
        known = {"sha": sha, "url": f"{self._api}/commits/{sha}", "html_url": f"{self._web}/commit/{sha}"}
        return fill("commit", known | {"author": who, "committer": who})

    def comparison(self, base: str, shared: str, status: str) -> dict[str, Any]:
        commits = {"base_commit": self.commit(base), "merge_base_commit": self.commit(shared)}
        return fill("commit-comparison", {"status": status, "files": []} | commits)

    def pull(self, pull: Pull, simple: bool = False) -> dict[str, Any]:
        owner = (pull.head_repository or "").partition("/")[0]
        head = {
            "sha": pull.head_sha,
            "ref": pull.head_ref,
            "label": f"{owner}:{pull.head_ref}",
            "user": self.user(owner or "ghost"),
        }
        base = {
            "sha": pull.base_sha,
            "ref": pull.base_ref,
            "label": f"{self._state.repository.partition('/')[0]}:{pull.base_ref}",
        }
        base |= {"user": self.user(self._state.repository.partition("/")[0])}
        known: dict[str, Any] = {
            "number": pull.number, "id": 70_000 + pull.number, "title": pull.title, "body": pull.body, "state": pull.state,
            "draft": pull.draft, "user": self.user(pull.author), "url": f"{self._api}/pulls/{pull.number}",
            "html_url": f"{self._web}/pull/{pull.number}", "issue_url": f"{self._api}/issues/{pull.number}",
            "labels": [self.label(name) for name in pull.labels], "merge_commit_sha": pull.merge_commit_sha,
            "merged_at": "2026-11-21T09:00:00Z" if pull.merged else None,
            "head": head | {"repo": self._repository_named(pull.head_repository)},
            "base": base | {"repo": self._repository_named(self._state.repository)},
        }  # fmt: skip
        return fill("pull-request-simple", known) if simple else fill("pull-request", known | {"merged": pull.merged})

    def issue(self, issue: Pull | Issue) -> dict[str, Any]:
        known = {"number": issue.number, "title": issue.title, "state": issue.state, "user": self.user(issue.author)}
        known |= {"labels": [self.label(name) for name in issue.labels], "url": f"{self._api}/issues/{issue.number}"}
        known |= {"body": issue.body, "html_url": f"{self._web}/issues/{issue.number}"}
        return fill("issue", known | ({"state_reason": issue.state_reason} if isinstance(issue, Issue) else {}))

    def label(self, name: str) -> dict[str, Any]:
        return fill("label", {"name": name, "id": _number(name), "color": "ededed", "description": ""})

    def changed_file(self, path: str) -> dict[str, Any]:
        return fill("diff-entry", {"filename": path, "status": "modified", "sha": blob_sha(path.encode())})

    def comment(self, comment: Comment) -> dict[str, Any]:
        known = {"id": comment.id, "body": comment.body, "user": self.user(comment.author) if comment.author != "ghost" else None}
        known |= {"created_at": _time(comment.created_at), "updated_at": _time(comment.updated_at)}
        known |= {"url": f"{self._api}/issues/comments/{comment.id}", "issue_url": f"{self._api}/issues/{comment.number}"}
        return fill("issue-comment", known | {"html_url": f"{self._web}/pull/{comment.number}#issuecomment-{comment.id}"})

    def check(self, check: Check) -> dict[str, Any]:
        known: dict[str, Any] = {
            "id": check.id, "name": check.name, "head_sha": check.head_sha,
            "status": check.status, "conclusion": check.conclusion,
            "details_url": check.details_url, "external_id": check.external_id, "url": f"{self._api}/check-runs/{check.id}",
            "html_url": f"{self._web}/runs/{check.id}", "started_at": "2026-11-21T08:00:00Z",
            "completed_at": "2026-11-21T08:01:00Z" if check.status == "completed" else None,
            "check_suite": {"id": 5},
            "app": fill("integration", {"slug": check.login.removesuffix("[bot]"), "id": _number(check.login)}),
            "output": {"title": check.title, "summary": check.summary, "text": check.text,
                       "annotations_count": len(check.annotations),
                       "annotations_url": f"{self._api}/check-runs/{check.id}/annotations",
            },
        }  # fmt: skip
        return fill("check-run", known)

    def run(self, run: Run) -> dict[str, Any]:
        known = {
            "id": run.id, "name": run.name, "path": run.path, "event": run.event, "head_sha": run.head_sha,
            "head_branch": run.head_branch, "status": "completed" if run.conclusion else "in_progress",
            "conclusion": run.conclusion, "html_url": f"{self._web}/actions/runs/{run.id}",
            "run_attempt": run.attempt, "run_started_at": run.started_at, "url": f"{self._api}/actions/runs/{run.id}",
            "artifacts_url": f"{self._api}/actions/runs/{run.id}/artifacts",
            "repository": self._small(self._state.repository),
            "head_repository": self._small(run.head_repository) if run.head_repository else None, "pull_requests": [],
        }  # fmt: skip
        return fill("workflow-run", known)

    def tree(self, sha: str, rows: list[tuple[str, str, str, str]]) -> dict[str, Any]:
        entries = [{"path": path, "mode": mode, "type": kind, "sha": digest} for path, mode, kind, digest in rows]
        return fill("git-tree", {"sha": sha, "url": f"{self._api}/git/trees/{sha}", "truncated": False, "tree": entries})

    def artifact(self, name: str, run: Run) -> dict[str, Any]:
        known = {"id": _number(f"{run.id}/{name}"), "name": name, "expired": run.expired, "workflow_run": {"id": run.id}}
        return fill("artifact", known | {"created_at": "2026-11-21T08:00:00Z"})

    def permission(self, login: str, role: str) -> dict[str, Any]:
        """Only ``role_name`` tells maintain and triage: ``permission`` is the coarser word of earlier days."""
        coarse = {"maintain": "write", "triage": "read"}.get(role, role)
        known = {"permission": coarse, "role_name": role}
        return fill("repository-collaborator-permission", known) | {"user": fill("nullable-collaborator", self.user(login))}

    def file(self, path: str, content: bytes, ref: str) -> dict[str, Any]:
        """Beyond a mebibyte, GitHub leaves the content out."""
        whole = len(content) <= 2**20
        return fill("content-file", {
            "type": "file", "name": path.rpartition("/")[2], "path": path, "size": len(content), "sha": blob_sha(content),
            "encoding": "base64" if whole else "none", "content": base64.encodebytes(content).decode() if whole else "",
            "url": f"{self._api}/contents/{path}?ref={ref}",
        })  # fmt: skip

    def workflow(self, name: str) -> dict[str, Any]:
        known = {"id": _number(name), "name": name, "path": f".github/workflows/{name}", "state": "active"}
        return fill("workflow", known | {"url": f"{self._api}/actions/workflows/{_number(name)}"})

    def _small(self, full_name: str) -> dict[str, Any]:
        owner, _, name = full_name.partition("/")
        known = {"name": name, "full_name": full_name, "owner": self.user(owner), "id": _number(full_name)}
        return fill("minimal-repository", known)

    def _repository_named(self, full_name: str | None) -> dict[str, Any] | None:
        if full_name is None:
            return None
        owner, _, name = full_name.partition("/")
        return fill("repository", {"name": name, "full_name": full_name, "owner": self.user(owner), "id": _number(full_name)})


def blob_sha(content: bytes) -> str:
    """As git names a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])


def _time(moment: Any) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
