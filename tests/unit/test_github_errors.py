"""What GitHub refuses, cannot do, or does without saying so: each ends with a sentence, a state, and no second comment."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ratchet.core.errors import Exit
from ratchet.github import errors
from ratchet.github.client import GitHub
from ratchet.github.errors import ForgeError, GoneError, LimitedError, RefusedError, TokenError, UnreachableError
from ratchet.github.records import Annotation, CheckOutput
from tests.fake_github import Answer, FakeGitHub, State
from tests.fake_github.operations import ANSWERS, MARKER, OPERATIONS, REPLY, connect, far, populate
from tests.fake_github.shapes import Shapes

pytestmark = pytest.mark.no_cover

BOT = "github-actions[bot]"
COMMENTS = "/issues/7/comments"
CHECKED = CheckOutput("t", "s", "x")


class Waits(list[float]):
    """Stands in for sleeping."""

    def client(self, fake: FakeGitHub, patience_s: float = 120) -> GitHub:
        return connect(fake, patience_s=patience_s, sleep=self.append)


def bodies(state: State) -> list[str]:
    """Of our own comments."""
    return [each.body for each in state.comments.values() if each.author == BOT]


# ---- every operation, every answer


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS)
def test_every_operation_ends_with_its_sentence(answer: str) -> None:
    """Whatever is asked, an answer that ends it becomes the right error, says what was being done, and changes nothing."""
    with FakeGitHub() as fake:
        populate(fake.state)
        github = connect(fake)
        github.open_check("ratchet", "a" * 40, "https://example.org", "5")
        before = fake.as_json()
        scripted, wanted = ANSWERS[answer]
        for name, operation in OPERATIONS.items():
            if not operation.answered and scripted.status == 200 and not scripted.cut:
                continue
            fake.script("*", "", [scripted] * 30)
            if operation.absent is not ... and answer in ("not found", "gone"):
                assert operation.call(github) == operation.absent
            else:
                _ends_with(name, github, wanted)
            fake.forget_scripts()
        after = fake.as_json()
        assert {key: value for key, value in after.items() if key != "requests"} == {
            key: value for key, value in before.items() if key != "requests"
        }


def _ends_with(name: str, github: GitHub, wanted: str) -> None:
    operation = OPERATIONS[name]
    with pytest.raises(ForgeError) as caught:
        operation.call(github)
    error = caught.value
    assert type(error) is getattr(errors, wanted), (name, error)
    assert error.message.startswith(operation.doing), name
    assert error.message.endswith("."), name
    assert "\n" not in str(error)
    assert error.hint.endswith("."), name
    assert error.exit_code == (Exit.USAGE if wanted == "TokenError" else Exit.NOT_MEASURED)


def test_an_outage_is_asked_about_five_times(fake: FakeGitHub, github: GitHub) -> None:
    """Four outages in a row are got over, five are not."""
    fake.script("GET", "/pulls/7$", [Answer(502)] * 4)
    assert github.pull(7).number == 7
    fake.script("GET", "/pulls/7$", [Answer(502)] * 9)
    with pytest.raises(UnreachableError, match="Reading pull request 7 failed: GitHub answered 502: Server Error"):
        github.pull(7)
    assert len(fake.requests) == 10


def test_a_refusal_is_asked_about_once(fake: FakeGitHub, github: GitHub) -> None:
    """What GitHub would answer again in the same way is not asked again."""
    for status, kind in ((401, TokenError), (403, TokenError), (404, GoneError), (409, RefusedError), (422, RefusedError)):
        fake.script("GET", "/pulls/7$", [Answer(status)])
        with pytest.raises(kind):
            github.pull(7)
    assert len(fake.requests) == 5


def test_an_outage_between_two_pages(fake: FakeGitHub, github: GitHub) -> None:
    """A listing that breaks off is read again from its start: no comment is missed or seen twice."""
    for number in range(150):
        fake.state.add_comment(7, "octocat", str(number))
    fake.script("GET", "page=2", [Answer(502), Answer(cut=True)])
    assert [each.body for each in github.comments(7)] == [str(number) for number in range(150)]


def test_a_server_that_is_not_there(fake: FakeGitHub) -> None:
    """A port where nobody listens is told like a cut connection."""
    fake.__exit__(None)
    github = connect(fake)
    fake.__enter__()
    with pytest.raises(UnreachableError, match="no connection to GitHub"):
        github.pull(7)


def test_an_answer_that_leads_to_another_host(fake: FakeGitHub, github: GitHub) -> None:
    """The token goes nowhere else: an address on another host or port in an answer ends with a sentence that says so."""
    first = [Shapes(fake.state, fake.url).comment(fake.state.add_comment(7, "octocat", "hello"))]
    for address in ("https://evil.example.org/x?page=2", "http://127.0.0.1:9/x?page=2"):
        fake.script("GET", COMMENTS, [Answer(200, first, {"Link": f'<{address}>; rel="next"'})])
        with pytest.raises(UnreachableError, match="its answer leads to another address than GITHUB_API_URL") as caught:
            github.comments(7)
        assert "Check GITHUB_API_URL" in caught.value.hint


# ---- done, but not said


UNSURE = {
    "502": Answer(502, done=True),
    "504": Answer(504, "", done=True),
    "cut": Answer(done=True, cut=True),
    "503": Answer(503, done=True, headers={"Retry-After": "1"}),
}


@pytest.mark.parametrize("kind", UNSURE)
def test_a_comment_that_was_made_without_saying_so(fake: FakeGitHub, github: GitHub, kind: str) -> None:
    """One comment, with the body, though GitHub hides that it was made, does not show it at first, and hides its update."""
    fake.script("POST", COMMENTS, [UNSURE[kind]])
    fake.script("GET", COMMENTS, [Answer(usual=True), UNSURE[kind]])
    fake.script("PATCH", "/issues/comments/", [UNSURE[kind]])
    comment = github.upsert_comment(7, MARKER, f"{MARKER}\nbody")
    assert bodies(fake.state) == [f"{MARKER}\nbody"] == [comment.body]
    assert len(fake.sent("POST")) == 1


@pytest.mark.parametrize("kind", UNSURE)
def test_a_reply_that_was_made_without_saying_so(fake: FakeGitHub, github: GitHub, kind: str) -> None:
    """One reply."""
    fake.script("POST", COMMENTS, [UNSURE[kind]])
    assert github.reply(7, f"{REPLY}\nstarted", REPLY).body == f"{REPLY}\nstarted"
    assert bodies(fake.state) == [f"{REPLY}\nstarted"]


def test_a_comment_that_was_really_not_made(fake: FakeGitHub, github: GitHub) -> None:
    """After an outage in which nothing happened, looking finds nothing, and the second try makes the comment."""
    fake.script("POST", COMMENTS, [Answer(502), Answer(cut=True)])
    github.upsert_comment(7, MARKER, MARKER)
    assert bodies(fake.state) == [MARKER]
    assert [each.method for each in fake.requests] == ["GET", "POST"] * 3


def test_an_outage_that_lasts_leaves_one_comment_at_most(fake: FakeGitHub, github: GitHub) -> None:
    """Where GitHub makes the comment and then neither says so nor shows it, the error says that it may be there."""
    fake.script("POST", COMMENTS, [Answer(502, done=True)])
    fake.script("GET", COMMENTS, [Answer(usual=True), *[Answer(502)] * 9])
    with pytest.raises(UnreachableError, match="Reading the comments of pull request 7 failed"):
        github.upsert_comment(7, MARKER, MARKER)
    assert bodies(fake.state) == [MARKER]
    fake.forget_scripts()
    github.upsert_comment(7, MARKER, f"{MARKER}\nlater")
    assert bodies(fake.state) == [f"{MARKER}\nlater"]


def test_a_post_that_never_comes_through_is_given_up(fake: FakeGitHub, github: GitHub) -> None:
    """Five tries, a look before each, and a sentence that leaves the outcome open."""
    fake.script("POST", COMMENTS, [Answer(502)] * 9)
    with pytest.raises(UnreachableError, match="It may have been done all the same"):
        github.upsert_comment(7, MARKER, MARKER)
    assert len(fake.sent("POST")) == 5
    assert bodies(fake.state) == []


def test_a_comment_that_is_deleted_between_look_and_update(fake: FakeGitHub, github: GitHub) -> None:
    """It is made anew, once."""
    first = github.upsert_comment(7, MARKER, f"{MARKER}\n1")
    fake.script("PATCH", "/issues/comments/", [Answer(usual=True, meanwhile=lambda state: state.comments.pop(first.id))])
    github.upsert_comment(7, MARKER, f"{MARKER}\n2")
    assert bodies(fake.state) == [f"{MARKER}\n2"]


def test_a_pull_request_that_disappears(fake: FakeGitHub, github: GitHub) -> None:
    """Where the pull request itself is gone, there is nothing to comment on."""
    fake.script("POST", COMMENTS, [Answer(usual=True, meanwhile=lambda state: state.pulls.pop(7))])
    with pytest.raises(GoneError, match="Commenting on pull request 7 failed"):
        github.upsert_comment(7, MARKER, MARKER)
    with pytest.raises(GoneError, match="Reading the comments of pull request 7 failed"):
        github.upsert_comment(7, MARKER, MARKER)


@pytest.mark.parametrize("kind", UNSURE)
def test_a_pull_request_that_was_opened_without_saying_so(fake: FakeGitHub, github: GitHub, kind: str) -> None:
    """One pull request."""
    fake.state.branches["ratchet/baseline"] = "e" * 40
    fake.script("POST", "/pulls$", [UNSURE[kind]])
    github.open_pull("Forward", "body", "ratchet/baseline", "main", draft=False)
    assert [pull.title for pull in fake.state.pulls.values()] == ["A change", "Forward"]


def test_a_pull_request_that_somebody_opens_first(fake: FakeGitHub, github: GitHub) -> None:
    """The race is lost in peace: theirs gets our title."""
    fake.state.branches["ratchet/baseline"] = "e" * 40

    def theirs(state: State) -> None:
        state.add_pull(8, head_ref="ratchet/baseline", title="Theirs")

    fake.script("POST", "/pulls$", [Answer(usual=True, meanwhile=theirs)])
    assert github.open_pull("Ours", "body", "ratchet/baseline", "main", draft=False).number == 8
    assert fake.state.pulls[8].title == "Ours"


def test_a_pull_request_that_cannot_be(fake: FakeGitHub, github: GitHub) -> None:
    """A branch that is not there, or holds nothing new, is refused with GitHub's reason."""
    with pytest.raises(RefusedError, match=r"Opening a pull request from absent failed: .*head invalid"):
        github.open_pull("t", "b", "absent", "main", draft=False)
    fake.state.branches["same"] = fake.state.branches["main"]
    with pytest.raises(RefusedError, match="No commits between main and same"):
        github.open_pull("t", "b", "same", "main", draft=False)
    assert len(fake.state.pulls) == 1


