"""Commands in comments."""

from __future__ import annotations

import cmarkgfm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.github.event import Accept, BadCommand, ProfileWanted, parse_command
from ratchet.github.records import LONGEST_REASON
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


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("/ratchet", "no such command"),
        ("/ratchet merge a/b", "no such command"),
        ("/ratchet accept", "names no case"),
        ("/ratchet accept because", "names no case"),
        ("/ratchet accept */b because", "Patterns are not allowed"),
        ("/ratchet accept a/b", "there is none"),
        ("/ratchet accept a/b -- …", "there is none"),
        (f"/ratchet accept a/b {'x' * (LONGEST_REASON + 1)}", f"at most {LONGEST_REASON} are allowed"),
        (f"/ratchet profile {' '.join(f'a/{n}' for n in range(21))}", "at most 20"),
        ("/ratchet profile a/b please", "nothing else"),
        (f"{LINE}\n{LINE}", "one command"),
    ],
)
def test_what_is_wrong(body: str, said: str) -> None:
    """A command that cannot be obeyed is answered with a sentence."""
    wrong = parse_command(body)
    assert isinstance(wrong, BadCommand)
    assert said in wrong.sentence


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
