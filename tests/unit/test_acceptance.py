"""Regressions that somebody took on purpose."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet.github.records import Acceptance, Comment
from ratchet.github.state import LABEL, MARKER, acknowledged_in, acknowledgement, believed, read_acknowledgement, with_acceptances
from tests import examples
from tests.recorded_runs import recorded

BOT, PERSON = "github-actions[bot]", "a-maintainer"
HEAD = examples.HEAD.commit
CASE = "layernorm/hidden_4096"
WRITES = {PERSON: "write"}


def acceptance(**changes: Any) -> Acceptance:
    usual = {"case": CASE, "reason": "masks", "by": PERSON, "sha": HEAD, "comment": 5, "at": examples.STARTED}
    return Acceptance(**(usual | changes))


def comment(body: str = f"/ratchet accept {CASE} masks", **changes: Any) -> Comment:
    told = Comment(5, PERSON, body, examples.STARTED, examples.STARTED, "https://github.com/o/r/pull/7#issuecomment-5")
    return replace(told, **changes)


def test_an_acceptance_holds() -> None:
    """One that a person who may write said of this very head is believed."""
    assert believed([acceptance()], {5: comment()}, WRITES, HEAD, ()) == (acceptance(),)


@pytest.mark.parametrize("permission", ["admin", "maintain", "write"])
def test_who_may_write(permission: str) -> None:
    """Whoever may write may accept."""
    assert believed([acceptance()], {5: comment()}, {PERSON: permission}, HEAD, ())


@pytest.mark.parametrize(
    ("given", "comments", "permissions", "head"),
    [
        (acceptance(), {5: comment()}, WRITES, "4e" * 20),
        (acceptance(), {5: comment()}, {PERSON: "triage"}, HEAD),
        (acceptance(), {5: comment()}, {PERSON: "read"}, HEAD),
        (acceptance(), {5: comment()}, {}, HEAD),
        (acceptance(), {}, WRITES, HEAD),
        (acceptance(), {5: comment(author="octocat")}, WRITES, HEAD),
        (acceptance(), {5: comment(updated_at=examples.STARTED + timedelta(seconds=1))}, WRITES, HEAD),
        (acceptance(), {5: comment(f"/ratchet accept {CASE} other words")}, WRITES, HEAD),
        (acceptance(), {5: comment("/ratchet accept gemm/2k masks")}, WRITES, HEAD),
        (acceptance(), {5: comment(f"> /ratchet accept {CASE} masks")}, WRITES, HEAD),
        (acceptance(), {5: comment(f"/ratchet profile {CASE}")}, WRITES, HEAD),
        (acceptance(comment=None), {5: comment()}, WRITES, HEAD),
    ],
    ids=[
        "moved",
        "triage",
        "read",
        "unknown",
        "deleted",
        "another",
        "edited",
        "words",
        "case",
        "quoted",
        "profile",
        "label-gone",
    ],
)
def test_what_is_not_believed(given: Acceptance, comments: dict[int, Comment], permissions: dict[str, str], head: str) -> None:
    """It takes the same head, a person who may write, and a comment of theirs that is there, unedited, and says the same."""
    assert believed([given], comments, permissions, head, ("bug",)) == ()


def test_a_label_counts_while_it_is_there() -> None:
    """An acceptance by label holds as long as the label is on the pull request, for who may write."""
    given = acceptance(comment=None)
    assert believed([given], {}, WRITES, HEAD, (LABEL,)) == (given,)
    assert believed([given], {}, {PERSON: "none"}, HEAD, (LABEL,)) == ()


def test_the_latest_counts() -> None:
    """Of two for one case the later one is kept."""
    later = acceptance(reason="other", comment=6, at=examples.STARTED + timedelta(hours=1))
    comments = {5: comment(), 6: comment(f"/ratchet accept {CASE} other", id=6)}
    assert believed([later, acceptance()], comments, WRITES, HEAD, ()) == (later,)


def test_only_our_own_acknowledgements_are_read() -> None:
    """A person's copy of our acknowledgement says nothing."""
    body = acknowledgement([acceptance()]) + "\nAccepted."
    copies = [comment(body, author=BOT), comment(body, author="octocat"), comment("hello", author=BOT)]
    assert acknowledged_in(copies, BOT) == (acceptance(),)


@pytest.mark.no_cover
@given(st.text(min_size=1, max_size=500))
def test_an_acknowledgement_is_read_again(reason: str) -> None:
    """Any reason comes back as it was, and none ends the HTML comment that holds it."""
    try:
        made = acceptance(reason=reason)
        line = acknowledgement([made, acceptance()])
    except (ValidationError, UnicodeEncodeError):
        return
    assert read_acknowledgement(f"{line}\r\nAccepted.") == (made, acceptance())
    assert line.count("-->") == 1
    assert "\n" not in line
    assert line.isascii()


@pytest.mark.parametrize(
    "body",
    [
        "",
        MARKER,
        f"{MARKER}[] -->",
        f"{MARKER}{{}} -->",
        f'{MARKER}{{"acceptances": 1}} -->',
        f'{MARKER}{{"acceptances": [], "acceptances": []}} -->',
        f'{MARKER}{{"acceptances": [], "more": 1}} -->',
        f'{MARKER}{{"acceptances": [{{"case": "a/b"}}]}} -->',
        f'{MARKER}{{"acceptances": [NaN]}} -->',
        f"{MARKER}{'[' * 40_000} -->",
        f"hello\n{acknowledgement([acceptance()])}",
        acknowledgement([acceptance()]).replace('"sha":"3f', '"sha":"zz'),
        acknowledgement([acceptance()]).replace('"comment":5', '"comment":"5"'),
        acknowledgement([acceptance()]).replace('"reason"', '"verdict":"pass","reason"'),
        acknowledgement([acceptance()] * 51),
    ],
)
def test_what_is_no_acknowledgement(body: str) -> None:
    """Anything that we did not write in this form holds no acceptance."""
    assert read_acknowledgement(body) == ()


def test_only_a_slowdown_can_be_accepted() -> None:
    """A wrong result stays red whoever accepts it, and an acceptance of a case that is not red is left over."""
    report = recorded("outcomes").reports[""]
    given = [acceptance(case="gemm/fp8_4k"), acceptance(case="softmax/rows_4096"), acceptance(case="no/such")]
    done = with_acceptances(report, given)
    assert done.report == report
    assert (done.acceptances, done.unused) == ((), tuple(given))
