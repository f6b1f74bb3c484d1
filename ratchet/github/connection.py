"""A connection to one repository on GitHub: which calls are tried again, which error each failure becomes, and what answers hold.

`ratchet.github.client.GitHub` builds on it. Calls go over the network and may sleep until a limit ends; the token is never shown.

PyGithub's own GithubRetry is off. It repeats a POST that GitHub carried out and then answered with an error (a comment twice),
sleeps as long as ``Retry-After`` says, has no limit for an operation of several calls, and ends without GitHub's own words.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, Self, TypeVar
from urllib.parse import urlsplit

import requests
from github import Auth, BadAttributeException, Github, GithubException
from github.Artifact import Artifact
from github.Issue import Issue as ApiIssue
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun as ApiRun
from pydantic import SecretStr

from ratchet.core.errors import UsageError
from ratchet.core.untrusted import clean
from ratchet.github.errors import ForgeError, GoneError, LimitedError, LockedError, RefusedError, TokenError, UnreachableError
from ratchet.github.records import Annotation, CheckOutput, Comment, Issue, Pull, StoredArtifact, WorkflowRun

DEFAULT_API = "https://api.github.com"
ACTIONS = "github-actions[bot]"
"""The author of what a job does with its own token."""


class Connection:
    """One repository, with the rights of one token, which is never shown.

    ``patience_s`` is what one operation may wait in all for limits and outages, ``timeout_s`` what one request may take.
    """

    def __init__(
        self,
        token: str,
        api_url: str,
        repository: str,
        *,
        patience_s: float = 120,
        timeout_s: int = 15,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not re.fullmatch(r"[!-~]+", token):
            # requests would quote it in its own error.
            raise UsageError("GITHUB_TOKEN is empty, or has blanks, line breaks or other characters that no token has.")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII) or {".", ".."} & {*repository.split("/")}:
            raise UsageError(f"GITHUB_REPOSITORY is {repository!r}, not owner/name.")
        address = urlsplit(api_url)
        if address.scheme not in ("http", "https") or not address.hostname or "@" in address.netloc:
            raise UsageError("GITHUB_API_URL is not an address such as https://HOST/PATH.", f"GitHub's own is {DEFAULT_API}.")
        self.repository = repository
        self._host = address.hostname
        client = Github(
            auth=Auth.Token(token),
            base_url=api_url.rstrip("/"),
            timeout=timeout_s,
            user_agent="ratchet",
            per_page=100,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        )
        self._api = client.get_repo(repository)  # asks nothing yet
        self._tries = partial(RetryPolicy, patience_s, sleep, SecretStr(token))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Connect by GITHUB_TOKEN, GITHUB_REPOSITORY and GITHUB_API_URL. UsageError names a missing one."""
        for name, where in (("GITHUB_TOKEN", "${{ github.token }}"), ("GITHUB_REPOSITORY", "${{ github.repository }}")):
            if not environ.get(name):
                raise UsageError(f"{name} is not set.", f"In a workflow, set it in `env:` to {where}.")
        url = environ.get("GITHUB_API_URL") or DEFAULT_API
        return cls(environ["GITHUB_TOKEN"], url, environ["GITHUB_REPOSITORY"])

    def __repr__(self) -> str:
        return f"GitHub({self.repository} at {self._host})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection to GitHub holds a token, so it cannot be pickled")


# RetryPolicy: how often and how long one operation is repeated.

TRIES = 5
"""Failures in a row after which an operation ends."""
T = TypeVar("T")


class RetryPolicy:
    """The tries of one operation: at most five in a row, and ``patience_s`` seconds of waiting, for all its calls together."""

    def __init__(self, patience_s: float, sleep: Callable[[float], object], secret: SecretStr) -> None:
        self._left_s = patience_s
        self._sleep = sleep
        self._secret = secret
        self._failures = 0

    def call(self, doing: str, call: Callable[[], T]) -> T:
        """Make a call that may be made twice: it only reads, or the second time changes nothing more."""
        return self._call(doing, call, once=False)

    def call_once(self, doing: str, call: Callable[[], T]) -> T:
        """Make a call that must not have its effect twice. After UnreachableError, look for the effect before calling again."""
        try:
            return self._call(doing, call, once=True)
        except UnreachableError as error:
            raise UnreachableError(f"{error.message} It may have been done all the same.", error.hint) from None

    def wait(self, error: ForgeError, asked_s: float | None = None) -> None:
        """Wait until the next try: as long as GitHub asks, else 1, 2, 4, 8 s. Raises ``error`` where there is none."""
        self._failures += 1
        wait_s = min(2.0 ** (self._failures - 1), self._left_s) if asked_s is None else asked_s
        if self._failures >= TRIES or wait_s > self._left_s:
            raise error from None
        self._left_s -= wait_s
        self._sleep(wait_s)

    def _call(self, doing: str, call: Callable[[], T], *, once: bool) -> T:
        while True:
            try:
                return call()
            except KNOWN as problem:
                trouble = failure_of(problem, doing, self._secret.get_secret_value())
            # Of a failure that may pass, a limit alone is known to have had no effect.
            if not trouble.may_pass or (once and trouble.wait_s is None):
                raise trouble.error
            self.wait(trouble.error, trouble.wait_s)


