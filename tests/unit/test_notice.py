"""What is told of a regression of main: when, as how many causes, in which issue, and with which words."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests

from ratchet.core.errors import UsageError
from ratchet.core.records.profile import CaseProfile, Finding, Profile
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.github import notify
from ratchet.github.errors import UnreachableError
from ratchet.github.notice import (
    UNEXPLAINED,
    OwnIssue,
    causes_of,
    confirmed,
    digest_of,
    first_line,
    fixed_body,
    issue_body,
    issue_title,
    own_issue,
    plan_issues,
    settled,
    slack_message,
)
from ratchet.github.records import Issue, Notice, SlowCase, SlowCause
from tests.examples import HEAD, HOSTILE, REFERENCE, STARTED
from tests.reports import case, comparison, report

GOOD, BAD, LATER = "a" * 40, "b" * 40, "c" * 40


def run_at(day: int, *cases: Any, **changes: Any) -> ReportRecord:
    return report(tuple(cases), started_at=STARTED + timedelta(days=day), **changes)


def red(name: str, ratio: float = 1.1) -> Any:
    return case(name, Outcome.REGRESSED, "Slower.", ratio)


def test_one_run_is_not_enough_and_two_of_one_commit_are() -> None:
    """What disturbs a machine for a while makes one run red; the second has to begin after the first has ended."""
    first, again = run_at(0, red("a/b"), red("c/d")), run_at(1, red("a/b"), case("c/d", Outcome.UNCHANGED, "", 1.0))
    assert [one.name for one in confirmed([again, first])] == ["a/b"]
    assert confirmed([first]) == []
    assert confirmed([first, first]) == []
    both = [run_at(day, red("a/b", 1.1 + day), red("c/d")) for day in (0, 1)]
    assert confirmed(both) == list(both[0].cases)
    as_it_ended = report((red("a/b"),), started_at=STARTED + timedelta(seconds=first.wall_s))
    assert confirmed([first, as_it_ended]) == [first.cases[0]]
    before = as_it_ended.model_copy(update={"started_at": as_it_ended.started_at - timedelta(microseconds=1)})
    assert confirmed([first, before]) == []
    assert confirmed([run_at(0, red("a/b"), wall_s=0.0)]) == []
    elsewhere = run_at(1, red("a/b"), head=HEAD.model_copy(update={"commit": LATER}))
    assert confirmed([first, elsewhere]) == []


def test_a_case_is_settled_when_no_run_calls_it_slower_or_cannot_tell() -> None:
    """An inconclusive run closes nothing."""
    fine, open_case = case("a/b", Outcome.UNCHANGED, "", 1.0), case("c/d", Outcome.INCONCLUSIVE, "", 1.0)
    assert settled([run_at(0, fine, open_case)]) == {"a/b"}
    assert settled([run_at(0, fine), run_at(1, red("a/b"))]) == set()
    outcomes = (Outcome.UNCHANGED, Outcome.IMPROVED, Outcome.IDENTICAL, Outcome.MISSING)
    assert settled([run_at(day, case("a/b", outcome, "", 1.0)) for day, outcome in enumerate(outcomes)]) == {"a/b"}


def finding(key: str, kernel: str | None, confidence: Any = "high") -> Finding:
    what = f"{key} of both sides"
    return Finding(key=key, what=what, why="w", advice="a", confidence=confidence, weight=1.5, kernel=kernel, effect="slower")


def profiled(name: str, *findings: Finding) -> CaseProfile:
    side = Profile(tool="ncu")
    return CaseProfile(case=name, head=side, reference=side, ratio=1.1, findings=findings)


def test_cases_with_one_finding_are_one_cause_and_what_nothing_explains_is_one_more() -> None:
    """Thirty cases that a commit slows in the same kernel are one issue, the slowest first."""
    cases = [red("a/b", 1.1), red("a/c", 1.3), red("d/e", 1.05), red("f/g", 1.02)]
    spills, unsure = finding("spills", "softmax"), finding("launches", None, "low")
    profiles = {one.case: one for one in (profiled("a/b", spills), profiled("a/c", spills), profiled("d/e", unsure))}
    first, second = causes_of(cases, profiles, run_at(0, *cases))
    assert (first.what, [one.name for one in first.cases]) == ("spills of both sides", ["a/c", "a/b"])
    assert (second.what, [one.name for one in second.cases]) == (UNEXPLAINED, ["d/e", "f/g"])
    assert (first.key, first.advice, first.good, first.bad) == ("spills in softmax", "a", REFERENCE.commit, HEAD.commit)
    assert (second.key, second.advice) == (f"unexplained since {HEAD.commit}", "")


def test_what_is_told_of_a_slow_case() -> None:
    """Its ratio is the larger one of those to the reference and to the best commit, and its times are those of its sides."""
    own, best = comparison(1.1), comparison(1.2)
    tree = HEAD.model_copy(update={"commit": GOOD})
    for shown, changes in (
        (own, {}),
        (best, {"best": best, "best_tree": tree}),
        (best, {"best": best, "best_tree": tree, "comparison": None}),
        (own, {"best": comparison(1.05), "best_tree": tree}),
    ):
        slow = red("a/b").model_copy(update=changes)
        (found,) = causes_of([slow], {}, run_at(0, slow))
        assert found.good == (GOOD if "best_tree" in changes else REFERENCE.commit)
        assert found.cases == (
            SlowCase(name="a/b", ratio=shown.ratio, low=shown.low, high=shown.high, before_ms=0.12, after_ms=0.12 * 1.1),
        )
    bare = red("a/b").model_copy(update={"head": None, "reference": None})
    (found,) = causes_of([bare], {}, run_at(0, bare, reference=None))
    assert (found.good, found.cases[0].before_ms, found.cases[0].after_ms) == ("", None, None)


@pytest.mark.parametrize("reference", [HOSTILE, "-->\n\n@octocat fixes #1", "--upload-pack=x", "main", ""])
def test_a_reference_that_is_no_commit_is_not_named(reference: str) -> None:
    """An issue's hidden lines hold commits alone, so that no text of an artifact is shown, and the issue is found again."""
    slow, tree = red("a/b"), REFERENCE.model_copy(update={"commit": reference})
    for one, other in ((slow, tree), (slow.model_copy(update={"best": comparison(1.2), "best_tree": tree}), REFERENCE)):
        (found,) = causes_of([one], {}, run_at(0, one, reference=other))
        body = issue_body(found.model_copy(update={"key": digest_of(found.key)}), NOTICE)
        assert "octocat" not in body
        own = own_issue(written(body))
        assert own is not None
        assert (found.good, own.good, own.bad) == ("", "", HEAD.commit)


