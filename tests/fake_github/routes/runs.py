"""People, workflow runs, artifacts, workflows."""

from __future__ import annotations

import json
import re

from tests.fake_github.routes.base import LARGEST_CHECK_TEXT, MISSING, Call, Reply, Routes, route
from tests.fake_github.script import error


@route("GET", r"/collaborators/([^/]+)/permission")
def _permission(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    role = routes.state.permissions.get(match[1])
    known = role is not None or match[1] in {pull.author for pull in routes.state.pulls.values()}
    known = known or match[1] in {comment.author for comment in routes.state.comments.values()}
    if not known:
        return Reply(404, error(404, f"{match[1]} is not a user"))
    return Reply(200, routes.shapes.permission(match[1], role or "read"))


@route("GET", r"/actions/runs/(\d+)")
def _run(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    run = routes.state.runs.get(int(match[1]))
    return Reply(200, routes.shapes.run(run)) if run else MISSING


@route("GET", r"/actions/runs")
def _runs(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    wanted = {name: call.query[name] for name in ("head_sha", "event") if name in call.query}
    branch, status = call.query.get("branch"), call.query.get("status")
    found = [
        routes.shapes.run(run)
        for run in sorted(routes.state.runs.values(), key=lambda run: -run.id)
        if all(getattr(run, name) == value for name, value in wanted.items())
        and branch in (None, run.head_branch)
        and status in (None, run.conclusion, "completed" if run.conclusion else "in_progress")
    ]
    return Reply(200, {"total_count": len(found), "workflow_runs": found}, pages="workflow_runs")


@route("GET", r"/actions/runs/(\d+)/artifacts")
def _artifacts(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    run = routes.state.runs.get(int(match[1]))
    if run is None:
        return MISSING
    found = [routes.shapes.artifact(name, run) for name in run.artifacts if call.query.get("name") in (None, name)]
    return Reply(200, {"total_count": len(found), "artifacts": found}, pages="artifacts")


@route("GET", r"/actions/workflows/([^/]+)")
def _workflow(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    return Reply(200, routes.shapes.workflow(match[1])) if match[1] in routes.state.workflows else MISSING


@route("POST", r"/actions/workflows/([^/]+)/dispatches", "actions")
def _dispatch(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    state = routes.state
    if match[1] not in state.workflows:
        return MISSING
    if state.branch(call.body["ref"]) is None:
        return Reply(422, error(422, f"No ref found for: {call.body['ref']}"))
    inputs = call.body.get("inputs", {})
    if len(inputs) > 25 or len(json.dumps(inputs)) > LARGEST_CHECK_TEXT:
        return Reply(422, error(422, "you may only define up to 25 `inputs` for a `workflow_dispatch` event"))
    state.dispatches.append({"workflow": match[1], "ref": call.body["ref"], "inputs": inputs, "by": call.who.login})
    return Reply(204)