@pytest.mark.parametrize("kind", UNSURE)
def test_a_workflow_is_never_started_twice(fake: FakeGitHub, github: GitHub, kind: str) -> None:
    """Where GitHub does not say whether it started, the error says so, and it is not tried again."""
    fake.state.workflows.append("cuda_profile.yml")
    fake.script("POST", "/dispatches$", [UNSURE[kind]])
    with pytest.raises(UnreachableError, match=r"Starting cuda_profile\.yml failed: .* It may have been done all the same\."):
        github.dispatch("cuda_profile.yml", "main", {})
    assert len(fake.state.dispatches) == 1


@pytest.mark.parametrize("kind", UNSURE)
def test_a_check_run_that_was_opened_without_saying_so(fake: FakeGitHub, github: GitHub, kind: str) -> None:
    """It is found again and completed, among those of other names, runs and commits: none is left open."""
    for name, external_id in (("ratchet", "4"), ("other", "5"), ("ratchet", "6")):
        github.complete_check(github.open_check(name, "a" * 40, "https://example.org", external_id), "success", CHECKED)
    fake.script("POST", "/check-runs$", [UNSURE[kind]])
    check_id = github.open_check("ratchet", "a" * 40, "https://example.org", "5")
    github.complete_check(check_id, "failure", CHECKED)
    assert [(each.name, each.external_id, each.status) for each in fake.state.checks.values()] == [
        ("ratchet", "4", "completed"),
        ("other", "5", "completed"),
        ("ratchet", "6", "completed"),
        ("ratchet", "5", "completed"),
    ]


