"""What we ask of GitHub, against a stand-in that keeps to GitHub's description and limits."""

from __future__ import annotations

import ast
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.core.errors import UsageError
from ratchet.github.client import GitHub
from ratchet.github.errors import GoneError, RefusedError, TokenError
from ratchet.github.records import LARGEST_CHECK_TEXT, Annotation, CheckOutput, StoredArtifact
from tests.fake_github import Answer, FakeGitHub, Token
from tests.fake_github.operations import connect
from tests.fake_github.routes.base import LARGEST_COMMENT
from tests.fake_github.shapes import Shapes

pytestmark = pytest.mark.no_cover

MARKER = "<!-- ratchet:report:default -->"
BOT = "github-actions[bot]"
HERE, FORK = "octo-org/kernels", "octocat/kernels"
PACKAGE = Path(__file__).parents[2] / "ratchet"


# ---- pull requests


def test_a_pull_request_is_read_whole(fake: FakeGitHub, github: GitHub) -> None:
    """Every field is what the pull request has, in one request."""
    fake.state.add_pull(8, author="octocat", head_repository=FORK, labels=["ratchet:accept", "gpu"])
    pull = github.pull(8)
    assert (pull.number, pull.author, pull.head_repository) == (8, "octocat", FORK)
    assert (pull.state, pull.merged, pull.labels) == ("open", False, ("ratchet:accept", "gpu"))
    assert (pull.head_sha, pull.head_ref, pull.base_sha, pull.base_ref) == ("a" * 40, "topic", "b" * 40, "main")
    assert len(fake.requests) == 1


def test_a_closed_pull_request_says_so(fake: FakeGitHub, github: GitHub) -> None:
    """A pull request that was merged and whose fork is gone is closed, merged, and of no repository."""
    fake.state.add_pull(9, state="closed", merged=True, head_repository=None)
    pull = github.pull(9)
    assert (pull.state, pull.merged, pull.head_repository) == ("closed", True, None)


def test_pull_requests_are_found_by_repository_and_branch(fake: FakeGitHub, github: GitHub) -> None:
    """Only open ones from exactly that repository and branch; another fork of the same owner is another repository."""
    fake.state.add_pull(10, head_repository=FORK)
    fake.state.add_pull(11, head_repository="octocat/kernels-2")
    fake.state.add_pull(12, head_repository=FORK, head_ref="other")
    fake.state.add_pull(13, head_repository=FORK, state="closed")
    assert [pull.number for pull in github.find_pulls(FORK, "topic")] == [10]
    assert [pull.number for pull in github.find_pulls(HERE, "topic")] == [7]
    assert github.find_pulls("octocat/elsewhere", "topic") == ()


def test_a_list_that_was_not_narrowed(fake: FakeGitHub, github: GitHub) -> None:
    """Where the filter is lost on the way, as after a redirection, pull requests from other branches are not taken for ours."""
    other = fake.state.add_pull(8, head_repository=FORK, head_ref="other")
    shapes = Shapes(fake.state, fake.url)
    fake.script("GET", "/pulls", [Answer(body=[shapes.pull(each, simple=True) for each in (other, fake.state.pulls[7])])])
    assert github.find_pulls(FORK, "topic") == ()


def test_the_pull_request_of_a_merge(fake: FakeGitHub, github: GitHub) -> None:
    """A commit on main leads to the pull request that it came with, in one request; a direct push leads to none."""
    fake.state.add_pull(14, state="closed", merged=True, merge_commit_sha="c" * 40)
    fake.state.branches["main"] = "e" * 40
    assert [(pull.number, pull.merged) for pull in github.pulls_of_commit("c" * 40)] == [(14, True)]
    assert len(fake.requests) == 1
    assert github.pulls_of_commit("e" * 40) == ()


def test_a_pull_request_is_opened_once(fake: FakeGitHub, github: GitHub) -> None:
    """A second time, the open one from the same branch gets the title and the body."""
    fake.state.branches["ratchet/baseline"] = "e" * 40
    first = github.open_pull("Forward", "one", "ratchet/baseline", "main", draft=True)
    again = github.open_pull("Forward again", "two", "ratchet/baseline", "main", draft=True)
    assert first.number == again.number
    opened = [pull for pull in fake.state.pulls.values() if pull.head_ref == "ratchet/baseline"]
    assert [(pull.title, pull.body, pull.draft) for pull in opened] == [("Forward again", "two", True)]


