"""A connection to one repository on GitHub. PyGithub loads with the first one, for not everyone has it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urlsplit

from pydantic import SecretStr

from ratchet.errors import UsageError

if TYPE_CHECKING:
    from github.Repository import Repository

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
        from ratchet.forge.tries import Tries

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
        retry=None,  # ratchet.forge.tries says why
        seconds_between_requests=None,
        seconds_between_writes=None,
        lazy=True,
    )
    return client.get_repo(repository)
