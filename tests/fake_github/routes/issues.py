"""Issues that are no pull requests."""

from __future__ import annotations

import re

from tests.fake_github.routes.base import LARGEST_COMMENT, MISSING, Call, Reply, Routes, invalid, route
from tests.fake_github.state import Issue


@route("GET", r"/issues")
def _issues(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    labels = {name for name in call.query.get("labels", "").split(",") if name}
    state = call.query.get("state", "open")
    everything = [*routes.state.issues.values(), *routes.state.pulls.values()]  # GitHub lists pull requests among them
    found = [each for each in everything if labels <= {*each.labels} and state in ("all", each.state)]
    return Reply(200, [routes.shapes.issue(each) for each in sorted(found, key=lambda each: -each.number)], pages="list")


@route("POST", r"/issues", "issues")
def _open(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    if len(call.body.get("body") or "") > LARGEST_COMMENT:
        return invalid(f"body is too long (maximum is {LARGEST_COMMENT} characters)")
    number = max([0, *routes.state.issues, *routes.state.pulls]) + 1
    issue = Issue(number, call.body["title"], call.body.get("body"), call.who.login, list(call.body.get("labels", [])))
    routes.state.issues[number] = issue
    return Reply(201, routes.shapes.issue(issue))


@route("PATCH", r"/issues/(\d+)", "issues")
def _edit(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    issue = routes.state.issues.get(int(match[1]))
    if issue is None:
        return MISSING
    for name in ("title", "body", "state", "state_reason"):
        if name in call.body:
            setattr(issue, name, call.body[name])
    return Reply(200, routes.shapes.issue(issue))
