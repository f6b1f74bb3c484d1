"""Regressions that somebody took on purpose."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.github.records import Acceptance, Comment
from ratchet.github.state import (
    LABEL,
    LONGEST,
    MARKER,
    MOST,
    acknowledged_in,
    acknowledgement,
    believed,
    read_acknowledgement,
    with_acceptances,
)
from tests import examples, reports
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


def test_an_acknowledgement_is_one_line_that_later_versions_read() -> None:
    """Acknowledgements stand in comments for as long as a pull request is open, so their text stays as it is."""
    text = (
        '<!-- ratchet:accept {"acceptances":[{"case":"layernorm/hidden_4096","reason":"masks","by":"a-maintainer",'
        f'"sha":"{HEAD}","comment":5,"at":"2026-03-14T15:09:26Z"}}]}} -->'
    )
    assert acknowledgement([acceptance()]) == text
    assert read_acknowledgement(f"{text}\r\nMore.") == (acceptance(),)


@pytest.mark.parametrize("permission", ["admin", "maintain", "write"])
def test_an_acceptance_holds(permission: str) -> None:
    """One that a person who may write said of this very head is believed."""
    assert believed([acceptance()], {5: comment()}, {PERSON: permission}, HEAD, ()) == (acceptance(),)


LATER = examples.STARTED + timedelta(seconds=1)
NOT_BELIEVED: dict[str, tuple[Acceptance, dict[int, Comment], dict[str, str], str]] = {
    "moved": (acceptance(), {5: comment()}, WRITES, "4e" * 20),
    "triage": (acceptance(), {5: comment()}, {PERSON: "triage"}, HEAD),
    "read": (acceptance(), {5: comment()}, {PERSON: "read"}, HEAD),
    "unknown": (acceptance(), {5: comment()}, {}, HEAD),
    "deleted": (acceptance(), {}, WRITES, HEAD),
    "another": (acceptance(), {5: comment(author="octocat")}, WRITES, HEAD),
    "edited": (acceptance(), {5: comment(updated_at=LATER)}, WRITES, HEAD),
    "words": (acceptance(), {5: comment(f"/ratchet accept {CASE} other words")}, WRITES, HEAD),
    "case": (acceptance(), {5: comment("/ratchet accept gemm/2k masks")}, WRITES, HEAD),
    "quoted": (acceptance(), {5: comment(f"> /ratchet accept {CASE} masks")}, WRITES, HEAD),
    "profile": (acceptance(), {5: comment(f"/ratchet profile {CASE}")}, WRITES, HEAD),
    "label-gone": (acceptance(comment=None), {5: comment()}, WRITES, HEAD),
}


@pytest.mark.parametrize("why", NOT_BELIEVED)
def test_what_is_not_believed(why: str) -> None:
    """It takes the same head, a person who may write, and a comment of theirs that is there, unedited, and says the same."""
    given, comments, permissions, head = NOT_BELIEVED[why]
    assert believed([given], comments, permissions, head, ("bug",)) == ()


def test_a_label_counts_while_it_is_there() -> None:
    """An acceptance by label holds as long as the label is on the pull request, for who may write."""
    given = acceptance(comment=None)
    assert believed([given], {}, WRITES, HEAD, (LABEL,)) == (given,)
    assert believed([given], {}, {PERSON: "none"}, HEAD, (LABEL,)) == ()


def test_the_latest_counts() -> None:
    """Of two for one case the later one is kept; of two of the same time, the one that was read last."""
    later = acceptance(reason="other", comment=6, at=examples.STARTED + timedelta(hours=1))
    comments = {5: comment(), 6: comment(f"/ratchet accept {CASE} other", id=6)}
    assert believed([later, acceptance()], comments, WRITES, HEAD, ()) == (later,)
    at_once = acceptance(reason="other", comment=6)
    assert believed([acceptance(), at_once], comments, WRITES, HEAD, ()) == (at_once,)
    assert believed([at_once, acceptance()], comments, WRITES, HEAD, ()) == (acceptance(),)


def test_only_our_own_acknowledgements_are_read() -> None:
    """A person's copy of our acknowledgement says nothing."""
    ours, theirs = (f"{acknowledgement([acceptance(case=case)])}\nAccepted." for case in ("a/ours", "a/theirs"))
    copies = [comment(ours, author=BOT), comment(theirs, author="octocat"), comment("hello", author=BOT)]
    assert acknowledged_in(copies, BOT) == (acceptance(case="a/ours"),)


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


