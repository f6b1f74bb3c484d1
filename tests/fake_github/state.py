"""What the stand-in holds: one repository, its pull requests, comments, check runs, runs, files and people."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BOT = "github-actions[bot]"
TOKEN = "ghs_standInTokenThatNobodyMayPrint"
RIGHTS = frozenset({"actions", "checks", "contents", "issues", "pull_requests", "statuses"})


@dataclass
class Token:
    """Whose a token is, and what it may write."""

    login: str = BOT
    rights: frozenset[str] = RIGHTS

    def __post_init__(self) -> None:
        self.rights = frozenset(self.rights)


@dataclass
class Pull:
    number: int
    title: str = "A change"
    author: str = "octocat"
    head_sha: str = "a" * 40
    head_ref: str = "topic"
    head_repository: str | None = "octo-org/kernels"
    base_sha: str = "b" * 40
    base_ref: str = "main"
    state: str = "open"
    merged: bool = False
    draft: bool = False
    body: str = ""
    labels: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    merge_commit_sha: str | None = None
    locked: bool = False


@dataclass
class Comment:
    id: int
    number: int
    """Of the pull request."""
    author: str
    body: str
    created_at: datetime
    updated_at: datetime
    reactions: list[str] = field(default_factory=list)
    """``login:content``."""


@dataclass
class Issue:
    number: int
    title: str = "Something"
    body: str | None = None
    author: str = BOT
    labels: list[str] = field(default_factory=list)
    state: str = "open"
    state_reason: str | None = None


@dataclass
class Check:
    id: int
    name: str
    head_sha: str
    details_url: str | None
    external_id: str
    status: str
    conclusion: str | None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 1
    """How often it was written."""
    login: str = BOT
    """Whose token made it."""


@dataclass
class Run:
    id: int
    name: str = "CUDA benchmark ratchet"
    path: str = ".github/workflows/cuda_benchmark_ratchet.yml"
    event: str = "pull_request"
    head_sha: str = "a" * 40
    head_branch: str | None = "topic"
    head_repository: str | None = "octo-org/kernels"
    conclusion: str | None = "success"
    attempt: int = 1
    started_at: str = "2026-11-21T07:30:00Z"
    """When this attempt began."""
    artifacts: list[str] = field(default_factory=list)
    """All were made at 08:00."""
    expired: bool = False
    """Whether its artifacts are kept no longer."""


class State:
    """Everything that can be seen or changed through the API. Tests read and write it directly."""

    def __init__(self, repository: str = "octo-org/kernels", default_branch: str = "main", origin: Path | None = None) -> None:
        self.repository = repository
        self.default_branch = default_branch
        self.origin = origin
        """A git repository; where set, files, branches and commits come from it instead of from ``files`` and ``branches``."""
        self.tokens: dict[str, Token] = {TOKEN: Token()}
        self.permissions: dict[str, str] = {}
        """login → admin, maintain, write, triage or read."""
        self.pulls: dict[int, Pull] = {}
        self.issues: dict[int, Issue] = {}
        """Those that are no pull requests."""
        self.comments: dict[int, Comment] = {}
        self.checks: dict[int, Check] = {}
        self.runs: dict[int, Run] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        """ref → path → content; a ref is a branch or a commit."""
        self.branches: dict[str, str] = {default_branch: "b" * 40}
        self.parents: dict[str, list[str]] = {}
        """commit → those that it was made on."""
        self.workflows: list[str] = []
        """Names of the files that can be dispatched."""
        self.dispatches: list[dict[str, Any]] = []
        """``workflow``, ``ref``, ``inputs``, ``by`` of each workflow that was started."""
        self.statuses: list[dict[str, Any]] = []
        self.runners: dict[int, dict[str, Any]] = {}
        """id → ``name`` and ``labels`` of those that are registered and have not done their one job."""
        self._trees: dict[str, str] = {}
        self._ids = itertools.count(1001)
        self._seconds = itertools.count()

    def add_pull(self, number: int, **fields: Any) -> Pull:
        self.pulls[number] = Pull(number, **fields)
        return self.pulls[number]

    def add_comment(self, number: int, author: str, body: str, **fields: Any) -> Comment:
        """A comment of anybody's; ``id``, ``created_at`` and ``updated_at`` may be given."""
        now = self.tick()
        times = {name: datetime.fromisoformat(value) if isinstance(value, str) else value for name, value in fields.items()
                 if name in ("created_at", "updated_at")}  # fmt: skip
        created = times.get("created_at", now)
        comment = Comment(fields.get("id") or self.fresh_id(), number, author, body, created, times.get("updated_at", created))
        self.comments[comment.id] = comment
        return comment

    def add_run(self, id: int, **fields: Any) -> Run:  # noqa: A002 - GitHub's word
        self.runs[id] = Run(id, **fields)
        return self.runs[id]

    def set_file(self, path: str, content: bytes, ref: str = "main") -> None:
        self.files.setdefault(ref, {})[path] = content

    def comments_of(self, number: int) -> list[Comment]:
        return [comment for comment in self.comments.values() if comment.number == number]

    def fresh_id(self) -> int:
        return next(self._ids)

    def tick(self) -> datetime:
        """The time; every writing call takes a second."""
        return datetime(2026, 11, 21, 8, 0, tzinfo=UTC) + timedelta(seconds=next(self._seconds))

    def file(self, path: str, ref: str) -> bytes | None:
        """Content at a branch or commit; None if there is none."""
        if self.origin is not None:
            done = self._git("cat-file", "blob", f"{ref}:{path}")
            return done.stdout if done.returncode == 0 else None
        here = self.files.get(ref)
        if here is None:
            # A commit that is the tip of a branch has that branch's files.
            here = next((self.files.get(name, {}) for name, sha in self.branches.items() if sha == ref), {})
        return here.get(path)

    def tree(self, sha: str) -> list[tuple[str, str, str, str]] | None:
        """Path, mode, type and hash of each entry of a commit or tree; None if there is none."""
        if self.origin is not None:
            done = self._git("ls-tree", "-z", "--end-of-options", sha)
            rows = [row.partition("\t") for row in done.stdout.decode().split("\0") if row]
            return [(path, *about.split(" ")) for about, _, path in rows] if done.returncode == 0 else None  # type: ignore[misc]
        ref, _, folder = self._trees.get(sha, sha).partition(":")
        here = self.files.get(ref) or next((self.files.get(name, {}) for name, at in self.branches.items() if at == ref), None)
        if here is None:
            return [] if self.commit(ref) else None
        found: dict[str, tuple[str, str, str, str]] = {}
        for path, content in here.items():
            if path.startswith(folder and f"{folder}/"):
                name, slash, _ = path[len(folder) + bool(folder) :].partition("/")
                if name in found:  # a folder of thousands of files
                    continue
                start = f"{folder and folder + '/'}{name}/"
                inside = {other.removeprefix(start): text for other, text in here.items() if other.startswith(start)}
                digest = hashlib.sha1(repr(sorted(inside.items()) if slash else content).encode()).hexdigest()
                self._trees[digest] = f"{ref}:{folder and folder + '/'}{name}"
                found[name] = (name, *(("040000", "tree") if slash else ("100644", "blob")), digest)
        return list(found.values())

    def branch(self, name: str) -> str | None:
        """The commit that a branch stands at."""
        if self.origin is None:
            return self.branches.get(name)
        done = self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def commit(self, ref: str) -> str | None:
        """The commit of a branch's name or a hash."""
        if self.origin is None:
            known = {*self.branches.values(), *(pull.head_sha for pull in self.pulls.values()), *self.files}
            known |= {pull.merge_commit_sha for pull in self.pulls.values() if pull.merge_commit_sha}
            known |= {*self.parents, *itertools.chain.from_iterable(self.parents.values())}
            return self.branches.get(ref) or (ref if ref in known else None)
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def is_ancestor(self, commit: str, tip: str) -> bool:
        """Return whether one commit is another, or lies in its history."""
        if self.origin is not None:
            return self._git("merge-base", "--is-ancestor", commit, tip).returncode == 0
        return commit == tip or any(self.is_ancestor(commit, parent) for parent in self.parents.get(tip, ()))

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest commit in the history of both."""
        if self.origin is not None:
            done = self._git("merge-base", one, other)
            return done.stdout.decode().strip() if done.returncode == 0 else None
        level = [other]
        while level:
            if found := next((commit for commit in level if self.is_ancestor(commit, one)), None):
                return found
            level = [parent for commit in level for parent in self.parents.get(commit, ())]
        return None

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", "-C", str(self.origin), *arguments], capture_output=True, check=False)