# ---- conversation


@pytest.mark.slow
def test_one_comment_after_fifty_pushes(fake: FakeGitHub, github: GitHub) -> None:
    """Among 200 comments of others, some with our marker, ours is made once and updated 49 times; no other one changes."""
    others = [
        *(("octocat", f"a remark, number {number}") for number in range(150)),
        *(("a-maintainer", f"{MARKER}\nquoted by a person, {number}") for number in range(25)),
        *(("other-app[bot]", f"{MARKER}\ncopied by a bot, {number}") for number in range(25)),
    ]
    for author, body in others[:120]:
        fake.state.add_comment(7, author, body)
    for push in range(50):
        if push == 20:
            for author, body in others[120:]:
                fake.state.add_comment(7, author, body)
        comment = github.upsert_comment(7, MARKER, f"{MARKER}\npush {push}")
    ours = [each for each in fake.state.comments_of(7) if each.author == BOT]
    assert [each.body for each in ours] == [f"{MARKER}\npush 49"]
    assert (comment.id, comment.body) == (ours[0].id, ours[0].body)
    assert sorted((each.author, each.body) for each in fake.state.comments_of(7) if each.author != BOT) == sorted(others)
    assert all(each.created_at == each.updated_at for each in fake.state.comments_of(7) if each.author != BOT)
    assert len(fake.sent("POST")) == 1


def test_our_own_comment_without_the_marker_is_left_alone(fake: FakeGitHub, github: GitHub) -> None:
    """Another report of our bot, and one that only quotes the marker further down, are not ours to write."""
    fake.state.add_comment(7, BOT, "<!-- ratchet:report:other -->\nanother report")
    fake.state.add_comment(7, BOT, f"> {MARKER}\nquoted")
    github.upsert_comment(7, MARKER, f"{MARKER}\nnew")
    assert [each.body.splitlines()[-1] for each in fake.state.comments_of(7)] == ["another report", "quoted", "new"]


def test_the_newest_of_several_is_updated(fake: FakeGitHub, github: GitHub) -> None:
    """Where two of ours stand there already, the newest is written."""
    first, second = (fake.state.add_comment(7, BOT, f"{MARKER}\n{number}") for number in range(2))
    github.upsert_comment(7, MARKER, f"{MARKER}\nnew")
    assert (first.body, second.body) == (f"{MARKER}\n0", f"{MARKER}\nnew")


def test_a_comment_that_was_deleted_is_made_again(fake: FakeGitHub, github: GitHub) -> None:
    """A comment that somebody removed comes back as a new one."""
    first = github.upsert_comment(7, MARKER, f"{MARKER}\n1")
    del fake.state.comments[first.id]
    assert github.comment(first.id) is None
    github.upsert_comment(7, MARKER, f"{MARKER}\n2")
    assert [each.body for each in fake.state.comments_of(7)] == [f"{MARKER}\n2"]


def test_a_comment_of_another_app(fake: FakeGitHub) -> None:
    """With the token of an App, its comments are ours at each push, and those of Actions are not; nobody gives its name."""
    fake.state.tokens["app-token"] = Token("ratchet-app[bot]")
    actions = fake.state.add_comment(7, BOT, f"{MARKER}\nof Actions")
    app = connect(fake, "app-token")
    for push in range(2):
        app.upsert_comment(7, MARKER, f"{MARKER}\n{push}")
    assert actions.body == f"{MARKER}\nof Actions"
    assert [each.body for each in fake.state.comments_of(7) if each.author == "ratchet-app[bot]"] == [f"{MARKER}\n1"]


def test_the_largest_comment(fake: FakeGitHub, github: GitHub) -> None:
    """65,536 characters pass, outside the basic plane too; one more is refused, and the comment stays as it was."""
    largest = MARKER + "𝄞" * (LARGEST_COMMENT - len(MARKER))
    assert github.upsert_comment(7, MARKER, largest).body == largest
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"Updating comment \d+ failed: .*too long"):
            github.upsert_comment(7, MARKER, f"{largest}x")
    assert [each.body for each in fake.state.comments_of(7)] == [largest]


def test_a_body_that_would_never_be_found_again_is_not_sent(fake: FakeGitHub, github: GitHub) -> None:
    """The body begins with its marker."""
    with pytest.raises(ValueError, match="begin with the marker"):
        github.upsert_comment(7, MARKER, "no marker")
    assert fake.sent("POST") == []


