"""A call, a reply, and the table of handlers that turn one into the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.fake_github.script import error
from tests.fake_github.shapes import Shapes
from tests.fake_github.state import Pull, State, Token

LARGEST_COMMENT = 65_536
LARGEST_CHECK_TEXT = 65_535
ANNOTATIONS = 50
LARGEST_RAW = 100 * 2**20


@dataclass(frozen=True)
class Call:
    """A request, taken apart."""

    method: str
    path: str
    """Below ``/repos/OWNER/NAME``, decoded; else the whole."""
    query: dict[str, str]
    body: dict[str, Any]
    accept: str
    who: Token


@dataclass(frozen=True)
class Reply:
    """An answer before it is cut into pages and sent."""

    status: int
    body: Any = None
    """JSON, or bytes that are sent as they are."""
    headers: dict[str, str] = field(default_factory=dict)
    pages: str = ""
    """``list``, or the field that holds the list, where the answer comes in pages."""


Handler = Callable[["Routes", Call, re.Match[str]], Reply]
_TABLE: list[tuple[str, re.Pattern[str], str, Handler]] = []


def route(method: str, pattern: str, right: str = "") -> Callable[[Handler], Handler]:
    """Register a handler; ``right`` is what a token has to be allowed to write, one of several with ``|``."""

    def register(handler: Handler) -> Handler:
        _TABLE.append((method, re.compile(pattern), right, handler))
        return handler

    return register


class Routes:
    """All calls about one repository."""

    def __init__(self, state: State, url: str) -> None:
        self.state = state
        self.shapes = Shapes(state, url)

    def answer(self, call: Call) -> Reply:
        for method, pattern, right, handler in _TABLE:
            match = pattern.fullmatch(call.path)
            if match and method == call.method:
                if right and not call.who.rights & {*right.split("|")}:
                    wanted = "; ".join(f"{each}=write" for each in right.split("|"))
                    return Reply(403, error(403), {"X-Accepted-GitHub-Permissions": wanted})
                return handler(self, call, match)
        return MISSING

    def pull(self, number: str) -> Pull | None:
        return self.state.pulls.get(int(number))


MISSING = Reply(404, error(404))


def invalid(message: str) -> Reply:
    """A refusal with GitHub's reason."""
    return Reply(422, error(422, "Validation Failed", [{"resource": "Issue", "code": "unprocessable", "message": message}]))


def decoded(path: str, repository: str) -> str | None:
    """The part of a path below our repository; None for another one."""
    prefix = f"/repos/{repository}"
    if path.casefold() == prefix.casefold() or path.casefold().startswith(f"{prefix}/".casefold()):
        return unquote(path[len(prefix) :])
    return path if path == "/rate_limit" else None
