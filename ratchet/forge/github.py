"""GitHub, as far as a check needs it: pull requests, comments, runs, files, people, check runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from github import GithubException
from github.IssueComment import IssueComment

from ratchet.errors import GoneError, RefusedError, UnreachableError
from ratchet.forge import api_values
from ratchet.forge.api_values import known
from ratchet.forge.connection import Connection, Tries
from ratchet.records.forge import ANNOTATIONS_A_CALL, CheckOutput, Comment, Conclusion, Pull, WorkflowRun

_ROLES = ("admin", "maintain", "write", "triage", "read", "none")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RAW = "application/vnd.github.raw+json"


class GitHub(Connection):
    """One repository, with the rights of one token.

    Every method raises a ForgeError: TokenError, LimitedError, GoneError, RefusedError or UnreachableError. What GitHub
    refuses for now (rate limits) or cannot do now (outages) is tried again. A call that may have had its effect, and must
    not have it twice, is made again only after looking.
    """

    # Pull requests

    def pull(self, number: int) -> Pull:
        """One pull request, open or closed."""
        return self._tries().call(f"Reading pull request {number}", lambda: api_values.pull(self._api.get_pull(number)))

    def pulls_of_commit(self, sha: str) -> tuple[Pull, ...]:
        """The pull requests that a commit came with; empty for a commit that was pushed without one."""
        return self._tries().call(
            f"Reading the pull requests of commit {sha}",
            lambda: tuple(map(api_values.pull, self._api.get_commit(sha).get_pulls())),
        )

    def find_pulls(self, head_repository: str, head_branch: str) -> tuple[Pull, ...]:
        """The open pull requests from a branch of this repository or a fork, newest first."""
        return self._find_pulls(head_repository, head_branch, self._tries())

    def changed_files(self, number: int) -> tuple[str, ...]:
        """Paths that a pull request touches; GitHub tells 3,000 at most."""
        return self._tries().call(
            f"Reading the files of pull request {number}",
            lambda: tuple(known(each.filename, "file name") for each in self._api.get_pull(number).get_files()),
        )

    def open_pull(self, title: str, body: str, head: str, base: str, draft: bool) -> Pull:
        """A pull request from a branch of this repository; the open one from there gets the title and body instead."""
        tries = self._tries()
        doing = f"Opening a pull request from {head}"

        def create() -> Pull:
            return api_values.pull(self._api.create_pull(base, head, title=title, body=body, draft=draft))

        while True:
            found = [pull for pull in self._find_pulls(self.repository, head, tries) if pull.base_ref == base]
            if found:
                return self._edit_pull(found[0].number, title, body, tries)
            try:
                return tries.call_once(doing, create)
            except UnreachableError as error:
                tries.wait(error)
            except RefusedError as error:
                if "already exists" not in error.message:
                    raise
                tries.wait(error)

    # Comments: all are read, and only those of our own bot that begin with a marker are written

    def comments(self, number: int) -> tuple[Comment, ...]:
        """The whole conversation of a pull request, oldest first, all pages."""
        return self._comments(number, self._tries())

    def comment(self, comment_id: int) -> Comment | None:
        """One comment; None where it was deleted."""
        try:
            return self._tries().call(f"Reading comment {comment_id}", lambda: api_values.comment(self._api_comment(comment_id)))
        except GoneError:
            return None

    def upsert_comment(self, number: int, marker: str, body: str) -> Comment:
        """Our bot's newest comment that begins with the marker gets the body, or, if there is none, a comment is made.

        Comments of others are left alone, whatever they begin with. RefusedError where the body is too long.
        """
        tries = self._tries()
        while True:
            ours = self._ours(number, marker, tries)
            try:
                return self._edit_comment(ours.id, body, tries) if ours else self._add_comment(number, marker, body, tries)
            except GoneError as error:
                if ours is None:
                    raise
                tries.wait(error)  # it was deleted since it was listed
            except UnreachableError as error:
                if ours is not None:
                    raise
                tries.wait(error)

    def reply(self, number: int, body: str, marker: str) -> Comment:
        """A comment that is made once: with the same marker again, the first one is given back as it is."""
        tries = self._tries()
        while True:
            if ours := self._ours(number, marker, tries):
                return ours
            try:
                return self._add_comment(number, marker, body, tries)
            except UnreachableError as error:
                tries.wait(error)

    def react(self, comment_id: int, content: str) -> None:
        """Put a reaction (``+1``, ``eyes``, ``confused``, …) under a comment; a second time it changes nothing."""
        self._tries().call(f"Reacting to comment {comment_id}", lambda: self._api_comment(comment_id).create_reaction(content))

    # Runs, files, people

    def workflow_run(self, run_id: int) -> WorkflowRun:
        """One run, finished or not."""
        return self._tries().call(
            f"Reading workflow run {run_id}", lambda: api_values.workflow_run(self._api.get_workflow_run(run_id))
        )

    def artifact_names(self, run_id: int) -> tuple[str, ...]:
        """Of the artifacts that a run left, expired ones included."""

        def read() -> tuple[str, ...]:
            return tuple(known(each.name, "name") for each in self._api.get_workflow_run(run_id).get_artifacts())

        return self._tries().call(f"Reading the artifacts of workflow run {run_id}", read)

    def file_at(self, path: str, ref: str) -> bytes | None:
        """A text file at a branch or commit, UTF-8, up to 100 MB; None where there is none. GoneError if the ref is unknown."""
        if {".", "..", ""} & {*path.split("/")}:
            return None  # no repository holds such a path, and in an address it would lead elsewhere
        doing = f"Reading {path} at {ref}"
        try:
            return self._tries().call(doing, lambda: self._file(path, ref))
        except GoneError as error:
            if "No commit found" in error.message:
                raise
            return None

    def permission(self, login: str) -> str:
        """What somebody may do here: admin, maintain, write, triage, read or none. A custom role counts as the one it extends."""
        if not re.fullmatch(r"[\w-]+(\[bot\])?", login, re.ASCII):
            return "none"

        def read() -> str:
            role = self._api.get_collaborator_role_name(login)
            return role if role in _ROLES else self._api.get_collaborator_permission(login)

        try:
            return self._tries().call(f"Reading the permission of {login}", read)
        except GoneError:
            return "none"

    def branch_exists(self, name: str) -> bool:
        """Whether this repository has a branch of that name."""
        try:
            self._tries().call(f"Looking for branch {name}", lambda: known(self._api.get_branch(name).name, "name"))
        except GoneError:
            return False
        return True

    def holds(self, ref: str, commit: str) -> bool | None:
        """Whether a branch, or the history of a commit, has this commit; None where GitHub knows one of the two not at all."""
        if not _SHA.fullmatch(commit):
            return False

        def read() -> str:
            return known(self._api.compare(ref, commit).status, "status")

        try:
            return self._tries().call(f"Looking for {commit[:10]} in {ref}", read) in ("behind", "identical")
        except GoneError:
            return None

    def default_branch(self) -> str:
        """Its name, such as ``main``."""
        return self._tries().call("Reading the repository", lambda: known(self._api.default_branch, "default branch"))

    # Check runs and workflows

    def open_check(self, name: str, sha: str, details_url: str, external_id: str) -> int:
        """A check run in progress. Where GitHub's answer was lost, the one that it made is looked for before another is made."""
        tries = self._tries()
        doing = f"Opening a check run on {sha}"

        def create() -> int:
            check = self._api.create_check_run(name, sha, details_url=details_url, external_id=external_id, status="in_progress")
            return known(check.id, "number")

        def find() -> int | None:
            there = self._api.get_commit(sha).get_check_runs(check_name=name, status="in_progress", filter="all")
            return next((known(each.id, "number") for each in there if each.external_id == external_id), None)

        while True:
            try:
                return tries.call_once(doing, create)
            except UnreachableError as error:
                tries.wait(error)
            found = tries.call(doing, find)
            if found is not None:
                return found

    def complete_check(self, check_id: int, conclusion: Conclusion, output: CheckOutput) -> None:
        """Complete a check run with the first 50 annotations, then add the others: complete it is, whatever happens next."""
        tries = self._tries()
        check = self._api.get_check_run(check_id)
        first, rest = output.annotations[:ANNOTATIONS_A_CALL], output.annotations[ANNOTATIONS_A_CALL:]
        doing = f"Completing check run {check_id}"
        said = api_values.check_output(output, first)

        def complete() -> None:
            check.edit(status="completed", conclusion=conclusion, output=said)
            known(check.conclusion, "conclusion")

        tries.call(doing, complete)
        while rest:
            more = api_values.check_output(output, rest[:ANNOTATIONS_A_CALL])
            rest = rest[ANNOTATIONS_A_CALL:]
            tries.call(f"Annotating check run {check_id}", partial(check.edit, output=more))

    def dispatch(self, workflow_file: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow. UnreachableError where GitHub does not say whether it did: it is not started twice."""
        workflow = self._api.get_workflow(workflow_file)
        self._tries().call_once(
            f"Starting {workflow_file}", lambda: workflow.create_dispatch(ref, inputs=dict(inputs), throw=True)
        )

    # Parts

    def _comments(self, number: int, tries: Tries) -> tuple[Comment, ...]:
        return tries.call(
            f"Reading the comments of pull request {number}",
            lambda: tuple(map(api_values.comment, self._api.get_issue(number).get_comments())),
        )

    def _ours(self, number: int, marker: str, tries: Tries) -> Comment | None:
        """Our bot's newest comment that begins with the marker."""
        mine = [each for each in self._comments(number, tries) if each.author == self.bot and each.body.startswith(marker)]
        return max(mine, key=lambda each: each.id, default=None)

    def _add_comment(self, number: int, marker: str, body: str, tries: Tries) -> Comment:
        if not body.startswith(marker):
            raise ValueError("the body has to begin with the marker, or it is never found again")
        issue = self._api.get_issue(number)
        return tries.call_once(f"Commenting on pull request {number}", lambda: api_values.comment(issue.create_comment(body)))

    def _edit_comment(self, comment_id: int, body: str, tries: Tries) -> Comment:
        def edit() -> Comment:
            comment = self._api_comment(comment_id)
            comment.edit(body)
            return api_values.comment(comment)

        return tries.call(f"Updating comment {comment_id}", edit)

    def _api_comment(self, comment_id: int) -> IssueComment:
        # Its address does not name the pull request, though PyGithub asks for one.
        return self._api.get_issue(0).get_comment(comment_id)

    def _find_pulls(self, head_repository: str, head_branch: str, tries: Tries) -> tuple[Pull, ...]:
        head = f"{head_repository.partition('/')[0]}:{head_branch}"
        found = tries.call(
            f"Looking for pull requests from {head}",
            lambda: tuple(map(api_values.pull, self._api.get_pulls(state="open", head=head))),
        )
        # One owner may have several forks, and the case of letters in names is a matter of taste to GitHub.
        return tuple(
            pull
            for pull in found
            if (pull.head_repository or "").casefold() == head_repository.casefold() and pull.head_ref == head_branch
        )

    def _edit_pull(self, number: int, title: str, body: str, tries: Tries) -> Pull:
        def edit() -> Pull:
            pull = self._api.get_pull(number)
            pull.edit(title=title, body=body)
            return api_values.pull(pull)

        return tries.call(f"Updating pull request {number}", edit)

    def _file(self, path: str, ref: str) -> bytes | None:
        found = self._api.get_contents(path, ref)
        if isinstance(found, list) or known(found.type, "type") != "file":
            return None
        if found.encoding == "base64":
            return found.decoded_content
        # Beyond 1 MB, GitHub leaves the content out of this answer.
        url = f"{self._api.url}/contents/{quote(path)}"
        status, headers, text = self._api.requester.requestJson("GET", url, {"ref": ref}, {"Accept": _RAW})
        if status != 200:
            raise GithubException(status, None, headers)
        return text.encode()