def test_a_reply_is_made_once(fake: FakeGitHub, github: GitHub) -> None:
    """The same reply again gives back the first, unchanged."""
    first = github.reply(7, "<!-- ratchet:reply:1 -->\nstarted", "<!-- ratchet:reply:1 -->")
    again = github.reply(7, "<!-- ratchet:reply:1 -->\nstarted anew", "<!-- ratchet:reply:1 -->")
    assert first == again
    assert len(fake.state.comments_of(7)) == 1


def test_an_edited_comment_shows_it(fake: FakeGitHub, github: GitHub) -> None:
    """Both times of a comment come through; that of somebody who left GitHub is by ghost."""
    made = fake.state.add_comment(7, "ghost", "hello")
    assert github.comment(made.id).created_at == github.comment(made.id).updated_at
    made.updated_at += timedelta(minutes=5)
    seen = github.comment(made.id)
    assert (seen.author, seen.body, seen.updated_at - seen.created_at) == ("ghost", "hello", timedelta(minutes=5))


# ---- runs, files, people


def test_a_workflow_run(fake: FakeGitHub, github: GitHub) -> None:
    """A run of a fork has the fork's name, one of a fork that is gone has none, and an unfinished one has no conclusion."""
    fake.state.add_run(5, head_repository=FORK, conclusion="failure", attempt=2)
    fake.state.add_run(6, head_repository=None, head_branch=None, conclusion=None)
    run, orphan = github.workflow_run(5), github.workflow_run(6)
    assert (run.head_repository, run.conclusion, run.attempt, run.event) == (FORK, "failure", 2, "pull_request")
    assert run.path == ".github/workflows/cuda_benchmark_ratchet.yml"
    assert (orphan.head_repository, orphan.head_branch, orphan.conclusion) == (None, "", None)


def test_all_artifacts(fake: FakeGitHub, github: GitHub) -> None:
    """They come from all pages."""
    fake.state.add_run(5, artifacts=[f"shard-{number}" for number in range(120)] + ["benchmark-ratchet-results"])
    assert github.artifacts(5)[-1] == StoredArtifact(
        "benchmark-ratchet-results", datetime(2026, 11, 21, 8, tzinfo=UTC), expired=False
    )
    assert len(github.artifacts(5)) == 121


def test_files(fake: FakeGitHub, github: GitHub) -> None:
    """Files are read at a branch or a commit, in folders, with odd names, and beyond a megabyte; None where there is none."""
    large = "Größe\r\n".encode() * 300_000
    for path, content in (("results/baseline.json", b"{}"), ("a b/#1?.txt", b"odd"), ("large.json", large), ("empty", b"")):
        fake.state.set_file(path, content)
    assert github.file_at("results/baseline.json", "main") == github.file_at("results/baseline.json", "b" * 40) == b"{}"
    assert github.file_at("a b/#1?.txt", "main") == b"odd"
    assert github.file_at("large.json", "main") == large
    assert github.file_at("empty", "main") == b""
    assert github.file_at("results/absent.json", "main") is None
    with pytest.raises(GoneError, match="No commit found for the ref nowhere"):
        github.file_at("results/baseline.json", "nowhere")


@pytest.mark.parametrize("path", ["../../../user", "a/../b", "/etc/passwd", "", "a//b", "./a"])
def test_a_path_stays_inside_the_repository(fake: FakeGitHub, github: GitHub, path: str) -> None:
    """No file has a path that would lead elsewhere in the API, and nothing is asked."""
    assert github.file_at(path, "main") is None
    assert fake.requests == []


@pytest.mark.parametrize("role", ["admin", "maintain", "write", "triage", "read"])
def test_permissions(fake: FakeGitHub, github: GitHub, role: str) -> None:
    """Roles keep their names: maintain is not write, and triage is not read."""
    fake.state.permissions["a-maintainer"] = role
    assert github.permission("a-maintainer") == role


def test_nobody_has_no_permission(fake: FakeGitHub, github: GitHub) -> None:
    """An account that is not there, whatever its name, may do nothing."""
    assert [github.permission(login) for login in ("nobody", "git/hub", "../../7", "")] == ["none"] * 4
    assert len(fake.requests) == 1


def test_a_custom_role_counts_as_what_it_extends(fake: FakeGitHub, github: GitHub) -> None:
    """A role that an organisation invented is read as GitHub's own word for it."""
    body = {"permission": "write", "role_name": "kernel-team", "user": None}
    fake.script("GET", "/collaborators/", [Answer(body=body), Answer(body=body)])
    assert github.permission("octocat") == "write"