def test_a_check_run_that_was_not_opened_is_opened(fake: FakeGitHub, github: GitHub) -> None:
    """Where an outage ate the request, one is made, and one alone."""
    fake.script("POST", "/check-runs$", [Answer(502), Answer(cut=True)])
    check_id = github.open_check("ratchet", "a" * 40, "https://example.org", "5")
    assert list(fake.state.checks) == [check_id]


def test_a_check_run_is_complete_though_its_later_annotations_fail(fake: FakeGitHub, github: GitHub) -> None:
    """The conclusion goes out with the first call, so a failure of the second does not leave the check running."""
    check_id = github.open_check("ratchet", "a" * 40, "https://example.org", "5")
    remarks = tuple(Annotation("a.py", 1, "warning", "t", str(number)) for number in range(60))
    fake.script("PATCH", "/check-runs/", [Answer(usual=True), *[Answer(502)] * 9])
    with pytest.raises(UnreachableError, match=f"Annotating check run {check_id} failed"):
        github.complete_check(check_id, "failure", CheckOutput("t", "s", "x", remarks))
    assert (fake.state.checks[check_id].status, fake.state.checks[check_id].conclusion) == ("completed", "failure")


# ---- time-outs


def test_a_slow_answer(fake: FakeGitHub) -> None:
    """An answer that does not come in time is asked for again; a comment that was made meanwhile is not made twice."""
    github = connect(fake, timeout_s=1)
    fake.script("POST", COMMENTS, [Answer(done=True, delay_s=20)])
    github.upsert_comment(7, MARKER, MARKER)
    assert bodies(fake.state) == [MARKER]
    fake.script("GET", "/pulls/7$", [Answer(delay_s=20)])
    assert github.pull(7).number == 7


