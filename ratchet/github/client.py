"""GitHub, as far as a check needs it: pull requests, comments, runs, files, people, check runs.

`ratchet ci publish`, `ratchet ci command` and ``ratchet ci push`` use `GitHub`. Every method is a call over the network with the
rights of one token; which calls are tried again is in `ratchet.github.connection`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import quote

from github import GithubException
from github.IssueComment import IssueComment

from ratchet.github.connection import (
    Connection,
    RetryPolicy,
    artifact_of,
    check_output_of,
    comment_of,
    issue_of,
    known,
    pull_of,
    workflow_run_of,
)
from ratchet.github.errors import GoneError, RefusedError, UnreachableError
from ratchet.github.records import (
    ANNOTATIONS_A_CALL,
    CheckOutput,
    CheckRun,
    Comment,
    Conclusion,
    Issue,
    Pull,
    StoredArtifact,
    TreeEntry,
    WorkflowRun,
)

T = TypeVar("T")
_ROLES = ("admin", "maintain", "write", "triage", "read", "none")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RAW = "application/vnd.github.raw+json"


class GitHub(Connection):
    """One repository, with the rights of one token. A method is a question or a change.

    Every method may raise a ForgeError: TokenError, LimitedError, GoneError, RefusedError or UnreachableError. Calls that meet a
    rate limit or an outage are tried again. A call that must not have its effect twice is repeated only after looking for it.
    """

    @cached_property
    def bot(self) -> str:
        """The login behind the token, which is the author of all that it writes: ``github-actions[bot]``, or that of an App.

        Asked of GraphQL, since the REST API says it to people alone: https://docs.github.com/graphql/reference/queries#viewer
        """

        def read() -> str:
            _, answer = self._api.requester.graphql_query("query { viewer { login } }", {})
            return str(known(answer["data"]["viewer"]["login"], "login"))

        return self._tries().call("Reading whose token this is", read)

    # Pull requests

    def pull(self, number: int) -> Pull:
        """Return a pull request, open or closed."""
        return self._tries().call(f"Reading pull request {number}", lambda: pull_of(self._api.get_pull(number)))

    def pulls_of_commit(self, sha: str) -> tuple[Pull, ...]:
        """Return the pull requests that a commit came with; none for a commit that was pushed directly."""
        return self._tries().call(
            f"Reading the pull requests of commit {sha}",
            lambda: tuple(map(pull_of, self._api.get_commit(sha).get_pulls())),
        )

    def find_pulls(self, head_repository: str, head_branch: str, tries: RetryPolicy | None = None) -> tuple[Pull, ...]:
        """Return the open pull requests from a branch of this repository or a fork, newest first."""
        head = f"{head_repository.partition('/')[0]}:{head_branch}"
        pulls = (tries or self._tries()).call(
            f"Looking for pull requests from {head}",
            lambda: tuple(map(pull_of, self._api.get_pulls(state="open", head=head))),
        )
        # One owner may have several forks, and GitHub ignores the case of letters in names.
        return tuple(
            pull
            for pull in pulls
            if (pull.head_repository or "").casefold() == head_repository.casefold() and pull.head_ref == head_branch
        )

    def open_pulls(self) -> tuple[Pull, ...]:
        """Return all open pull requests, newest first."""
        return self._tries().call(
            "Reading the open pull requests", lambda: tuple(map(pull_of, self._api.get_pulls(state="open")))
        )

    def open_pull(self, title: str, body: str, head: str, base: str, draft: bool) -> Pull:
        """Open a pull request from a branch of this repository, or give the open one from there this title and body."""
        tries = self._tries()
        doing = f"Opening a pull request from {head}"

        def create() -> Pull:
            return pull_of(self._api.create_pull(base, head, title=title, body=body, draft=draft))

        def edit(number: int) -> Pull:
            pull = self._api.get_pull(number)
            pull.edit(title=title, body=body)
            return pull_of(pull)

        while True:
            there = [pull for pull in self.find_pulls(self.repository, head, tries) if pull.base_ref == base]
            if there:
                return tries.call(f"Updating pull request {there[0].number}", partial(edit, there[0].number))
            try:
                return tries.call_once(doing, create)
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and "already exists" not in error.message:
                    raise
                tries.wait(error)

    # Comments: all are read, and only those of our own bot that begin with a marker are written

    def comments(self, number: int, tries: RetryPolicy | None = None) -> tuple[Comment, ...]:
        """Return the whole conversation of a pull request, oldest first."""
        return (tries or self._tries()).call(
            f"Reading the comments of pull request {number}",
            lambda: tuple(map(comment_of, self._api.get_issue(number).get_comments())),
        )

    def comment(self, comment_id: int) -> Comment | None:
        """Return a comment; None if it was deleted."""
        return self._unless_gone(f"Reading comment {comment_id}", lambda: comment_of(self._api_comment(comment_id)))

    def upsert_comment(self, number: int, marker: str, body: str) -> Comment:
        """Write the body into our bot's newest comment that begins with the marker, or into a new comment if there is none.

        Comments of others are left alone, whatever they begin with. RefusedError if the body is too long.
        """
        tries = self._tries()
        while True:
            ours = self._ours(number, marker, tries)
            try:
                return self.edit_comment(ours.id, body, tries) if ours else self._add_comment(number, marker, body, tries)
            except GoneError as error:
                if ours is None:
                    raise
                tries.wait(error)  # it was deleted since it was listed
            except UnreachableError as error:
                if ours is not None:
                    raise
                tries.wait(error)

    def edit_comment(self, comment_id: int, body: str, tries: RetryPolicy | None = None) -> Comment:
        """Write this body into a comment of our own."""

        def edit() -> Comment:
            comment = self._api_comment(comment_id)
            comment.edit(body)
            return comment_of(comment)

        return (tries or self._tries()).call(f"Updating comment {comment_id}", edit)

    def reply(self, number: int, body: str, marker: str) -> Comment:
        """Make a comment once: with the same marker again, return the first one as it is."""
        tries = self._tries()
        while not (ours := self._ours(number, marker, tries)):
            try:
                return self._add_comment(number, marker, body, tries)
            except UnreachableError as error:
                tries.wait(error)
        return ours

    def react(self, comment_id: int, content: str) -> None:
        """Put a reaction (``+1``, ``eyes``, ``confused``, …) under a comment; a second time changes nothing."""
        self._tries().call(f"Reacting to comment {comment_id}", lambda: self._api_comment(comment_id).create_reaction(content))

    # Issues: only those of our own bot that begin with a marker are written

    def issues(self, label: str, marker: str, tries: RetryPolicy | None = None) -> tuple[Issue, ...]:
        """Return our bot's issues with a label that begin with the marker, open or closed."""
        found = (tries or self._tries()).call(
            f"Reading the issues called {label}",
            lambda: tuple(map(issue_of, self._api.get_issues(state="all", labels=[label]))),
        )
        return tuple(issue for issue in found if issue.author == self.bot and issue.body.startswith(marker))

    def open_issue(self, title: str, body: str, label: str, marker: str) -> Issue:
        """Open an issue once: with the same marker again, return the one that is there."""
        if not body.startswith(marker):
            raise ValueError("the body has to begin with the marker, or it is never found again")
        tries = self._tries()
        while not (ours := self.issues(label, marker, tries)):
            try:
                return tries.call_once(
                    "Opening an issue", lambda: issue_of(self._api.create_issue(title, body=body, labels=[label]))
                )
            except UnreachableError as error:
                tries.wait(error)
        return ours[0]

    def edit_issue(self, number: int, title: str, body: str, *, is_open: bool | None = None) -> Issue:
        """Give an issue this title and text, and open it again or close it as done; None: leave it as it is by now."""

        def edit() -> Issue:
            issue = self._api.get_issue(number)
            state, reason = ("open", "reopened") if is_open else ("closed", "completed")
            change: Any = {} if is_open is None or issue.state == state else {"state": state, "state_reason": reason}
            issue.edit(title=title, body=body, **change)
            return issue_of(issue)

        return self._tries().call(f"Updating issue {number}", edit)

    # Runs, files, people

    def workflow_run(self, run_id: int) -> WorkflowRun:
        """Return a workflow run, finished or not."""
        return self._tries().call(f"Reading workflow run {run_id}", lambda: workflow_run_of(self._api.get_workflow_run(run_id)))

    def runs_of(self, sha: str) -> tuple[WorkflowRun, ...]:
        """Return all runs of this repository's workflows on a commit, newest first."""
        return self._tries().call(
            f"Reading the workflow runs of {sha}", lambda: tuple(map(workflow_run_of, self._api.get_workflow_runs(head_sha=sha)))
        )

    def last_success(self, path: str, branch: str, before: int) -> WorkflowRun | None:
        """Return the newest successful run of a workflow's file on a branch that is older than run ``before``.

        Among the last hundred successful runs on that branch: None where none of these is.
        """
        wanted: Any = branch  # PyGithub asks for an object, of which it sends the name alone

        def read() -> list[WorkflowRun]:
            return [workflow_run_of(run) for run in self._api.get_workflow_runs(branch=wanted, status="success").get_page(0)]

        page = self._tries().call(f"Reading the workflow runs on {branch}", read)
        return max((run for run in page if run.path == path and run.id < before), key=lambda run: run.id, default=None)

    def artifacts(self, run_id: int) -> tuple[StoredArtifact, ...]:
        """Return a run's artifacts, those of earlier attempts and expired ones too."""
        return self._tries().call(
            f"Reading the artifacts of workflow run {run_id}",
            lambda: tuple(map(artifact_of, self._api.get_workflow_run(run_id).get_artifacts())),
        )

    def has_artifact(self, run_id: int, name: str) -> bool:
        """Return whether a run has an artifact of this name, or of a GPU model's, that can still be fetched."""
        return any(f"{artifact.name}-".startswith(f"{name}-") and not artifact.expired for artifact in self.artifacts(run_id))

    def file_at(self, path: str, ref: str) -> bytes | None:
        """Return a UTF-8 file of up to 100 MB at a branch or commit; None if there is none. GoneError if the ref is unknown."""
        if {".", "..", ""} & {*path.split("/")}:
            return None  # no repository holds such a path, and in an address it would lead elsewhere
        doing = f"Reading {path} at {ref}"
        try:
            return self._tries().call(doing, lambda: self._file(path, ref))
        except GoneError as error:
            if "No commit found" in error.message:
                raise
            return None

    def object_at(self, path: str, commit: str) -> str | None:
        """Return the hash of a file or folder at a commit; None if it has none. GoneError if GitHub does not know the commit.

        Equal hashes mean equal content, however many files there are.
        """
        here, parts = commit, [part for part in path.split("/") if part not in ("", ".")]
        for part in parts:
            entry = self.entries(here).get(part)
            if entry is None:
                return None
            here = entry.sha
        return here

    def entries(self, sha: str) -> Mapping[str, TreeEntry]:
        """Return name → entry of a commit or tree, not of its folders. UnreachableError where GitHub leaves some out."""

        def read() -> tuple[bool, dict[str, TreeEntry]]:
            tree = self._api.get_git_tree(sha)
            entries = {known(e.path, "path"): TreeEntry(known(e.mode, "mode"), known(e.sha, "hash")) for e in tree.tree}
            return bool(tree.raw_data.get("truncated")), entries

        if sha not in self._trees:
            is_cut, self._trees[sha] = self._tries().call(f"Reading the tree of {sha}", read)
            if is_cut:
                raise UnreachableError(f"GitHub leaves out a part of the tree {sha[:10]}, which is too large.", "")
        return self._trees[sha]

    def permission(self, login: str) -> str:
        """Return a person's role: admin, maintain, write, triage, read or none. A custom role counts as the one it extends."""
        if not re.fullmatch(r"[\w-]+(\[bot\])?", login, re.ASCII):
            return "none"

        def read() -> str:
            role = self._api.get_collaborator_role_name(login)
            return role if role in _ROLES else self._api.get_collaborator_permission(login)

        return self._unless_gone(f"Reading the permission of {login}", read) or "none"

    def tip(self, branch: str) -> str | None:
        """Return the commit that a branch of this repository stands at; None if there is no such branch."""
        return self._unless_gone(f"Looking for branch {branch}", lambda: known(self._api.get_branch(branch).commit.sha, "commit"))

    def holds(self, ref: str, commit: str) -> bool | None:
        """Return whether the history of a branch or commit has this commit; None if GitHub does not know one of the two."""
        if not _SHA.fullmatch(commit):
            return False
        status = self._unless_gone(
            f"Looking for {commit[:10]} in {ref}", lambda: known(self._api.compare(ref, commit).status, "status")
        )
        return None if status is None else status in ("behind", "identical")

    def merge_base(self, ref: str, commit: str) -> str | None:
        """Return the commit where a commit left a branch or another commit; None if GitHub does not know one of the two."""
        return self._unless_gone(
            f"Looking for where {commit[:10]} left {ref}",
            lambda: known(self._api.compare(ref, commit).merge_base_commit, "merge base").sha,
        )

    def default_branch(self) -> str:
        """Return the name of the default branch, such as ``main``."""
        return self._tries().call("Reading the repository", lambda: known(self._api.default_branch, "default branch"))

    # Check runs and workflows

    def open_check(self, name: str, sha: str, details_url: str, external_id: str) -> int:
        """Open a check run in progress. If GitHub's answer is lost, look for what it made before making another."""
        tries = self._tries()
        doing = f"Opening a check run on {sha}"

        def create() -> int:
            check = self._api.create_check_run(name, sha, details_url=details_url, external_id=external_id, status="in_progress")
            return known(check.id, "number")

        def find() -> int | None:
            there = self._api.get_commit(sha).get_check_runs(check_name=name, status="in_progress", filter="all")
            same = (run for run in there if run.external_id == external_id)
            return next((known(run.id, "number") for run in same if run.app and f"{run.app.slug}[bot]" == self.bot), None)

        while True:
            try:
                return tries.call_once(doing, create)
            except UnreachableError as error:
                tries.wait(error)
            check_id = tries.call(doing, find)
            if check_id is not None:
                return check_id

    def own_checks(self, name: str, sha: str) -> tuple[CheckRun, ...]:
        """Return the check runs of that name on a commit that the App behind our token made, newest first."""
        slug = self.bot.removesuffix("[bot]")

        def read() -> list[CheckRun]:
            found = self._api.get_commit(sha).get_check_runs(check_name=name, filter="all")
            ours = [run for run in found if run.app is not None and run.app.slug == slug]
            return [CheckRun(known(run.id, "number"), run.external_id or "", run.status == "completed") for run in ours]

        return tuple(sorted(self._tries().call(f"Reading the check runs on {sha}", read), key=lambda run: -run.id))

    def complete_check(self, check_id: int, conclusion: Conclusion, output: CheckOutput) -> None:
        """Complete a check run with the first 50 annotations, then add the others: it is complete whatever happens next."""
        tries = self._tries()
        check = self._api.get_check_run(check_id)
        first, rest = output.annotations[:ANNOTATIONS_A_CALL], output.annotations[ANNOTATIONS_A_CALL:]
        doing = f"Completing check run {check_id}"
        texts = check_output_of(output, first)

        def complete() -> None:
            check.edit(status="completed", conclusion=conclusion, output=texts)
            known(check.conclusion, "conclusion")

        try:
            tries.call(doing, complete)
        except RefusedError as error:  # of texts or annotations: without an answer, the check would stay open for ever
            texts, rest = {"title": output.title or "ratchet", "summary": f"The details could not be shown: {error.message}"}, ()
            tries.call(doing, complete)
        for start in range(0, len(rest), ANNOTATIONS_A_CALL):
            more = check_output_of(output, rest[start : start + ANNOTATIONS_A_CALL])
            tries.call(f"Annotating check run {check_id}", partial(check.edit, output=more))

    def dispatch(self, workflow_file: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow, never twice. UnreachableError if GitHub does not say whether it did."""
        workflow = self._api.get_workflow(workflow_file)
        self._tries().call_once(
            f"Starting {workflow_file}", lambda: workflow.create_dispatch(ref, inputs=dict(inputs), throw=True)
        )

    # Parts

    def _unless_gone(self, doing: str, read: Callable[[], T]) -> T | None:
        """Return what GitHub answers; None for what it does not know."""
        try:
            return self._tries().call(doing, read)
        except GoneError:
            return None

    @cached_property
    def _trees(self) -> dict[str, dict[str, TreeEntry]]:
        return {}

    def _ours(self, number: int, marker: str, tries: RetryPolicy) -> Comment | None:
        """Return our bot's newest comment that begins with the marker; None if there is none."""
        found = self.comments(number, tries)
        mine = [comment for comment in found if comment.author == self.bot and comment.body.startswith(marker)]
        return max(mine, key=lambda comment: comment.id, default=None)

    def _add_comment(self, number: int, marker: str, body: str, tries: RetryPolicy) -> Comment:
        if not body.startswith(marker):
            raise ValueError("the body has to begin with the marker, or it is never found again")
        issue = self._api.get_issue(number)
        return tries.call_once(f"Commenting on pull request {number}", lambda: comment_of(issue.create_comment(body)))

    def _api_comment(self, comment_id: int) -> IssueComment:
        # Its address does not name the pull request, though PyGithub asks for one.
        return self._api.get_issue(0).get_comment(comment_id)

    def _file(self, path: str, ref: str) -> bytes | None:
        file = self._api.get_contents(path, ref)
        if isinstance(file, list) or known(file.type, "type") != "file":
            return None
        if file.encoding == "base64":
            return file.decoded_content
        # Beyond 1 MB, GitHub leaves the content out of this answer.
        url = f"{self._api.url}/contents/{quote(path)}"
        status, headers, text = self._api.requester.requestJson("GET", url, {"ref": ref}, {"Accept": _RAW})
        if status != 200:
            raise GithubException(status, None, headers)
        return text.encode()