ONE = acknowledgement([acceptance()])


def padded(length: int) -> str:
    """An acknowledgement whose JSON has so many characters."""
    return ONE.replace('"acceptances":', '"acceptances":' + " " * (length - len(ONE) + len(MARKER) + len(" -->")))


@pytest.mark.parametrize(
    "body",
    [
        "",
        MARKER,
        f"{MARKER}[] -->",
        f"{MARKER}{{}} -->",
        f'{MARKER}{{"acceptances": 1}} -->',
        f'{MARKER}{{"acceptances": [{{"case": "a/b"}}]}} -->',
        f'{MARKER}{{"acceptances": [NaN]}} -->',
        f"{MARKER}{'[' * 40_000} -->",
        f"hello\n{acknowledgement([acceptance()])}",
        acknowledgement([acceptance()]).replace('"sha":"3f', '"sha":"zz'),
        acknowledgement([acceptance()]).replace('"comment":5', '"comment":"5"'),
        acknowledgement([acceptance()]).replace('"reason"', '"verdict":"pass","reason"'),
        acknowledgement([acceptance()] * (MOST + 1)),
        f"{ONE} ",
        f"{ONE}X",
        ONE.removesuffix(" -->"),
        ONE.removeprefix(MARKER),
        ONE.replace('{"acceptances"', '{"more":1,"acceptances"'),
        ONE.replace('{"acceptances"', '{"acceptances":[],"acceptances"'),
        ONE.replace('"comment":5', '"comment":6,"comment":5'),
        padded(LONGEST + 1),
    ],
)
def test_what_is_no_acknowledgement(body: str) -> None:
    """Anything that we did not write in this form holds no acceptance."""
    assert read_acknowledgement(body) == ()


def test_the_most_that_an_acknowledgement_holds() -> None:
    """Fifty acceptances are read, and so is a text of the greatest length."""
    assert read_acknowledgement(acknowledgement([acceptance()] * MOST)) == (acceptance(),) * MOST
    assert read_acknowledgement(padded(LONGEST)) == (acceptance(),)


def test_no_reason_ends_the_comment_that_holds_it() -> None:
    """Marks of HTML are written as escapes, and come back as they were."""
    made = acceptance(reason="<b>&--></b> --- -- !")
    line = acknowledgement([made])
    inner = line.removeprefix(MARKER).removesuffix(" -->")
    assert not any(mark in inner for mark in ("<", ">", "&", "--"))
    assert read_acknowledgement(f"{line}\r\n\r\nAccepted.\r\n") == (made,)


def red(*names: str) -> ReportRecord:
    cases = [reports.case(name, Outcome.REGRESSED, "Slower.", 1.04 + 0.01 * place) for place, name in enumerate(names)]
    return reports.report(tuple(cases), verdict="regression", exit_code=1, headline="Regression.")


def test_a_muted_case_is_counted_beside_an_accepted_one() -> None:
    """With one slowdown accepted and the other muted the run passes, and the headline counts each."""
    report = red(CASE, "gemm/2k")
    muted = report.cases[1].model_copy(update={"muted": "Until 2026-12-01 by @jo: waits for 590"})
    done, _ = with_acceptances(report.model_copy(update={"cases": (report.cases[0], muted)}), [acceptance()])
    assert (done.verdict, done.exit_code) == ("pass", 0)
    assert done.headline == "1 of 2 cases slower, but accepted, 1 muted; no other slower by over 3 %."


def test_only_a_slowdown_can_be_accepted() -> None:
    """A wrong result stays red whoever accepts it, and an acceptance of a case that is not red is left over."""
    report = recorded("outcomes").reports[""]
    given = [acceptance(case="gemm/fp8_4k"), acceptance(case="softmax/rows_4096"), acceptance(case="no/such")]
    assert with_acceptances(report, given) == (report, ())