# Failures: which error of ours a failed call becomes, and whether the call may be repeated.

SECONDARY_WAIT_S = 60.0
"""The wait that GitHub asks for if it names no time: https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"""
_LONGEST_LIMIT_S = 86_400.0
"""A limit ends within an hour; a header of nineteen digits is no time that anybody could wait for, or write down."""
_LATER = "Run the job again; whatever was written stays, and is found again."
_LONGEST = 300
"""Characters of GitHub's own words in a sentence of ours."""
KNOWN = (
    GithubException,
    requests.RequestException,
    # The rest is what PyGithub makes of an answer that is not what GitHub documents, such as a proxy's page: a field of
    # another type, no JSON, None where an object should be, a redirection to another host.
    BadAttributeException,
    ValueError,
    AttributeError,
    TypeError,
    KeyError,
    RuntimeError,
    # An address in an answer, such as that of the next page, leads to another host, port or path: it is not asked.
    AssertionError,
)


@dataclass(frozen=True)
class CallFailure:
    error: ForgeError
    may_pass: bool = False
    """Asking again may give another answer."""
    wait_s: float | None = None
    """How long a limit lasts; None where it is no limit."""


def failure_of(problem: Exception, doing: str, secret: str) -> CallFailure:
    """Explain one of KNOWN. ``doing`` begins the sentence (``Reading pull request 7``); ``secret`` never appears in it."""
    doing = _line(doing, secret)
    if isinstance(problem, GithubException):
        headers = {name.lower(): _line(value, secret) for name, value in (problem.headers or {}).items()}
        return _answered(problem.status, headers, _message(problem.data, secret), doing)
    if isinstance(problem, requests.Timeout):
        return CallFailure(UnreachableError(f"{doing} failed: GitHub did not answer in time.", _LATER), may_pass=True)
    if isinstance(problem, requests.exceptions.SSLError):
        hint = "Check GITHUB_API_URL and the certificates of this machine."
        return CallFailure(UnreachableError(f"{doing} failed: GitHub's certificate is not trusted here.", hint))
    if isinstance(problem, requests.RequestException):
        return CallFailure(UnreachableError(f"{doing} failed: no connection to GitHub, or it was cut.", _LATER), may_pass=True)
    if isinstance(problem, RuntimeError):
        hint = "Check GITHUB_API_URL and GITHUB_REPOSITORY: a repository that was renamed has a new name."
        return CallFailure(UnreachableError(f"{doing} failed: GitHub says that it has moved.", hint))
    hint = "Check GITHUB_API_URL, and whether a proxy answers in GitHub's place."
    if isinstance(problem, AssertionError):
        what = "its answer leads to another address than GITHUB_API_URL, where the token is not sent"
    else:
        what = f"the answer is not what GitHub documents ({_line(f'{type(problem).__name__}: {problem}', secret)})"
    return CallFailure(UnreachableError(f"{doing} failed: {what}.", hint))


def _answered(status: int, headers: Mapping[str, str], message: str, doing: str) -> CallFailure:
    shown = f"{status}: {message}" if message else f"{status}"
    wait_s = _wait_s(status, headers, message)
    if wait_s is not None:
        until = datetime.fromtimestamp(time.time() + wait_s, UTC).strftime("%H:%M:%S")
        error = LimitedError(f"{doing} failed: GitHub's rate limit holds until {until} UTC ({shown}).", _LATER)
        return CallFailure(error, may_pass=True, wait_s=wait_s)
    if status >= 500:
        return CallFailure(UnreachableError(f"{doing} failed: GitHub answered {shown}.", _LATER), may_pass=True)
    return CallFailure(_refusal(status, headers, shown, doing))


