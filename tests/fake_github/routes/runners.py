"""Runners of our own: a configuration for one job, and the end of a runner."""

from __future__ import annotations

import base64
import json
import re

from tests.fake_github.routes.base import MISSING, Call, Reply, Routes, route
from tests.fake_github.script import error
from tests.fake_github.shapes import fill


@route("POST", r"/actions/runners/generate-jitconfig", "administration")
def _configure(routes: Routes, call: Call, _: re.Match[str]) -> Reply:
    name, labels, runners = call.body["name"], call.body["labels"], routes.state.runners
    if name in {runner["name"] for runner in runners.values()}:
        return Reply(409, error(409, "Already exists - A runner with this name exists"))
    number = routes.state.fresh_id()
    runners[number] = {"name": name, "labels": labels}
    known = {"id": number, "name": name, "os": "unknown", "status": "offline", "busy": False}
    described = {**fill("runner", known), "labels": [{"name": label, "type": "custom"} for label in labels]}
    encoded = base64.b64encode(json.dumps({"id": number, "name": name}).encode()).decode()
    return Reply(201, {"runner": described, "encoded_jit_config": encoded})


@route("DELETE", r"/actions/runners/(\d+)", "administration")
def _remove(routes: Routes, _: Call, match: re.Match[str]) -> Reply:
    return Reply(204) if routes.state.runners.pop(int(match[1]), None) else MISSING
