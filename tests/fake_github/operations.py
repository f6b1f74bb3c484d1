"""Every operation of `ratchet.github.client`, ready to be called, and every answer that ends one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fake_github.script import Answer
from tests.fake_github.state import BOT, TOKEN, Issue, State

if TYPE_CHECKING:
    from ratchet.github.client import GitHub
    from tests.fake_github.server import FakeGitHub

MARKER = "<!-- ratchet:report:default -->"
REPLY = "<!-- ratchet:reply:1 -->"
ISSUE = "<!-- ratchet:regression:1 -->"
FIRST = 1001
"""The number of the comment, and of the check run after it, that `populate` makes."""


@dataclass(frozen=True)
class Operation:
    """One call, how its error begins, and what it gives instead of an error where nothing is there."""

    call: Callable[[GitHub], object]
    doing: str
    absent: object = ...
    answered: bool = True
    """Whether it looks at what it is answered."""


def connect(fake: FakeGitHub, token: str = TOKEN, **changes: Any) -> GitHub:
    """A client that does not wait."""
    from ratchet.github.client import GitHub

    def sleep(seconds: float) -> None:
        assert seconds == 0, "a client without patience waits"

    return GitHub(token, fake.url, fake.state.repository, **({"patience_s": 0, "sleep": sleep} | changes))


def populate(state: State) -> None:
    """All that the operations need."""
    state.add_pull(7, files=["bench/copy.py"])
    state.add_comment(7, BOT, f"{MARKER}\nfirst")
    state.issues[3] = Issue(3, labels=["bench"])
    state.add_run(5, artifacts=["benchmark-ratchet-results"])
    state.branches["ratchet/baseline"] = "e" * 40
    state.workflows.append("cuda_profile.yml")
    state.set_file("results/baseline.json", b"{}")
    state.permissions["a-maintainer"] = "maintain"


def _complete(github: GitHub) -> None:
    from ratchet.github.records import CheckOutput

    github.complete_check(FIRST + 1, "success", CheckOutput("t", "s", "x"))


OPERATIONS: dict[str, Operation] = {
    "bot": Operation(lambda g: g.bot, "Reading whose token this is"),
    "pull": Operation(lambda g: g.pull(7), "Reading pull request 7"),
    "pulls_of_commit": Operation(lambda g: g.pulls_of_commit("a" * 40), "Reading the pull requests of commit aaa"),
    "find_pulls": Operation(lambda g: g.find_pulls("octo-org/kernels", "topic"), "Looking for pull requests from octo-org:topic"),
    "open_pulls": Operation(lambda g: g.open_pulls(), "Reading the open pull requests"),
    "open_pull": Operation(
        lambda g: g.open_pull("t", "b", "ratchet/baseline", "main", draft=True),
        "Looking for pull requests from octo-org:ratchet/baseline",
    ),
    "comments": Operation(lambda g: g.comments(7), "Reading the comments of pull request 7"),
    "comment": Operation(lambda g: g.comment(FIRST), "Reading comment 1001", absent=None),
    "upsert_comment": Operation(lambda g: g.upsert_comment(7, MARKER, MARKER), "Reading the comments of pull request 7"),
    "reply": Operation(lambda g: g.reply(7, REPLY, REPLY), "Reading the comments of pull request 7"),
    "issues": Operation(lambda g: g.issues("bench", ISSUE), "Reading the issues called bench"),
    "open_issue": Operation(lambda g: g.open_issue("t", ISSUE, "bench", ISSUE), "Reading the issues called bench"),
    "edit_issue": Operation(lambda g: g.edit_issue(3, "t", ISSUE, is_open=True), "Updating issue 3"),
    "react": Operation(lambda g: g.react(FIRST, "eyes"), "Reacting to comment 1001", answered=False),
    "workflow_run": Operation(lambda g: g.workflow_run(5), "Reading workflow run 5"),
    "artifacts": Operation(lambda g: g.artifacts(5), "Reading the artifacts of workflow run 5"),
    "has_artifact": Operation(
        lambda g: g.has_artifact(5, "benchmark-ratchet-results"), "Reading the artifacts of workflow run 5"
    ),
    "runs_of": Operation(lambda g: g.runs_of("a" * 40), "Reading the workflow runs of aaa"),
    "last_success": Operation(lambda g: g.last_success("x.yml", "main", 9), "Reading the workflow runs on main"),
    "object_at": Operation(lambda g: g.object_at("bench", "b" * 40), "Reading the tree of bbb"),
    "edit_comment": Operation(lambda g: g.edit_comment(FIRST, "x"), "Updating comment 1001"),
    "file_at": Operation(
        lambda g: g.file_at("results/baseline.json", "main"), "Reading results/baseline.json at main", absent=None
    ),
    "permission": Operation(lambda g: g.permission("a-maintainer"), "Reading the permission of a-maintainer", absent="none"),
    "tip": Operation(lambda g: g.tip("main"), "Looking for branch main", absent=None),
    "holds": Operation(lambda g: g.holds("main", "b" * 40), "Looking for bbbbbbbbbb in main", absent=None),
    "merge_base": Operation(lambda g: g.merge_base("main", "b" * 40), "Looking for where bbbbbbbbbb left main", absent=None),
    "own_checks": Operation(lambda g: g.own_checks("ratchet", "a" * 40), "Reading whose token this is"),
    "default_branch": Operation(lambda g: g.default_branch(), "Reading the repository"),
    "open_check": Operation(
        lambda g: g.open_check("ratchet", "a" * 40, "https://example.org", "5"), "Opening a check run on aaa"
    ),
    "complete_check": Operation(_complete, "Completing check run 1002"),
    "dispatch": Operation(
        lambda g: g.dispatch("cuda_profile.yml", "main", {"case": "copy"}), "Starting cuda_profile.yml", answered=False
    ),
}

_EXCEEDED = {"message": "API rate limit exceeded for installation ID 1.", "documentation_url": "https://docs.github.com/rest"}
_ABUSE = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}


def far() -> dict[str, str]:
    """Headers of a primary limit that ends in an hour."""
    return {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 3600)}


ANSWERS: dict[str, tuple[Answer, str]] = {
    "expired token": (Answer(401), "TokenError"),
    "weak token": (Answer(403, headers={"X-Accepted-GitHub-Permissions": "issues=write"}), "TokenError"),
    "firewall": (Answer(403, "<html>no</html>"), "TokenError"),
    "primary limit": (Answer(403, _EXCEEDED, far()), "LimitedError"),
    "primary limit as 429": (Answer(429, _EXCEEDED, far()), "LimitedError"),
    "secondary limit with a time": (Answer(403, _ABUSE, {"Retry-After": "3600"}), "LimitedError"),
    "secondary limit without a time": (Answer(403, _ABUSE), "LimitedError"),
    "too many requests": (Answer(429), "LimitedError"),
    "not found": (Answer(404), "GoneError"),
    "gone": (Answer(410), "GoneError"),
    "conflict": (Answer(409), "RefusedError"),
    "invalid": (Answer(422), "RefusedError"),
    "internal error": (Answer(500), "UnreachableError"),
    "bad gateway": (Answer(502, "<html><title>502</title></html>"), "UnreachableError"),
    "unavailable": (Answer(503, headers={"Retry-After": "1"}), "UnreachableError"),
    "gateway time-out": (Answer(504, ""), "UnreachableError"),
    "cut connection": (Answer(cut=True), "UnreachableError"),
    "a proxy's page": (Answer(200, "<html>log in</html>"), "UnreachableError"),
    "half of the answer": (Answer(200, '{"number": 7, "title": "Fas'), "UnreachableError"),
    "another type": (Answer(200, '{"number": "seven", "name": 7, "id": [], "conclusion": 1}'), "UnreachableError"),
    "moved elsewhere": (Answer(301, headers={"Location": "http://moved.example.org/x"}), "UnreachableError"),
    "teapot": (Answer(418), "ForgeError"),
}
"""Name → an answer and the error that it becomes."""
