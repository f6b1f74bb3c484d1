"""What went wrong in a call of GitHub's API: one of our errors, and whether the call may be made again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import requests
from github import BadAttributeException, GithubException

from ratchet.errors import ForgeError, GoneError, LimitedError, RefusedError, TokenError, UnreachableError
from ratchet.untrusted import clean

SECONDARY_WAIT_S = 60.0
"""What GitHub asks for where it names no time: https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"""


_LATER = "Run the job again; whatever was written stays, and is found again."


_LONGEST = 300


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
)


class Effect(Enum):
    """What a failed call means for the next one."""

    FINAL = "final"
    """Asking again would give the same answer."""
    NOT_YET = "not yet"
    """It was not let through; it will be, later."""
    UNKNOWN = "unknown"
    """It may have been done, and it may go well the next time."""


@dataclass(frozen=True)
class Trouble:
    """A failed call."""

    error: ForgeError
    effect: Effect
    wait_s: float | None = None
    """How long GitHub asks to wait; None where it does not say."""


def trouble_of(problem: Exception, doing: str, secret: str) -> Trouble:
    """Read one of KNOWN. ``doing`` begins the sentence (``Reading pull request 7``); ``secret`` never stands in it."""
    doing = _line(doing, secret)
    if isinstance(problem, GithubException):
        headers = {name.lower(): _line(value, secret) for name, value in (problem.headers or {}).items()}
        return _answered(problem.status, headers, _said(problem.data, secret), doing)
    if isinstance(problem, requests.Timeout):
        return Trouble(UnreachableError(f"{doing} failed: GitHub did not answer in time.", _LATER), Effect.UNKNOWN)
    if isinstance(problem, requests.exceptions.SSLError):
        hint = "Check GITHUB_API_URL and the certificates of this machine."
        return Trouble(UnreachableError(f"{doing} failed: GitHub's certificate is not trusted here.", hint), Effect.FINAL)
    if isinstance(problem, requests.RequestException):
        return Trouble(UnreachableError(f"{doing} failed: no connection to GitHub, or it was cut.", _LATER), Effect.UNKNOWN)
    if isinstance(problem, RuntimeError):
        hint = "Check GITHUB_API_URL and GITHUB_REPOSITORY: a repository that was renamed has a new name."
        return Trouble(UnreachableError(f"{doing} failed: GitHub says that it has moved.", hint), Effect.FINAL)
    hint = "Check GITHUB_API_URL, and whether a proxy answers in GitHub's place."
    found = _line(f"{type(problem).__name__}: {problem}", secret)
    return Trouble(UnreachableError(f"{doing} failed: the answer is not what GitHub documents ({found}).", hint), Effect.FINAL)


def _answered(status: int, headers: Mapping[str, str], said: str, doing: str) -> Trouble:
    shown = f"{status}: {said}" if said else f"{status}"
    wait_s = _wait_s(status, headers, said)
    if wait_s is not None:
        until = datetime.fromtimestamp(time.time() + wait_s, UTC).strftime("%H:%M:%S")
        error = LimitedError(f"{doing} failed: GitHub's rate limit holds until {until} UTC ({shown}).", _LATER)
        return Trouble(error, Effect.NOT_YET, wait_s)
    if status >= 500:
        return Trouble(UnreachableError(f"{doing} failed: GitHub answered {shown}.", _LATER), Effect.UNKNOWN)
    return Trouble(_refusal(status, headers, shown, doing), Effect.FINAL)


def _refusal(status: int, headers: Mapping[str, str], shown: str, doing: str) -> ForgeError:
    if status == 401:
        hint = "It has expired, was revoked, or is mistyped: give a fresh one in GITHUB_TOKEN. A job's own ends with the job."
        return TokenError(f"{doing} failed: GitHub does not accept the token ({shown}).", hint)
    if status == 403:
        needed = headers.get("x-accepted-github-permissions")
        hint = f"It needs {needed}. " if needed else ""
        return TokenError(f"{doing} failed: the token may not do that ({shown}).", f"{hint}Check `permissions:` of the job.")
    if status in (404, 410):
        hint = "Check its name or number; to a token without the right to see it, GitHub gives the same answer."
        return GoneError(f"{doing} failed: GitHub has nothing there ({shown}).", hint)
    if status in (409, 422):
        return RefusedError(f"{doing} failed: GitHub refuses it ({shown}).", "Fix what it names, and try again.")
    return ForgeError(f"{doing} failed: GitHub answered {shown}.", "Check GITHUB_API_URL.")


def _wait_s(status: int, headers: Mapping[str, str], said: str) -> float | None:
    """Seconds until a rate limit ends; None where no limit is the reason."""
    if status not in (403, 429):
        return None
    asked, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if asked.isdecimal():
        return float(asked)
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        # A second more, for it is not said when within the second the limit ends.
        return max(0.0, int(reset) - time.time()) + 1
    return SECONDARY_WAIT_S if status == 429 or "rate limit" in said.lower() else None


def _said(data: object, secret: str) -> str:
    """GitHub's message and its particulars, on one line of printable text."""
    if not isinstance(data, dict):
        return ""
    words = [data.get("message")]
    errors = data.get("errors")
    for each in errors if isinstance(errors, list) else []:
        named = each if isinstance(each, dict) else {}
        words.append(named.get("message") or " ".join(str(named[k]) for k in ("field", "code") if k in named) or json.dumps(each))
    return _line("; ".join(str(word) for word in words if word), secret)


def _line(text: str, secret: str) -> str:
    return clean(clean(text, len(text)).replace(secret, "***"), _LONGEST)  # cutting first could leave a part of the secret