def cause(key: str, *names: str, good: str = GOOD) -> SlowCause:
    cases = tuple(SlowCase(name=name, ratio=1.1, low=1.09, high=1.11, before_ms=1.0, after_ms=1.1) for name in names)
    return SlowCause(key=key, what="w", cases=cases, good=good, bad=BAD)


def issue(number: int, key: str, *names: str, is_open: bool = True, dismissed: bool = False) -> OwnIssue:
    return OwnIssue(number, key, names, GOOD, BAD, is_open, dismissed)


def planned(causes: list[SlowCause], issues: list[OwnIssue], done: set[str] | None = None) -> dict[str, list[Any]]:
    plan = plan_issues(causes, issues, done or set())
    named = {
        "opened": [[case.name for case in one.cases] for one in plan.opened],
        "updated": [(one.number, [case.name for case in its.cases]) for one, its in plan.updated],
        "closed": [one.number for one in plan.closed],
        "dismissed": [one.number for one, _ in plan.dismissed],
        "news": [[case.name for case in one.cases] for one in plan.news],
    }
    return {what: found for what, found in named.items() if found}


def test_a_new_cause_opens_an_issue_and_a_known_one_renews_it() -> None:
    """What nobody knows yet is news; the same again is not."""
    assert planned([cause("k", "a/b")], []) == {"opened": [["a/b"]], "news": [["a/b"]]}
    assert planned([cause("k", "a/b")], [issue(3, "k", "a/b")]) == {"updated": [(3, ["a/b"])]}
    known = planned([cause("k", "a/b", "c/d")], [issue(3, "k", "a/b")])
    assert known == {"updated": [(3, ["a/b", "c/d"])], "news": [["a/b", "c/d"]]}


def test_a_case_has_one_issue_whatever_its_cause_is_called_by_now() -> None:
    """Main moves on and the profile is another: the open issue stays the one of this case, and only the rest is new."""
    assert planned([cause("other", "a/b")], [issue(3, "k", "a/b")]) == {"updated": [(3, ["a/b"])]}
    both = planned([cause("other", "a/b", "c/d")], [issue(3, "k", "a/b")])
    assert both == {"opened": [["c/d"]], "updated": [(3, ["a/b"])], "news": [["c/d"]]}
    two = planned([cause("x", "a/b"), cause("y", "c/d")], [issue(3, "k", "a/b", "c/d")])
    assert two == {"updated": [(3, ["a/b", "c/d"])]}


