"""Text from code under test stays text: on a terminal, in a log and in Markdown."""

from __future__ import annotations

import re
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core import untrusted

NASTY = st.text(
    alphabet=st.one_of(st.sampled_from("|<>&`[]()@#:/\\*_~$!{}=-+.1w \n\r\t\x1b\x00\x07\u202e\u2028\u200b\x85"), st.characters())
)
PIECES = (
    *("@name", "#12", "GH-3", "https://x.y", "www.x.y", "a@b.cd", "<b>", "</td>", "|", "`", "```", "[a](b)", "![a](b)", "\n"),
    *("\x1b[31m", "\x1b]8;;http://x\x07", "$x$", "&lt;", "&#60;", "\\", "::error::", "##[group]", ":tada:"),
    *("~~a~~", "_a_", " ", "x"),
)
PHRASES = st.lists(st.sampled_from(PIECES)).map("".join)
ANY = NASTY | PHRASES


@given(ANY)
def test_a_cell_is_inert(text: str) -> None:
    """No rendered cell has a line break, a tag, a column, code, a bracket, emphasis or a control character."""
    for cell in (untrusted.markdown(text, untrusted.CELL), untrusted.name(text)):
        inner = cell[1:-1] if cell.startswith("`") else cell
        assert not re.search(r"[<>|`\[\]*~$\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", inner)
        assert re.fullmatch(r"(?:[^&]|&(?:amp|lt|gt|#\d+);)*", inner), "every ampersand begins an entity of ours"


@given(ANY)
def test_nothing_in_a_cell_is_live(text: str) -> None:
    """No rendered cell mentions a person, names an issue or is a link."""
    shown = untrusted.markdown(text).replace("&#8203;", "\u200b")
    shown = re.sub(r"&#(\d+);", lambda m: chr(int(m[1])), shown).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    assert not re.search(r"@[^\s\u200b]|#[^\s\u200b]|gh-\d|://|www\.|mailto:[^\u200b]|:(?:tada|100|\+1):", shown, re.IGNORECASE)


@given(ANY)
def test_nothing_is_lost(text: str) -> None:
    """What a reader sees is the cleaned text, character by character."""
    shown = untrusted.markdown(text).replace("&#8203;", "")
    shown = re.sub(r"&#(\d+);", lambda m: chr(int(m[1])), shown).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert shown == untrusted.clean(text)


def test_a_long_line_is_cut() -> None:
    """A text longer than the limit is cut and ends with an ellipsis."""
    assert untrusted.clean("x" * 400) == "x" * 400
    assert untrusted.clean("x" * 401) == "x" * 399 + "…"
    assert untrusted.clean("abc", 2) == "a…"


