"""The stand-in for GitHub: it knows GitHub's description and GitHub's limits."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.fake_github import Answer, FakeGitHub, State
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


def test_limits(fake: FakeGitHub) -> None:
    """Bodies, summaries and texts have GitHub's largest sizes, on updates too, and a call takes 50 annotations."""
    comments, checks = f"{BASE}/issues/7/comments", f"{BASE}/check-runs"
    status, comment, _ = ask(fake.url, "POST", comments, {"body": "x" * 65_536})
    assert status == 201
    assert ask(fake.url, "POST", comments, {"body": "x" * 65_537})[0] == 422
    assert ask(fake.url, "PATCH", f"{BASE}/issues/comments/{comment['id']}", {"body": "x" * 65_537})[0] == 422
    _, check, _ = ask(fake.url, "POST", checks, {"name": "ratchet", "head_sha": "a" * 40, "status": "in_progress"})
    output = {"title": "t", "summary": "s" * 65_535, "text": "t" * 65_535}
    remark = {"path": "a.py", "start_line": 1, "end_line": 1, "annotation_level": "warning", "message": "m"}
    update = f"{checks}/{check['id']}"
    assert ask(fake.url, "PATCH", update, {"output": output | {"annotations": [remark] * 50}})[0] == 200
    assert fake.violations == []
    assert ask(fake.url, "PATCH", update, {"output": output | {"summary": "s" * 65_536}})[0] == 422
    assert ask(fake.url, "PATCH", update, {"output": output | {"text": "t" * 65_536}})[0] == 422
    assert ask(fake.url, "PATCH", update, {"output": output | {"annotations": [remark] * 51}})[0] == 422
    assert len(fake.violations) == 3  # the description has these limits as well
    fake.violations.clear()


def test_pages(fake: FakeGitHub) -> None:
    """Lists come in pages of 30, or of what was asked up to 100, with links to the others."""
    for number in range(205):
        fake.state.add_comment(7, "octocat", f"comment {number}")
    path = f"{BASE}/issues/7/comments"
    _, rows, headers = ask(fake.url, "GET", path)
    assert len(rows) == 30
    assert 'rel="next"' in headers["Link"]
    assert len(ask(fake.url, "GET", f"{path}?per_page=500")[1]) == 100
    _, rows, headers = ask(fake.url, "GET", f"{path}?per_page=100&page=3")
    assert [row["body"] for row in rows] == [f"comment {number}" for number in range(200, 205)]
    assert 'rel="next"' not in headers["Link"]


def test_tokens(fake: FakeGitHub) -> None:
    """An unknown token is refused, and a weak one may read but not write."""
    fake.state.tokens["weak"] = type(fake.state.tokens[fake.token])("octocat", frozenset())
    assert ask(fake.url, "GET", SEEN, token="expired")[0] == 401
    assert ask(fake.url, "GET", SEEN, token="weak")[0] == 200
    status, _, headers = ask(fake.url, "POST", f"{BASE}/issues/7/comments", {"body": "x"}, token="weak")
    assert status == 403
    assert headers["X-Accepted-GitHub-Permissions"] == "issues=write; pull_requests=write"


def test_many_at_once(fake: FakeGitHub) -> None:
    """Twenty writers lose no comment."""
    one = threading.Thread
    writers = [one(target=ask, args=(fake.url, "POST", f"{BASE}/issues/7/comments", {"body": str(n)})) for n in range(20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(int(each.body) for each in fake.state.comments_of(7)) == list(range(20))
    assert len({each.id for each in fake.state.comments_of(7)}) == 20


def test_files_from_a_repository(fake: FakeGitHub, tmp_path: Path) -> None:
    """With a git repository behind it, files and branches are those of its commits."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=octocat", "-c", "user.email=octocat@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (tmp_path / "kernel.cu").write_text("int main;\n", encoding="utf-8")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    fake.state.origin = tmp_path
    sha = fake.state.branch("main")
    assert fake.state.file("kernel.cu", str(sha)) == b"int main;\n"
    assert ask(fake.url, "GET", f"{BASE}/branches/main")[1]["commit"]["sha"] == sha
    assert ask(fake.url, "GET", f"{BASE}/contents/kernel.cu?ref={sha}")[0] == 200
    assert ask(fake.url, "GET", f"{BASE}/contents/absent.cu?ref={sha}")[0] == 404


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    """Started with a seed it prints its address, serves, tells its state, takes scripts, and ends with its input."""
    seed = {"pulls": [{"number": 3, "title": "Faster"}], "comments": [{"number": 3, "author": "octocat", "body": "hello"}]}
    seed |= {"files": {"main": {"a.txt": "text"}}, "permissions": {"a-maintainer": "maintain"}, "workflows": ["x.yml"]}
    seed |= {
        "runs": [{"id": 5, "artifacts": ["benchmark-ratchet-results"]}],
        "tokens": {"weak": {"login": "octocat", "rights": []}},
    }
    path = tmp_path / "seed.json"
    path.write_text(json.dumps(seed), encoding="utf-8")
    command = [sys.executable, "-m", "tests.fake_github", str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TESTS.parent
    ) as process:
        url = process.stdout.readline().strip()
        assert ask(url, "GET", f"{BASE}/pulls/3")[1]["title"] == "Faster"
        script = {"method": "POST", "path": "/issues/3/comments", "answers": [{"status": 502, "done": True}]}
        assert ask(url, "POST", "/_fake/script", script)[0] == 204
        assert ask(url, "POST", f"{BASE}/issues/3/comments", {"body": "twice?"})[0] == 502
        assert ask(url, "GET", f"{BASE}/pulls/3?verbose=1")[0] == 200
        state = ask(url, "GET", "/_fake/state")[1]
        _, errors = process.communicate("", timeout=300)
    assert [each["body"] for each in state["comments"]] == ["hello", "twice?"]
    assert state["files"] == {"main": {"a.txt": "text"}}
    assert state["violations"] != []
    assert process.returncode == 1
    assert "verbose" in errors


def test_a_seed_with_an_unknown_word_is_refused() -> None:
    """A misspelt field of a seed does not pass in silence."""
    with pytest.raises(ValueError, match="pullz"):
        State.from_json({"pullz": []})


def test_answers_are_used_once_and_in_order(fake: FakeGitHub) -> None:
    """A script's answers come one a request, and then the usual again."""
    fake.script("GET", r"/pulls/7$", [Answer(500), Answer(usual=True), Answer(404)])
    assert [ask(fake.url, "GET", SEEN)[0] for _ in range(4)] == [500, 200, 404, 200]