def test_an_open_issue_comes_before_a_closed_one_and_the_newest_first() -> None:
    """Where several issues name a case, or have its cause, one of them is renewed."""
    for name, key in (("a/b", "other"), ("e/f", "k")):
        numbered = {number: issue(number, "k", "a/b", is_open=number < 6) for number in (3, 5, 4, 8, 7)}
        for known, renewed in (((3, 5, 4, 8, 7), 5), ((8, 3), 3), ((7, 8), 8), ((8, 7), 8)):
            found = planned([cause(key, name)], [numbered[number] for number in known])
            assert found["updated"] == [(renewed, [name])]


def test_the_rest_of_a_cause_goes_to_the_issue_of_its_name() -> None:
    """A case that another issue names stays there; the issue of the cause takes the others alone."""
    found = planned([cause("k", "a/b", "e/f")], [issue(3, "other", "a/b"), issue(5, "k", "c/d")])
    assert found == {"updated": [(3, ["a/b"]), (5, ["e/f"])], "news": [["e/f"]]}


def test_what_comes_back_opens_its_issue_again() -> None:
    """Compared with the same commit it is the same regression; with another, or by a new cause, it is a new one."""
    closed = issue(3, "k", "a/b", is_open=False)
    assert planned([cause("other", "a/b")], [closed]) == {"updated": [(3, ["a/b"])], "news": [["a/b"]]}
    assert planned([cause("k", "c/d", good=LATER)], [closed]) == {"updated": [(3, ["c/d"])], "news": [["c/d"]]}
    assert planned([cause("other", "a/b", good=LATER)], [closed]) == {"opened": [["a/b"]], "news": [["a/b"]]}


def test_what_a_person_dismissed_stays_closed_and_is_no_news() -> None:
    """Closed as not planned: neither opened again nor told."""
    assert planned([cause("other", "a/b")], [issue(3, "k", "a/b", is_open=False, dismissed=True)]) == {"dismissed": [3]}


def test_what_a_person_dismissed_is_told_again_once_it_is_compared_with_another_commit() -> None:
    """A later regression of the same cause opens the issue again, which then names the commits of that one."""
    told = cause(digest_of("k"), "a/b", good=LATER)
    there = issue(3, digest_of("k"), "a/b", is_open=False, dismissed=True)
    assert planned([told], [there]) == {"updated": [(3, ["a/b"])], "news": [["a/b"]]}
    own = own_issue(written(issue_body(told, NOTICE, there)))
    assert own is not None
    assert (own.key, own.good) == (digest_of("k"), LATER)


def test_an_issue_closes_when_all_of_its_cases_are_settled() -> None:
    """A case that was not measured, or is still slower, keeps it open."""
    here = issue(3, "k", "a/b", "c/d")
    assert planned([], [here], {"a/b", "c/d"}) == {"closed": [3]}
    assert planned([], [here], {"a/b"}) == {}
    assert planned([cause("k", "c/d")], [here], {"a/b"}) == {"updated": [(3, ["c/d"])]}


NOTICE = Notice(
    event="regression",
    repository="octo-org/kernels",
    commit=BAD,
    run_url="https://github.com/octo-org/kernels/actions/runs/5",
    headline="2 cases of main became slower: a/b, c/d.",
    causes=(cause("k", "a/b", "c/d"),),
)


def written(body: str, **changes: Any) -> Issue:
    return Issue(
        **({"number": 3, "author": "bot", "title": "t", "body": body, "is_open": True, "state_reason": "", "url": ""} | changes)
    )


def test_an_issue_says_of_itself_what_is_needed_to_find_it_again() -> None:
    """Its hidden lines survive a renewal, and GitHub's line ends; without them it is left alone."""
    told = cause(digest_of("k"), "a/b", "c/d")
    body = issue_body(told, NOTICE)
    assert body.startswith(first_line(digest_of("k")))
    own = own_issue(written(body.replace("\n", "\r\n")))
    assert own == OwnIssue(3, digest_of("k"), ("a/b", "c/d"), GOOD, BAD, True, False)
    later = cause(digest_of("other"), "c/d", good=LATER).model_copy(update={"bad": LATER})
    again = own_issue(written(issue_body(later, NOTICE, own), is_open=False, state_reason="not_planned"))
    assert again == OwnIssue(3, digest_of("k"), ("c/d", "a/b"), GOOD, BAD, False, True)
    assert own_issue(written("somebody's own words")) is None


def test_an_issue_knows_each_name_that_a_case_can_have() -> None:
    """Letters of any language, so that the case is not told as a new one a day later."""
    own = own_issue(written(issue_body(cause(digest_of("k"), "größe/µs", "和/四"), NOTICE)))
    assert own is not None
    assert own.cases == ("größe/µs", "和/四")


