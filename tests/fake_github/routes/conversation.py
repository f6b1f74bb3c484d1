"""Comments, reactions and labels of a pull request."""

from __future__ import annotations

import re

from tests.fake_github.routes.base import LARGEST_COMMENT, MISSING, Call, Reply, Routes, invalid, route
from tests.fake_github.script import error


@route("GET", r"/issues/(\d+)")
def _issue(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    found = routes.pull(match[1]) or routes.state.issues.get(int(match[1]))
    return Reply(200, routes.shapes.issue(found)) if found else MISSING


@route("GET", r"/issues/(\d+)/comments")
def _comments(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    if routes.pull(match[1]) is None:
        return MISSING
    found = sorted(routes.state.comments_of(int(match[1])), key=lambda each: each.id)
    return Reply(200, [routes.shapes.comment(each) for each in found], pages="list")


@route("POST", r"/issues/(\d+)/comments", "issues|pull_requests")
def _add_comment(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    if routes.pull(match[1]) is None:
        return MISSING
    if refused := _refused_lock(routes, int(match[1])) or _refused_body(call.body["body"]):
        return refused
    return Reply(201, routes.shapes.comment(routes.state.add_comment(int(match[1]), call.who.login, call.body["body"])))


@route("GET", r"/issues/comments/(\d+)")
def _comment(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    comment = routes.state.comments.get(int(match[1]))
    return Reply(200, routes.shapes.comment(comment)) if comment else MISSING


@route("PATCH", r"/issues/comments/(\d+)", "issues|pull_requests")
def _edit_comment(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    comment = routes.state.comments.get(int(match[1]))
    if comment is None:
        return MISSING
    if refused := _refused_lock(routes, comment.number) or _refused_body(call.body["body"]):
        return refused
    comment.body, comment.updated_at = call.body["body"], routes.state.tick()
    return Reply(200, routes.shapes.comment(comment))


@route("DELETE", r"/issues/comments/(\d+)", "issues|pull_requests")
def _delete_comment(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    return Reply(204) if routes.state.comments.pop(int(match[1]), None) else MISSING


def _refused_lock(routes: Routes, number: int) -> Reply | None:
    pull = routes.state.pulls.get(number)
    return Reply(403, error(403, "Unable to create comment because issue is locked.")) if pull and pull.locked else None


def _refused_body(body: str) -> Reply | None:
    if len(body) > LARGEST_COMMENT:
        return invalid(f"body is too long (maximum is {LARGEST_COMMENT} characters)")
    return None if body.strip() else invalid("body can't be blank")


@route("POST", r"/issues/comments/(\d+)/reactions", "issues|pull_requests")
def _react(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    comment = routes.state.comments.get(int(match[1]))
    if comment is None:
        return MISSING
    if refused := _refused_lock(routes, comment.number):
        return refused
    mine = f"{call.who.login}:{call.body['content']}"
    fresh = mine not in comment.reactions
    comment.reactions += [mine] * fresh
    body = {"id": 1, "node_id": "R", "user": routes.shapes.user(call.who.login), "content": call.body["content"]}
    return Reply(201 if fresh else 200, body | {"created_at": "2026-11-21T08:00:00Z"})


@route("GET", r"/issues/(\d+)/labels")
def _labels(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    pull = routes.pull(match[1])
    return Reply(200, [routes.shapes.label(name) for name in pull.labels], pages="list") if pull else MISSING


@route("POST", r"/issues/(\d+)/labels", "issues|pull_requests")
def _add_labels(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    pull = routes.pull(match[1])
    if pull is None:
        return MISSING
    pull.labels += [name for name in call.body["labels"] if name not in pull.labels]
    return Reply(200, [routes.shapes.label(name) for name in pull.labels])
