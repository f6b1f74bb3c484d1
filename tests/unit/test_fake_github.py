"""The stand-in for GitHub: it knows GitHub's description and GitHub's limits."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.fake_github import FakeGitHub, State
from tests.fake_github.contract import broken_request, broken_response, description, template_of
from tests.fake_github.shapes import Shapes

pytestmark = pytest.mark.no_cover

BASE = "/repos/octo-org/kernels"
SEEN = f"{BASE}/pulls/7"
TESTS = Path(__file__).parents[1]


def ask(url: str, method: str, path: str, body: Any = None, token: str = FakeGitHub.token) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}{path}", content, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.loads(answer.read() or b"null"), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read()), dict(error.headers)


def test_every_call_that_is_described_is_known_by_its_template() -> None:
    """Slashes in a path, a branch or a ref do not hide the call that is meant."""
    assert template_of(f"{BASE}/contents/results/baseline.json") == "/repos/{owner}/{repo}/contents/results/baseline.json"
    assert template_of(f"{BASE}/contents/deep/in/a/folder.txt") == "/repos/{owner}/{repo}/contents/{path}"
    assert template_of(f"{BASE}/branches/feature/x") == "/repos/{owner}/{repo}/branches/{branch}"
    assert template_of(f"{BASE}/git/ref/heads/main") == "/repos/{owner}/{repo}/git/ref/{ref}"
    assert template_of(f"{BASE}/teapots") is None
    assert template_of(f"{BASE}/compare/feature/x...main") == "/repos/{owner}/{repo}/compare/{basehead}"
    assert len(description()["paths"]) == 39


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "complaint"),
    [
        ("GET", f"{BASE}/teapots", {}, None, "no such call"),
        ("GET", SEEN, {"verbose": "1"}, None, "the query parameter verbose is unknown"),
        ("GET", f"{BASE}/pulls/seven", {}, None, "request"),
        ("POST", f"{BASE}/issues/7/comments", {}, {"text": "x"}, "body"),
        ("POST", f"{BASE}/issues/7/comments", {}, {"body": 1}, "body"),
        ("POST", f"{BASE}/issues/7/comments", {}, {"body": "x", "marker": "y"}, "the field marker is unknown"),
        ("POST", f"{BASE}/check-runs", {}, {"name": "ratchet"}, "head_sha"),
        ("PATCH", f"{BASE}/check-runs/1", {}, {"conclusion": "splendid"}, "request"),
    ],
)
def test_a_request_that_github_does_not_describe_is_found(
    method: str, path: str, query: dict[str, str], body: Any, complaint: str
) -> None:
    """A call, a parameter, a field or a value that is not in the description is reported."""
    content = b"" if body is None else json.dumps(body).encode()
    found = broken_request(method, path, query, content)
    assert any(complaint in each for each in found), found


def test_a_response_that_github_would_not_give_is_found() -> None:
    """A missing field, a wrong type or an undocumented status of the stand-in's own is reported."""
    state = State()
    good = Shapes(state, "http://127.0.0.1").pull(state.add_pull(7))
    kind = "application/json; charset=utf-8"
    assert broken_response("GET", SEEN, 200, json.dumps(good).encode(), kind) == []
    for wrong in ({**good, "number": "seven"}, {key: value for key, value in good.items() if key != "head"}):
        assert broken_response("GET", SEEN, 200, json.dumps(wrong).encode(), kind) != []
    assert broken_response("GET", SEEN, 207, b"{}", kind) != []
    assert broken_response("GET", SEEN, 502, b"<html>", kind) != []


def test_what_breaks_the_contract_fails_the_test_that_did_it() -> None:
    """Leaving the stand-in after a request that GitHub does not describe raises."""

    def use() -> None:
        with FakeGitHub() as fake:
            fake.state.add_pull(7)
            ask(fake.url, "GET", f"{SEEN}?verbose=1")

    with pytest.raises(AssertionError, match="the query parameter verbose is unknown"):
        use()