def _refusal(status: int, headers: Mapping[str, str], shown: str, doing: str) -> ForgeError:
    if status == 401:
        hint = "It has expired, was revoked, or is mistyped: give a fresh one in GITHUB_TOKEN. A job's own ends with the job."
        return TokenError(f"{doing} failed: GitHub does not accept the token ({shown}).", hint)
    if status == 403:
        if "is locked" in shown:
            hint = "Unlock it for as long as this takes, or read the verdict in the check run."
            return LockedError(f"{doing} failed: the conversation is locked ({shown}).", hint)
        needed = headers.get("x-accepted-github-permissions")
        hint = f"It needs {needed}. " if needed else ""
        return TokenError(f"{doing} failed: the token may not do that ({shown}).", f"{hint}Check `permissions:` of the job.")
    if status in (404, 410):
        hint = "Check its name or number; to a token without the right to see it, GitHub gives the same answer."
        return GoneError(f"{doing} failed: GitHub has nothing there ({shown}).", hint)
    if status in (409, 422):
        return RefusedError(f"{doing} failed: GitHub refuses it ({shown}).", "Fix what it names, and try again.")
    return ForgeError(f"{doing} failed: GitHub answered {shown}.", "Check GITHUB_API_URL.")


def _wait_s(status: int, headers: Mapping[str, str], message: str) -> float | None:
    """Return the seconds until a rate limit ends; None if no limit is the reason."""
    if status not in (403, 429):
        return None
    retry_after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if retry_after.isdecimal():
        return min(float(retry_after), _LONGEST_LIMIT_S)
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        # A second more: the limit ends somewhere within that second.
        return max(0.0, min(int(reset), time.time() + _LONGEST_LIMIT_S) - time.time()) + 1
    return SECONDARY_WAIT_S if status == 429 or "rate limit" in message.lower() else None


def _message(data: object, secret: str) -> str:
    """Return GitHub's message and its details, on one line of printable text."""
    if not isinstance(data, dict):
        return ""
    words = [data.get("message")]
    errors = data.get("errors")
    for error in errors if isinstance(errors, list) else []:
        parts = error if isinstance(error, dict) else {}
        words.append(
            parts.get("message") or " ".join(str(parts[k]) for k in ("field", "code") if k in parts) or json.dumps(error)
        )
    return _line("; ".join(str(word) for word in words if word), secret)


def _line(text: str, secret: str) -> str:
    return clean(clean(text, len(text)).replace(secret, "***"), _LONGEST)  # cutting first could leave a part of the secret


# PyGithub's objects as our own values. GitHub gives null for an account or a fork that is gone. PyGithub asks GitHub again for
# an attribute that an answer left out: call these within a try of `RetryPolicy`.

V = TypeVar("V", Pull, Comment, Issue, WorkflowRun, StoredArtifact)


def pull_of(api: PullRequest) -> Pull:
    """Convert a pull request. ``merged`` comes from ``merged_at``: lists leave it out, and PyGithub would ask again for each."""
    return _value(
        Pull,
        api,
        merged=api.merged_at is not None,
        author=_login(api.user),
        head_sha=api.head.sha,
        head_ref=api.head.ref,
        head_repository=_name(api.head.repo),
        base_sha=api.base.sha,
        base_ref=api.base.ref,
        labels=tuple(label.name for label in api.labels),
        url=api.html_url,
    )


def comment_of(api: IssueComment) -> Comment:
    """Convert a comment. Raises ValueError, as all functions here, for a missing field that is never null."""
    return _value(Comment, api, author=_login(api.user), url=api.html_url)


def issue_of(api: ApiIssue) -> Issue:
    """Convert an issue; one without a text has an empty one."""
    texts = {"body": api.body or "", "state_reason": api.state_reason or ""}
    return _value(Issue, api, author=_login(api.user), is_open=api.state == "open", url=api.html_url, **texts)


def workflow_run_of(api: ApiRun) -> WorkflowRun:
    """Convert a run. A running one has no conclusion, and one of a deleted fork no repository."""
    return _value(
        WorkflowRun,
        api,
        path=known(api.path, "path").partition("@")[0],  # a ref may follow
        head_branch=api.head_branch or "",
        head_repository=_name(api.head_repository),
        url=api.html_url,
        attempt=api.run_attempt,
        started_at=api.run_started_at,
    )


def artifact_of(api: Artifact) -> StoredArtifact:
    return _value(StoredArtifact, api)


def check_output_of(output: CheckOutput, annotations: tuple[Annotation, ...]) -> dict[str, Any]:
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


def _value(kind: type[V], api: object, **others: object) -> V:
    """Return a value whose fields are those of the object, but for the ``others``.

    Raises ValueError if a field that is never null is None.
    """
    values = {field.name: getattr(api, field.name) for field in fields(kind) if field.name not in others} | others
    needed = [field.name for field in fields(kind) if field.type in ("int", "str", "bool", "datetime")]
    missing = [name for name in needed if values[name] is None]
    if missing:
        raise ValueError(f"no {', '.join(missing)} in it")
    return kind(**values)
