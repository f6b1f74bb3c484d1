"""Commands in comments."""

from __future__ import annotations

import cmarkgfm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.github.event import LONGEST_BODY, Accept, BadCommand, ProfileWanted, parse_command
from ratchet.github.records import LONGEST_CASE, LONGEST_REASON
from tests.hostile_comments import HOSTILE, LINE, plain_lines

ACCEPT = Accept(("a/b",), "masked rows were wrong")


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        (LINE, ACCEPT),
        (f"Thanks!\r\n\r\n{LINE}  \r\nSee the issue.", ACCEPT),
        ("/ratchet   accept\t`a/b`,  masked rows   were wrong", ACCEPT),
        ("/ratchet accept a/b c/d a/b because", Accept(("a/b", "c/d"), "because")),
        ("/ratchet accept a/b -- w/o masks it was wrong", Accept(("a/b",), "w/o masks it was wrong")),
        ("/ratchet accept a/b @octocat said so", Accept(("a/b",), "@octocat said so")),
        (f"**Fine**, `really`.\n{LINE}\n*thanks*", ACCEPT),
        (f"{LINE}\n> quoted", ACCEPT),
        (f"> why?\n\n{LINE}", ACCEPT),
        (f"- a list\n\n<!-- a template -->\n\n{LINE}", ACCEPT),
        ("/ratchet accept a/b *not* `x_y` 2*3 <!-- hidden --> [here](http://c)", Accept(("a/b",), "*not* `x_y` 2*3 here")),
        ("/ratchet profile a/b `x-1.5+y/größe_2`", ProfileWanted(("a/b", "x-1.5+y/größe_2"))),
        ("/ratchet profile a/X `X/b`, a/b,,", ProfileWanted(("a/X", "X/b", "a/b"))),
        (r"/ratchet accept a/b not \*bold\*, see ![a figure](http://c)", Accept(("a/b",), "not *bold*, see a figure")),
        (f"{LINE} <b>and more</b>", ACCEPT),
    ],
)
def test_what_is_meant(body: str, meant: Accept | ProfileWanted) -> None:
    """Cases come first, with or without backticks and commas, then the reason; lines around the command do not matter."""
    assert parse_command(body) == meant


@pytest.mark.parametrize(
    "body",
    [
        "",
        "ratchet accept a/b x",
        f"> {LINE}",
        f"text {LINE}",
        f" {LINE}",
        f"    {LINE}",
        f"```\n{LINE}\n```",
        f"~~~~ sh\n~~~\n{LINE}\n~~~~",
        f"```\n```js\n{LINE}",
        f"<!-- {LINE} -->",
        f"<!--\n{LINE}\n-->",
        "/ratchets accept a/b x",
        "/ratchet/accept a/b x",
    ],
)
def test_what_is_no_command(body: str) -> None:
    """What is quoted, code, hidden, or only looks alike is no command."""
    assert parse_command(body) is None


USAGE = "Write `/ratchet accept CASE… reason` or `/ratchet profile CASE…`, each case as benchmark/config."
PATTERNS = "Patterns are not allowed: name each case."
NO_REASON = "A regression is accepted for a reason, and there is none: say why after the cases, on the same line."


def cases(count: int) -> str:
    return " ".join(f"a/{number}" for number in range(count))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("/ratchet", f"There is no such command. {USAGE}"),
        ("/ratchet merge a/b", f"There is no such command. {USAGE}"),
        ("/ratchet accept", f"It names no case. {USAGE}"),
        ("/ratchet accept because", f"It names no case. {USAGE}"),
        ("/ratchet accept because *", f"It names no case. {USAGE}"),
        ("/ratchet accept Xavier said so", f"It names no case. {USAGE}"),
        *((f"/ratchet accept {pattern} because", f"{PATTERNS} {USAGE}") for pattern in ("*/b", "a/?", "a/[bc]")),
        ("/ratchet accept a/b", NO_REASON),
        ("/ratchet accept a/b -- …", NO_REASON),
        (
            f"/ratchet accept a/b {'x' * (LONGEST_REASON + 1)}",
            f"The reason has {LONGEST_REASON + 1} characters; at most {LONGEST_REASON} are allowed.",
        ),
        (f"/ratchet profile {cases(21)}", "It names 21 cases; one comment may name at most 20."),
        ("/ratchet profile a/b please", f"`/ratchet profile` takes cases and nothing else. {USAGE}"),
        (f"{LINE}\n{LINE}", "A comment can hold one command, and this one has several: write a comment for each."),
    ],
)
def test_what_is_wrong(body: str, said: str) -> None:
    """A command that cannot be obeyed is answered with a sentence."""
    assert parse_command(body) == BadCommand(said)


