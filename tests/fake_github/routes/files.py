"""The repository: files, branches, commits."""

from __future__ import annotations

import re

from tests.fake_github.routes.base import LARGEST_RAW, MISSING, Call, Reply, Routes, route
from tests.fake_github.script import error


@route("GET", "")
def _repository(routes: Routes, _: Call, __: re.Match[str]) -> Reply:
    return Reply(200, routes.shapes.repository())


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


@route("GET", r"/git/trees/(.+)")
def _tree(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    rows = routes.state.tree(match[1])
    return MISSING if rows is None else Reply(200, routes.shapes.tree(match[1], rows))


@route("GET", r"/branches/(.+)")
def _branch(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    sha = routes.state.branch(match[1])
    return Reply(200, routes.shapes.branch(match[1], sha)) if sha else Reply(404, error(404, "Branch not found"))


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
