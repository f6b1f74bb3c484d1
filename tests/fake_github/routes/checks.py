"""Check runs and statuses, with their limits."""

from __future__ import annotations

import re
from typing import Any

from tests.fake_github.routes.base import ANNOTATIONS, LARGEST_CHECK_TEXT, MISSING, Call, Reply, Routes, route
from tests.fake_github.script import error
from tests.fake_github.shapes import fill
from tests.fake_github.state import Check


@route("POST", r"/check-runs", "checks")
def _open_check(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    body, state = call.body, routes.state
    if state.commit(body["head_sha"]) is None:
        return Reply(422, error(422, f"No commit found for SHA: {body['head_sha']}"))
    status = "completed" if "conclusion" in body else body.get("status", "queued")
    check = Check(
        state.fresh_id(),
        body["name"],
        body["head_sha"],
        body.get("details_url"),
        body.get("external_id", ""),
        status,
        None,
        login=call.who.login,
    )
    refused = _write_check(check, body)
    if refused:
        return refused
    state.checks[check.id] = check
    return Reply(201, routes.shapes.check(check))


@route("GET", r"/commits/([^/]+)/check-runs")
def _checks(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    sha = routes.state.commit(match[1])
    if sha is None:
        return Reply(422, error(422, f"No commit found for SHA: {match[1]}"))
    chosen = [
        check
        for check in sorted(routes.state.checks.values(), key=lambda each: -each.id)
        if check.head_sha == sha
        and call.query.get("check_name") in (None, check.name)
        and call.query.get("status") in (None, check.status)
    ]
    if call.query.get("filter", "latest") == "latest":
        chosen = list({check.name: check for check in reversed(chosen)}.values())
    rows = [routes.shapes.check(check) for check in chosen]
    return Reply(200, {"total_count": len(rows), "check_runs": rows}, pages="check_runs")


@route("GET", r"/check-runs/(\d+)")
def _check(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    check = routes.state.checks.get(int(match[1]))
    return Reply(200, routes.shapes.check(check)) if check else MISSING


@route("PATCH", r"/check-runs/(\d+)", "checks")
def _edit_check(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    check = routes.state.checks.get(int(match[1]))
    if check is None:
        return MISSING
    refused = _write_check(check, call.body)
    if refused:
        return refused
    check.calls += 1
    return Reply(200, routes.shapes.check(check))


def _write_check(check: Check, body: dict[str, Any]) -> Reply | None:
    """Annotations of later calls come on top; everything else is replaced."""
    output = body.get("output", {})
    annotations = output.get("annotations", [])
    if len(annotations) > ANNOTATIONS:
        return Reply(422, error(422, "Invalid request.\n\nNo more than 50 items are allowed; 51 were supplied."))
    for name in ("summary", "text"):
        if len(output.get(name) or "") > LARGEST_CHECK_TEXT:
            return Reply(
                422, error(422, f"Invalid request.\n\nOnly {LARGEST_CHECK_TEXT} characters are allowed; more were supplied.")
            )
    if body.get("status") == "completed" and "conclusion" not in body:
        return Reply(422, error(422, 'Invalid request.\n\n"conclusion" wasn\'t supplied.'))
    check.annotations += annotations
    for name in ("title", "summary", "text"):
        setattr(check, name, output.get(name, getattr(check, name)))
    if "conclusion" in body:
        check.status, check.conclusion = "completed", body["conclusion"]
    elif "status" in body:
        check.status = body["status"]
    return None


@route("POST", r"/statuses/([0-9a-f]{40})", "statuses")
def _status(routes: Routes, call: Call, match: re.Match[str]) -> Reply:
    routes.state.statuses.append({"sha": match[1], **call.body})
    return Reply(201, fill("status", {**call.body, "creator": routes.shapes.user(call.who.login)}))
