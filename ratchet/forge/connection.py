"""What went wrong in a call of GitHub's API: one of our errors, and whether the call may be made again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from ratchet.errors import ForgeError, GoneError, UnreachableError, UsageError
from ratchet.forge import api_values
from ratchet.forge.api_errors import KNOWN, Effect, trouble_of
from ratchet.records.forge import Comment

if TYPE_CHECKING:
    from github.IssueComment import IssueComment
    from github.Repository import Repository


# How often, and how long, one operation on GitHub is tried again.
#
# PyGithub's own retry is off: by default it repeats a POST that GitHub answered with an error after doing it (a comment twice),
# it sleeps as long as ``Retry-After`` says, and it has no limit for one operation that makes several calls.


TRIES = 5
T = TypeVar("T")


class Tries:
    """At most five tries in a row, and ``patience_s`` seconds of waiting, for all calls of one operation together."""

    def __init__(self, patience_s: float, sleep: Callable[[float], object], secret: SecretStr) -> None:
        self._left_s = patience_s
        self._sleep = sleep
        self._secret = secret
        self._failures = 0

    def call(self, doing: str, call: Callable[[], T]) -> T:
        """A call that may be made twice: it only reads, or the second time changes nothing more."""
        return self._call(doing, call, (Effect.NOT_YET, Effect.UNKNOWN))

    def call_once(self, doing: str, call: Callable[[], T]) -> T:
        """A call that must not have its effect twice.

        Raises UnreachableError where it is unknown whether it had it: look before you call again.
        """
        try:
            return self._call(doing, call, (Effect.NOT_YET,))
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

    def _call(self, doing: str, call: Callable[[], T], again: tuple[Effect, ...]) -> T:
        while True:
            try:
                return call()
            except KNOWN as problem:
                trouble = trouble_of(problem, doing, self._secret.get_secret_value())
            if trouble.effect not in again:
                raise trouble.error
            self.wait(trouble.error, trouble.wait_s)


# A connection to one repository on GitHub. PyGithub loads with the first one, for not everyone has it.


DEFAULT_API = "https://api.github.com"
DEFAULT_BOT = "github-actions[bot]"


class Connection:
    """One repository, with the rights of one token, which nothing here shows.

    ``patience_s`` is what one operation may wait in all for limits and outages, ``timeout_s`` what one request may take.
    """

    def __init__(
        self,
        token: str,
        api_url: str,
        repository: str,
        *,
        bot: str = DEFAULT_BOT,
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
            raise UsageError("GITHUB_API_URL is no address such as https://HOST/PATH.", f"GitHub's own is {DEFAULT_API}.")
        self.repository = repository
        self.bot = bot
        self._host = address.hostname
        self._api = _repository(token, api_url, repository, timeout_s)
        from ratchet.forge.connection import Tries

        self._tries = partial(Tries, patience_s, sleep, SecretStr(token))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """From GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL and RATCHET_BOT; UsageError names the first that is missing."""
        for name, where in (("GITHUB_TOKEN", "${{ github.token }}"), ("GITHUB_REPOSITORY", "${{ github.repository }}")):
            if not environ.get(name):
                raise UsageError(f"{name} is not set.", f"In a workflow, set it in `env:` to {where}.")
        url = environ.get("GITHUB_API_URL") or DEFAULT_API
        return cls(environ["GITHUB_TOKEN"], url, environ["GITHUB_REPOSITORY"], bot=environ.get("RATCHET_BOT") or DEFAULT_BOT)

    def __repr__(self) -> str:
        return f"GitHub({self.repository} at {self._host})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection to GitHub holds a token, so it is not written down")


def _repository(token: str, api_url: str, repository: str, timeout_s: int) -> Repository:
    """PyGithub's object; nothing is asked yet."""
    try:
        from github import Auth, Github
    except ImportError:
        raise UsageError(
            "PyGithub is not installed, and GitHub is reached through it.", "pip install 'ratchet[github]'"
        ) from None
    client = Github(
        auth=Auth.Token(token),
        base_url=api_url.rstrip("/"),
        timeout=timeout_s,
        user_agent="ratchet",
        per_page=100,
        retry=None,  # ratchet.forge.connection says why
        seconds_between_requests=None,
        seconds_between_writes=None,
        lazy=True,
    )
    return client.get_repo(repository)


class Conversation(Connection):
    """Reads all comments, and writes only those of our own bot that begin with the marker asked for."""

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