def test_an_issue_has_the_cases_the_commits_the_cause_and_its_counters() -> None:
    """Everything that somebody who fixes it asks first."""
    told = cause("k" * 16, "a/b").model_copy(
        update={"what": "Registers spill.", "advice": "Use fewer.", "counters": ("Spills: 0 → 64",)}
    )
    body = issue_body(told, NOTICE)
    for part in (
        "a/<wbr>b",
        "1.000 ms | 1.100 ms | +10.0 % [+9.0, +11.0]",
        f"{GOOD} … {BAD}",
        "Registers spill.",
        "Use fewer.",
        "Spills: 0 → 64",
    ):
        assert part in body
    assert issue_title(told) == "main is slower: a/b +10.0 %"
    assert "none of these cases is slower any more" in fixed_body(written(body), NOTICE)


@pytest.mark.parametrize("text", [HOSTILE])
def test_hostile_text_from_an_artifact_stays_text(text: str) -> None:
    """It mentions nobody, closes no issue, and cannot imitate the hidden lines."""
    told = cause("k" * 16, "a/b").model_copy(update={"what": text, "advice": text, "counters": (text,)})
    body = issue_body(told, NOTICE)
    assert body.count("<!--") == 3
    assert "@octocat" not in body
    message = slack_message(NOTICE.model_copy(update={"causes": (told,), "headline": text}))["text"]
    assert "<!" not in message
    assert "@octocat" not in message


def test_a_message_for_slack_is_short_and_has_the_links() -> None:
    """Slack cuts texts, and takes <, > and & for its own."""
    many = cause("k", *(f"a/{number}" for number in range(500)))
    message = slack_message(NOTICE.model_copy(update={"causes": (many,), "issues": ("https://github.com/o/r/issues/1",)}))
    assert len(message["text"]) <= 3000
    assert "<https://github.com/o/r/issues/1>" in message["text"]
    assert "a/b" in slack_message(NOTICE)["text"]


# The webhook: its address is a secret.

SECRET = "T000/B000/XXXXSECRET"


@pytest.mark.parametrize(
    "address", [f"http://hooks.example/{SECRET}", SECRET, "", f"https://user@hooks.example/{SECRET}", "https://[::1"]
)
def test_only_https_is_told(address: str) -> None:
    """Any other address is refused, and not repeated in the sentence."""
    with pytest.raises(UsageError) as caught:
        notify.send_to_webhook(address, {})
    assert "SECRET" not in str(caught.value)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server that answers what it is told; https is taken off on the way to it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        status, seen, before = 200, list[bytes](), b""

        def do_POST(self) -> None:
            Handler.seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            with contextlib.suppress(OSError):
                while Handler.before:
                    self.wfile.write(Handler.before)
                    time.sleep(0.01)
            self.send_response(Handler.status)
            self.send_header("Location", "http://elsewhere.example/")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        post = requests.post
        there = f"http://127.0.0.1:{served.server_address[1]}/{SECRET}"
        monkeypatch.setattr(requests, "post", lambda _, **more: post(there, **more))
        yield Handler
        Handler.before = b""
        served.shutdown()


def test_the_webhook_gets_the_document_and_nobody_else_does(server: Any) -> None:
    """An error and a redirection are errors; no sentence has the address."""
    assert notify.send_to_webhook(f"https://hooks.example/{SECRET}", {"text": "slower"}) == "hooks.example"
    assert server.seen == [b'{"text": "slower"}']
    for status in (302, 404, 500):
        server.status = status
        with pytest.raises(UnreachableError, match=f"hooks.example answered {status}") as caught:
            notify.send_to_webhook(f"https://hooks.example/{SECRET}", {})
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("before", [b"HTTP/1.1 100 Continue\r\n\r\n", b"H"])
def test_an_answer_that_never_ends(before: bytes, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its parts comes in time; the job waits for the whole only so long."""
    monkeypatch.setattr(notify, "WHOLE_S", 0.5)
    server.before = before
    with pytest.raises(UnreachableError, match=r"hooks\.example did not answer in time"):
        notify.send_to_webhook(f"https://hooks.example/{SECRET}", {})


@pytest.mark.parametrize(
    "error", [requests.Timeout(SECRET), requests.ConnectionError(SECRET), requests.exceptions.InvalidURL(SECRET)]
)
def test_what_goes_wrong_on_the_way_names_the_host_alone(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of the library's errors hold the address."""

    def fail(*_: object, **more: Any) -> None:
        assert more["timeout"] == (notify.CONNECT_S, notify.ANSWER_S)
        raise error

    monkeypatch.setattr(requests, "post", fail)
    with pytest.raises(UnreachableError, match=r"hooks\.example") as caught:
        notify.send_to_webhook(f"https://hooks.example/{SECRET}", {})
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__
