"""The repository: files, branches, commits."""

from __future__ import annotations

import base64
import re

from tests.fake_github.routes.base import LARGEST_RAW, MISSING, Call, Reply, Routes, route
from tests.fake_github.script import error
from tests.fake_github.shapes import blob_sha


@route("GET", "")
def _repository(routes: Routes, _: Call, __: re.Match[str]) -> Reply:
    return Reply(200, routes.shapes.repository())


@route("GET", r"/rate_limit")
def _rate(_: Routes, __: Call, ___: re.Match[str]) -> Reply:
    one = {"limit": 1000, "remaining": 999, "reset": 1_800_000_000, "used": 1}
    return Reply(200, {"resources": {"core": one, "search": one}, "rate": one})


@route("GET", r"/contents/(.+)")
def _contents(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    ref = call.query.get("ref", routes.state.default_branch)
    if routes.state.commit(ref) is None:
        return Reply(404, error(404, f"No commit found for the ref {ref}"))
    content = routes.state.file(match[1], ref)
    if content is None or len(content) > LARGEST_RAW:
        return MISSING if content is None else Reply(403, error(403, "This API returns blobs up to 100 MB in size."))
    if "raw" in call.accept:
        return Reply(200, content, {"Content-Type": "application/vnd.github.raw+json; charset=utf-8"})
    return Reply(200, routes.shapes.file(match[1], content, ref))


@route("PUT", r"/contents/(.+)", "contents")
def _put_contents(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    branch = call.body.get("branch", routes.state.default_branch)
    present = routes.state.file(match[1], branch)
    if present is not None and call.body.get("sha") != blob_sha(present):
        return Reply(409, error(409, f"{match[1]} does not match {call.body.get('sha')}"))
    content = base64.b64decode(call.body["content"])
    routes.state.set_file(match[1], content, branch)
    return Reply(200 if present is not None else 201, {"content": None, "commit": {"message": call.body["message"]}})


@route("GET", r"/git/trees/(.+)")
def _tree(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    rows = routes.state.tree(match[1])
    return MISSING if rows is None else Reply(200, routes.shapes.tree(match[1], rows))


@route("GET", r"/branches/(.+)")
def _branch(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    sha = routes.state.branch(match[1])
    return Reply(200, routes.shapes.branch(match[1], sha)) if sha else Reply(404, error(404, "Branch not found"))


@route("GET", r"/commits/([^/]+)")
def _commit(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    sha = routes.state.commit(match[1])
    return Reply(200, routes.shapes.commit(sha)) if sha else Reply(422, error(422, f"No commit found for SHA: {match[1]}"))


@route("GET", r"/compare/(.+)\.\.\.(.+)")
def _compare(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    base, head = map(routes.state.commit, match.groups())
    if base is None or head is None:
        return MISSING
    shared = routes.state.merge_base(base, head)
    if shared is None:
        return MISSING  # as GitHub answers where two histories share nothing
    behind, ahead = routes.state.is_ancestor(head, base), routes.state.is_ancestor(base, head)
    status = {(True, True): "identical", (True, False): "behind", (False, True): "ahead"}.get((behind, ahead), "diverged")
    return Reply(200, routes.shapes.comparison(base, shared, status))


@route("GET", r"/git/ref/(.+)")
def _ref(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    sha = routes.state.branch(match[1].removeprefix("heads/"))
    if sha is None:
        return MISSING
    pointed = {"type": "commit", "sha": sha, "url": f"https://example.org/{sha}"}
    return Reply(200, {"ref": f"refs/{match[1]}", "node_id": "R", "url": "https://example.org/ref", "object": pointed})
