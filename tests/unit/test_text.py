"""Foreign text made safe to print."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.untrusted import clean


@given(st.text() | st.text(st.sampled_from("\x1b[]()0;31mK\x07\\ \n\u202ea")), st.integers(1, 50))
def test_any_text(text: str, longest: int) -> None:
    """Whatever comes in, one printable line of bounded length comes out, and cleaning it again changes nothing."""
    line = clean(text, longest)
    assert all(letter.isprintable() or category(letter) in ("Cn", "Co") for letter in line)
    assert len(line) <= longest
    assert line == line.lstrip()
    assert clean(line, longest) == line.strip()


@pytest.mark.parametrize(
    ("text", "line"),
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
    ],
)
def test_by_hand(text: str, line: str) -> None:
    """Escape sequences go, payloads of titles and links too; so do characters that cannot be seen."""
    assert clean(text) == line


def test_length() -> None:
    """A long line is cut and says so."""
    assert clean("x" * 400) == "x" * 400
    assert clean("x" * 401) == "x" * 399 + "…"
    assert clean("abc", 2) == "a…"