def test_branches(fake: FakeGitHub, github: GitHub) -> None:
    """Branches stand at a commit or are not there, slashes in their names included."""
    fake.state.branches["ratchet/baseline"] = "e" * 40
    assert [github.tip(name) for name in ("main", "ratchet/baseline", "ratchet/other")] == ["b" * 40, "e" * 40, None]
    fake.state.default_branch = "trunk"
    assert github.default_branch() == "trunk"


# ---- check runs, workflows


def test_a_check_run_from_start_to_end(fake: FakeGitHub, github: GitHub) -> None:
    """It is in progress when opened, and complete with its output after one call more."""
    check = fake.state.checks[github.open_check("ratchet", "a" * 40, "https://github.com/octo-org/kernels/actions/runs/5", "5")]
    assert (check.status, check.conclusion, check.external_id) == ("in_progress", None, "5")
    remark = Annotation("bench/copy.py", 12, "failure", "copy/mib_256", "Slower by 5 %.")
    github.complete_check(check.id, "failure", CheckOutput("Regression", "summary", "text", (remark,)))
    assert (check.status, check.conclusion, check.title, check.summary) == ("completed", "failure", "Regression", "summary")
    assert check.annotations == [
        {
            "path": "bench/copy.py",
            "start_line": 12,
            "end_line": 12,
            "annotation_level": "failure",
            "title": "copy/mib_256",
            "message": "Slower by 5 %.",
        }
    ]
    assert check.calls == 2


@pytest.mark.parametrize(("count", "calls"), [(0, 1), (1, 1), (50, 1), (51, 2), (120, 3)])
def test_annotations_come_fifty_a_call(fake: FakeGitHub, github: GitHub, count: int, calls: int) -> None:
    """All annotations arrive in their order, and the check is complete with the first call."""
    check_id = github.open_check("ratchet", "a" * 40, "https://example.org", "5")
    remarks = tuple(Annotation("a.py", line + 1, "warning", "t", str(line)) for line in range(count))
    github.complete_check(check_id, "neutral", CheckOutput("t", "s", "x", remarks))
    sent = fake.sent("PATCH")
    assert [each["message"] for each in fake.state.checks[check_id].annotations] == [str(number) for number in range(count)]
    assert len(sent) == calls
    assert [each.body.get("conclusion") for each in sent] == ["neutral", *[None] * (calls - 1)]


def test_the_largest_check_run(fake: FakeGitHub, github: GitHub) -> None:
    """65,535 characters of summary and text pass. One more is refused: then it is completed without, in GitHub's own words."""
    check_id = github.open_check("ratchet", "a" * 40, "https://example.org", "5")
    full = "x" * LARGEST_CHECK_TEXT
    github.complete_check(check_id, "success", CheckOutput("t", full, full))
    other = github.open_check("ratchet", "a" * 40, "https://example.org", "6")
    github.complete_check(other, "failure", CheckOutput("t", full, f"{full}x", (Annotation("a.py", 1, "notice", "t", "m"),) * 60))
    check = fake.state.checks[other]
    assert (check.status, check.conclusion, check.title, check.annotations) == ("completed", "failure", "t", [])
    assert "65535 characters" in (check.summary or "")
    assert len(fake.violations) == 1  # for the description has this limit as well
    fake.violations.clear()


def test_a_workflow_is_started(fake: FakeGitHub, github: GitHub) -> None:
    """The inputs arrive as they are; an unknown workflow or branch is refused with a sentence."""
    fake.state.workflows.append("cuda_profile.yml")
    github.dispatch("cuda_profile.yml", "main", {"case": "copy/mib_256", "base": "a; rm -rf $HOME"})
    assert [(each["workflow"], each["inputs"]["base"]) for each in fake.state.dispatches] == [
        ("cuda_profile.yml", "a; rm -rf $HOME")
    ]
    with pytest.raises(GoneError, match=r"Starting absent\.yml failed"):
        github.dispatch("absent.yml", "main", {})
    with pytest.raises(RefusedError, match="No ref found"):
        github.dispatch("cuda_profile.yml", "gone", {})


# ---- history