@given(st.text() | st.text(st.sampled_from("\x1b[]()0;31mK\x07\\ \n\u202ea")), st.integers(1, 50))
def test_clean_gives_one_printable_line(text: str, longest: int) -> None:
    """Whatever comes in, one printable line of bounded length comes out, and cleaning it again changes nothing."""
    line = untrusted.clean(text, longest)
    assert all(letter.isprintable() or category(letter) in ("Cn", "Co") for letter in line)
    assert len(line) <= longest
    assert line == line.lstrip()
    assert untrusted.clean(line, longest) == line.strip()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain µs × ‖x‖", "plain µs × ‖x‖"),
        ("\x1b[1;31merror\x1b[0m: x", "error: x"),
        ("\x1b[2K\x1b[1A\x1b[?25lgone", "gone"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cGFzdGU=", ""),
        ("\x1b(B\x1b[mreset", "reset"),
        ("\x1b7\x1b8\x1bc\x1b=ok", "ok"),
        ("\x1b", ""),
        ("a\tb\r\nc\x00d\x7f", "a b cd"),
        ("right\u202eleft\u200bx", "rightleftx"),
        ("  two spaces  ", "two spaces"),
        ("a\x1b[1;31mred\x1b[0m", "ared"),
        ("a\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("a\x1b]0;title", "a"),
        ("a\x1b]never ended\nb", "anever ended b"),
        ("a\x9b31mred", "ared"),
        ("a\x1bPq\x1b\\b", "ab"),
        ("a\r\nb\tc\x0bd\u2028e", "a b c d e"),
        ("abc\u202edef\u200b\ufeff", "abcdef"),
        ("\ud800", "\ufffd"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    """Colours, terminal commands with their payloads, line breaks and invisible characters go; the text between them stays."""
    assert untrusted.clean(text) == shown


@pytest.mark.parametrize("text", ["attention/training_512", "gemm-2k", "a.b+c", "1a2b3c4d5e"])
def test_a_plain_name_is_code(text: str) -> None:
    """A name that needs no escaping is shown as code."""
    assert untrusted.name(text) == f"`{text}`"


def test_an_identifier_keeps_its_underscores() -> None:
    """Underscores inside a word are no emphasis, so they stay readable in the source; others are escaped."""
    assert untrusted.markdown("block_m and _x_") == "block_m and &#95;x&#95;"


@pytest.mark.parametrize(
    ("text", "start"), [("- x", "&#45; x"), ("1. x", "1&#46; x"), ("---", "&#45;--"), ("# x", "&#35; x"), ("+3 %", "+3 %")]
)
def test_a_text_begins_no_block(text: str, start: str) -> None:
    """A text that would begin a list, a heading or a rule does not, and a figure stays as it is."""
    assert untrusted.markdown(text) == start


@given(st.lists(ANY, max_size=6))
def test_a_fence_cannot_be_left(lines: list[str]) -> None:
    """No line of the content closes the fence, whatever runs of backticks it has."""
    block = untrusted.fenced(lines).split("\n")
    fence = block[-1]
    assert block[0] == f"{fence}text"
    assert len(fence) >= 3
    assert all(fence not in line for line in block[1:-1])
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", line) for line in block)


def test_a_fence_keeps_the_last_lines() -> None:
    """Of a long output the end is shown, indented as it was, each line cut to its cap."""
    block = untrusted.fenced(["first", "  second\nthird", "x" * 1000], most=3).split("\n")
    assert block[1:3] == ["  second", "third"]
    assert len(block[3]) == untrusted.LINE


@given(ANY)
def test_a_log_line_commands_no_runner(text: str) -> None:
    """No line for a log is a command to the runner that prints it."""
    line = untrusted.log_line(text)
    assert not line.lstrip().startswith("::")
    assert "##[" not in line
    assert "##[" not in untrusted.output_line(text)
    assert len(line.splitlines()) <= 1
    assert len(untrusted.output_line(text).splitlines()) <= 1


@given(ANY)
def test_github_renders_no_structure(text: str) -> None:
    """GitHub's own renderer finds the table, list and paragraphs that we wrote, and no tag, link or image besides."""
    cmarkgfm = pytest.importorskip("cmarkgfm", reason="pip install cmarkgfm to render as GitHub does")
    cell = untrusted.markdown(text, untrusted.CELL)
    table = f"|a|b|\n|-|-|\n| {cell} | {untrusted.name(text)} |\n\n"
    source = f"{table}- {cell}\n\nHead “{cell}” **x**\n\n{untrusted.fenced([text])}\n\nend\n"
    html = cmarkgfm.github_flavored_markdown_to_html(source)
    tags = re.findall(r"<([a-z0-9]+)", html)
    assert set(tags) <= {"table", "thead", "tbody", "tr", "th", "td", "ul", "li", "p", "strong", "pre", "code"}
    assert [tags.count(tag) for tag in ("th", "td", "tr", "li", "strong", "pre", "p")] == [2, 2, 2, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("fixes #12", "fixes #\u200b12"),
        ("@octocat", "@\u200boctocat"),
        ("[skip ci]", "[\u200bskip ci]"),
        ("closes https://github.com/o/r/issues/1", "closes https:\u200b//github.com/o/r/issues/1"),
        ("closes www.github.com/o/r/issues/1", "closes www\u200b.github.com/o/r/issues/1"),
    ],
)
def test_a_commit_message_is_inert(line: str, shown: str) -> None:
    """A line of a commit message mentions nobody, closes no issue and skips no workflow."""
    assert untrusted.neutralise_workflow_commands(line) == shown
