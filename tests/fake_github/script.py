"""Answers to come: what the stand-in says instead of, or after, doing what it was asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fake_github.state import State


@dataclass(frozen=True)
class Answer:
    """One scripted answer. ``Answer(502)`` refuses; ``Answer(502, done=True)`` does it, and says it did not."""

    status: int = 200
    body: Any = None
    """JSON; where None, the words that GitHub has for the status. A string is sent as it is."""
    headers: Mapping[str, str] = field(default_factory=dict)
    done: bool = False
    """Whether the request has its effect all the same."""
    cut: bool = False
    """Close the connection instead of answering."""
    delay_s: float = 0
    """Wait first: longer than the client's patience for a time-out."""
    usual: bool = False
    """No trick: answer as usual. Lets a script hit the second request only."""
    meanwhile: Callable[[State], object] | None = None
    """What happens on GitHub just before this request is served."""

    @property
    def from_github(self) -> bool:
        """Return whether it is one that GitHub itself could give, rather than a broken line or a proxy."""
        return not self.cut and not isinstance(self.body, str) and (self.done or self.status >= 400)


@dataclass
class Script:
    """Answers for the requests that match, each used once."""

    method: str
    path: re.Pattern[str]
    answers: list[Answer]

    def matches(self, method: str, target: str) -> bool:
        return bool(self.answers) and self.method in ("*", method) and self.path.search(target) is not None


WORDS = {
    400: "Problems parsing JSON",
    401: "Bad credentials",
    403: "Resource not accessible by integration",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    410: "This issue was deleted",
    422: "Validation Failed",
    429: "API rate limit exceeded for installation ID 1.",
    500: "Server Error",
    502: "Server Error",
    503: "Service unavailable",
    504: "We couldn't respond to your request in time.",
}


def error(status: int, message: str = "", errors: list[Any] | None = None) -> dict[str, Any]:
    """The body of an error as GitHub writes it."""
    body: dict[str, Any] = {"message": message or WORDS.get(status, "Error")}
    if errors is not None:
        body["errors"] = errors
    return body | {"documentation_url": "https://docs.github.com/rest", "status": str(status)}