def test_what_a_branch_holds(fake: FakeGitHub, github: GitHub) -> None:
    """Its tip and all that it came from, by one request each; not what came after, beside it, or is unknown to GitHub."""
    earlier, tip, later, beside = "1" * 40, "b" * 40, "2" * 40, "3" * 40
    fake.state.parents = {tip: [earlier], later: [tip], beside: [earlier]}
    fake.state.branches["release/1.0"] = later
    assert [github.holds("main", each) for each in (earlier, tip, later, beside, "4" * 40)] == [True, True, False, False, None]
    assert len(fake.requests) == 5
    assert github.holds("release/1.0", tip)
    assert github.holds(beside, earlier)
    assert github.holds("no-such-branch", earlier) is None


@pytest.mark.parametrize("commit", ["", "main", "HEAD", "1" * 39, f"{'1' * 40}\n", "../../../user", f"{'1' * 39}G"])
def test_what_is_no_hash_is_held_by_nothing(fake: FakeGitHub, github: GitHub, commit: str) -> None:
    """A text that an artifact calls a commit reaches no address."""
    assert github.holds("main", commit) is False
    assert not fake.requests


# ---- connection


def test_a_server_of_one_s_own() -> None:
    """Below a path such as /api/v3 everything works: pages, large files, comments."""
    with FakeGitHub(prefix="/api/v3") as fake:
        fake.state.add_pull(7)
        fake.state.set_file("large.json", b"x" * 2_000_000)
        for number in range(110):
            fake.state.add_comment(7, "octocat", str(number))
        github = connect(fake)
        for push in range(2):
            github.upsert_comment(7, MARKER, f"{MARKER}\n{push}")
        assert len(github.comments(7)) == 111
        assert GitHub(fake.token, f"{fake.url}/", HERE).pull(7).number == 7
        assert len(github.file_at("large.json", "main") or b"") == 2_000_000


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("GITHUB_TOKEN", None, "GITHUB_TOKEN is not set."),
        ("GITHUB_TOKEN", "", "GITHUB_TOKEN is not set."),
        ("GITHUB_TOKEN", "two words", "GITHUB_TOKEN is empty, or has blanks"),
        ("GITHUB_TOKEN", "line\n", "GITHUB_TOKEN is empty, or has blanks"),
        ("GITHUB_REPOSITORY", None, "GITHUB_REPOSITORY is not set."),
        ("GITHUB_REPOSITORY", "kernels", "not owner/name"),
        ("GITHUB_REPOSITORY", "octo-org/../user", "not owner/name"),
        ("GITHUB_REPOSITORY", "octo-org/..", "not owner/name"),
        ("GITHUB_API_URL", "ftp://example.org", "not an address such as https://"),
        ("GITHUB_API_URL", "api.github.com", "not an address such as https://"),
    ],
)
def test_a_wrong_environment(name: str, value: str | None, sentence: str) -> None:
    """What is missing or cannot be is named, before anything is sent."""
    environ = {"GITHUB_TOKEN": "t", "GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_REPOSITORY": HERE, name: value}
    with pytest.raises(UsageError) as caught:
        GitHub.from_environ({key: text for key, text in environ.items() if text is not None})
    assert sentence in str(caught.value)


def test_without_pygithub() -> None:
    """Where PyGithub is not installed, a command that needs it says what to install, and exits with 2."""
    code = "import sys; sys.modules['github'] = None; from ratchet.core.cli import main; sys.exit(main(['publish', 'x']))"
    done = subprocess.run([sys.executable, "-P", "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "ratchet: this needs PyGithub. Install it with `pip install 'gpu-ratchet[github]'`, then run again.\n"


@pytest.mark.slow
def test_pygithub_stays_behind_one_module() -> None:
    """Only what lies behind ratchet.github.client names PyGithub."""
    naming = {
        path.stem
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "github")
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "github" for alias in node.names))
    }
    assert naming == {"connection", "client"}


def test_a_weak_token_reads_and_does_not_write(fake: FakeGitHub) -> None:
    """A token without rights gets a sentence that names them, and leaves nothing behind."""
    fake.state.tokens["weak"] = Token("octocat", frozenset())
    weak = connect(fake, "weak")
    assert weak.pull(7).number == 7
    with pytest.raises(TokenError, match=r"It needs issues=write; pull_requests=write\.") as caught:
        weak.upsert_comment(7, MARKER, MARKER)
    assert caught.value.exit_code == 2
    with pytest.raises(TokenError, match=r"It needs checks=write"):
        weak.open_check("ratchet", "a" * 40, "https://example.org", "5")
    assert fake.state.comments == fake.state.checks == {}