def test_the_most_that_a_command_may_hold() -> None:
    """Twenty cases, a reason and a name of the greatest length, and a command that ends where a comment has to, are obeyed."""
    assert parse_command(f"/ratchet profile {cases(20)}") == ProfileWanted(tuple(cases(20).split()))
    longest = "x" * LONGEST_REASON
    assert parse_command(f"/ratchet accept a/b {longest}") == Accept(("a/b",), longest)
    name = f"a/{'x' * (LONGEST_CASE - 2)}"
    assert parse_command(f"/ratchet profile {name}") == ProfileWanted((name,))
    assert parse_command(f"/ratchet profile {name}x") == BadCommand(f"It names no case. {USAGE}")
    before = "x" * (LONGEST_BODY - len(LINE) - 2)
    assert parse_command(f"{before}\n\n{LINE}") == ACCEPT
    assert parse_command(f"{before}x\n\n{LINE}") == Accept(ACCEPT.cases, ACCEPT.reason[:-1])


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_only_a_line_of_a_plain_paragraph_commands(body: str) -> None:
    """What GitHub shows as code, quotation, list, table, heading, formula, or not at all is no command."""
    assert parse_command(body) is None
    assert parse_command(f"{body}\r\n".replace("\n", "\r\n")) is None


def test_after_code_the_writer_speaks_again() -> None:
    """A block of code ends at its fence, and so does what is hidden at its arrow."""
    assert parse_command(f"````\n```\n/ratchet x\n````\n<!-- a\nb --> c\n{LINE}") == ACCEPT


@given(
    st.text()
    | st.lists(st.sampled_from(["/ratchet ", "accept ", "profile ", "a/b ", "```\n", "\n", "> ", "x ", "<!--"])).map("".join)
)
def test_any_text_is_answered(body: str) -> None:
    """No text breaks the parser, no sentence repeats what a stranger wrote, and an accepted reason is one short line."""
    found = parse_command(body)
    if isinstance(found, Accept):
        assert found.cases
        assert 0 < len(found.reason) <= LONGEST_REASON
        assert len(found.reason.splitlines()) == 1
    if isinstance(found, BadCommand):
        assert found.sentence.isascii() or "…" in found.sentence


_MARKUP = (
    "<blockquote> </blockquote> <pre> </pre> <b> </details> <!-- --> <!--> --!> <br/> <a <?x ?> <!X <x:y> ` `` ~~~ ``` ~ ~~ $ $$ "
    "* ** *** _ [ ](x) ]: [^1]: [^1] ![ [a]: > - 1. + # = == -- | :- -|- \\ & &#47; &nbsp; $` `$ \" ' ( ) ::: a"
)
_PIECES = [*_MARKUP.split(), LINE, "\n", "\n\n", "\n  ", "\n    ", "\t", " "]


@pytest.mark.slow
@pytest.mark.no_cover
@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
@settings(max_examples=1000)
def test_what_is_obeyed_is_seen(body: str) -> None:
    """Whatever surrounds a command that is obeyed, GitHub's own renderer shows it at the start of a plain paragraph's line."""
    if parse_command(body) is not None:
        assert any(line.startswith("/ratchet") for line in plain_lines(body)), cmarkgfm.github_flavored_markdown_to_html(body)
