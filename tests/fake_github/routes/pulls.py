"""Pull requests: found, read, opened, edited."""

from __future__ import annotations

import re

from tests.fake_github.routes.base import MISSING, Call, Reply, Routes, invalid, route
from tests.fake_github.script import error


@route("GET", r"/pulls")
def _pulls(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    state, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    chosen = [
        routes.shapes.pull(pull, simple=True)
        for pull in sorted(routes.state.pulls.values(), key=lambda each: -each.number)
        if state in ("all", pull.state)
        and head in (None, f"{(pull.head_repository or '').partition('/')[0]}:{pull.head_ref}")
        and base in (None, pull.base_ref)
    ]
    return Reply(200, chosen, pages="list")


@route("POST", r"/pulls", "pull_requests")
def _open_pull(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    state = routes.state
    head, base = call.body["head"].rpartition(":")[2], call.body["base"]
    owner = state.repository.partition("/")[0]
    same = [pull for pull in state.pulls.values() if (pull.head_ref, pull.base_ref, pull.state) == (head, base, "open")]
    if any(pull.head_repository == state.repository for pull in same):
        return invalid(f"A pull request already exists for {owner}:{head}.")
    at, onto = state.branch(head), state.branch(base)
    if at is None or onto is None:
        wrong = {"resource": "PullRequest", "field": "head" if at is None else "base", "code": "invalid"}
        return Reply(422, error(422, "Validation Failed", [wrong]))
    if at == onto:
        return invalid(f"No commits between {base} and {head}")
    number = max(state.pulls, default=0) + 1
    fields = {"title": call.body["title"], "body": call.body.get("body") or "", "draft": call.body.get("draft", False)}
    fields |= {"head_sha": at, "head_ref": head, "base_sha": onto, "base_ref": base, "author": call.who.login}
    return Reply(201, routes.shapes.pull(state.add_pull(number, head_repository=state.repository, **fields)))


@route("GET", r"/pulls/(\d+)")
def _pull(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    pull = routes.pull(match[1])
    return Reply(200, routes.shapes.pull(pull)) if pull else MISSING


@route("PATCH", r"/pulls/(\d+)", "pull_requests")
def _edit_pull(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    pull = routes.pull(match[1])
    if pull is None:
        return MISSING
    for name in ("title", "body", "state"):
        if name in call.body:
            setattr(pull, name, call.body[name] or "")
    if "base" in call.body:
        pull.base_ref = call.body["base"]
    return Reply(200, routes.shapes.pull(pull))


@route("GET", r"/pulls/(\d+)/files")
def _files(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    pull = routes.pull(match[1])
    return Reply(200, [routes.shapes.changed_file(path) for path in pull.files[:3000]], pages="list") if pull else MISSING


@route("GET", r"/commits/([^/]+)/pulls")
def _pulls_of_commit(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    sha = match[1]
    if routes.state.commit(sha) is None:
        return Reply(422, error(422, f"No commit found for SHA: {sha}"))
    chosen = [pull for pull in routes.state.pulls.values() if sha in (pull.merge_commit_sha, pull.head_sha)]
    return Reply(200, [routes.shapes.pull(pull, simple=True) for pull in chosen], pages="list")