def test_an_answer_that_never_comes(fake: FakeGitHub) -> None:
    """The error says that GitHub did not answer in time."""
    github = connect(fake, timeout_s=1)
    fake.state.workflows.append("cuda_profile.yml")
    fake.script("POST", "/dispatches$", [Answer(delay_s=20)])
    with pytest.raises(UnreachableError, match=r"Starting cuda_profile\.yml failed: GitHub did not answer in time\."):
        github.dispatch("cuda_profile.yml", "main", {})


# ---- waiting


def reset_in(seconds: float) -> dict[str, str]:
    return {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + seconds))}


LIMITS: dict[str, tuple[Callable[[], Answer], float, float]] = {
    "retry-after": (lambda: Answer(403, headers={"Retry-After": "30"}), 30, 30),
    "retry-after of 429": (lambda: Answer(429, headers={"Retry-After": "7"}), 7, 7),
    "reset": (lambda: Answer(403, headers=reset_in(40)), 30, 41),
    "reset that has passed": (lambda: Answer(403, headers=reset_in(-40)), 1, 1),
    "no time": (lambda: Answer(429), 60, 60),
    "no word of limits": (lambda: Answer(429, {"message": "Too Many Requests"}), 60, 60),
    "both": (lambda: Answer(403, headers={"Retry-After": "3", **far()}), 3, 3),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_that_ends_soon_is_waited_for(fake: FakeGitHub, kind: str) -> None:
    """As long as GitHub asks, for reading and for writing, and then the call goes through, once."""
    answer, least, most = LIMITS[kind]
    waits = Waits()
    fake.script("GET", "/pulls/7$", [answer()])
    assert waits.client(fake).pull(7).number == 7
    fake.script("POST", COMMENTS, [answer()])
    waits.client(fake).upsert_comment(7, MARKER, MARKER)
    assert bodies(fake.state) == [MARKER]
    assert len(waits) == 2
    assert all(least <= wait <= most for wait in waits)


@pytest.mark.parametrize(
    "headers",
    [
        far(),
        {"Retry-After": "121"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1" + "0" * 18},  # in a year of eleven digits
        {"Retry-After": "9" * 30},
    ],
)
def test_a_limit_that_ends_late_is_not_waited_for(fake: FakeGitHub, headers: dict[str, str]) -> None:
    """Beyond our patience, or at no time that there is, the error says until when the limit holds, at once."""
    waits = Waits()
    fake.script("GET", "/pulls/7$", [Answer(403, headers=headers)])
    with pytest.raises(LimitedError, match=r"GitHub's rate limit holds until \d\d:\d\d:\d\d UTC"):
        waits.client(fake).pull(7)
    assert waits == []


def test_patience_is_for_the_whole_operation(fake: FakeGitHub) -> None:
    """Two waits that fit one by one do not fit together."""
    waits = Waits()
    fake.script("*", COMMENTS, [Answer(403, headers={"Retry-After": "70"}), Answer(usual=True), Answer(429)])
    with pytest.raises(LimitedError, match="Commenting on pull request 7 failed"):
        waits.client(fake).upsert_comment(7, MARKER, MARKER)
    assert waits == [70]
    assert bodies(fake.state) == []


def test_outages_are_waited_out_longer_each_time(fake: FakeGitHub) -> None:
    """1, 2, 4 and 8 s, or what patience is left."""
    for patience_s, wanted in ((120, [1, 2, 4, 8]), (5, [1, 2, 2, 0]), (0, [0, 0, 0, 0])):
        waits = Waits()
        fake.script("GET", "/pulls/7$", [Answer(500)] * 5)
        with pytest.raises(UnreachableError):
            waits.client(fake, patience_s).pull(7)
        assert waits == wanted


# ---- secrets


def test_words_of_github_come_through_on_one_line(fake: FakeGitHub, github: GitHub) -> None:
    """A message with line breaks, commands and control characters is one printable line of limited length."""
    hostile = {
        "message": "no\n::error::\x1b[31m\u202e\x00" + "x" * 5000,
        "errors": ["plain", {"field": "base", "code": "invalid"}, 7],
    }
    fake.script("GET", "/pulls/7$", [Answer(422, hostile)])
    with pytest.raises(RefusedError) as caught:
        github.pull(7)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_names_in_a_sentence_stay_on_its_line(fake: FakeGitHub, github: GitHub) -> None:
    """A path or a branch with line breaks in it, such as an artifact may hold, makes no second line."""
    fake.script("GET", "", [Answer(422)] * 2)
    for call in (lambda: github.file_at("a\n::error::b", "main"), lambda: github.find_pulls("octocat/kernels", "x\n::error::y")):
        with pytest.raises(RefusedError) as caught:
            call()
        assert str(caught.value).isprintable()
