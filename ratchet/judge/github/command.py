"""Read the command in a comment: ``/ratchet accept CASE… reason`` or ``/ratchet profile CASE…``.

The job that answers comments calls `parse_command`, and so does `state.py` when it checks that a comment still says the
same. Pure. The text is a stranger's: no error message repeats any of it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ratchet.errors import UsageError
from ratchet.records.forge import LONGEST_CASE, LONGEST_REASON

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_CASES = 20
LONGEST_BODY = 65_536
"""Characters of the longest comment that GitHub allows."""
USAGE = "Write `/ratchet accept CASE… reason` or `/ratchet profile CASE…`, each case as benchmark/config."

_WORD = "/ratchet"


@dataclass(frozen=True)
class Accept:
    """Accept the regression of these cases, for this reason."""

    cases: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class ProfileWanted:
    """Profile both sides of these cases."""

    cases: tuple[str, ...]


@dataclass(frozen=True)
class BadCommand:
    """A command that cannot be understood. ``sentence`` says why, without a stranger's words: it may be shown as it is."""

    sentence: str


Command = Accept | ProfileWanted | BadCommand


def parse_command(body: str) -> Command | None:
    """Return the one command of a comment, or None.

    A command is a line of a plain paragraph that begins with ``/ratchet``. Cases come first, as benchmark/config, backticks
    allowed; the reason is the rest of the line, after ``--`` if its first word has a slash.
    """
    if _WORD not in body:
        return None
    lines = [line for line in _plain_lines(body[:LONGEST_BODY]) if line.startswith(_WORD) and line.split(maxsplit=1)[0] == _WORD]
    if not lines:
        return None
    try:
        if len(lines) > 1:
            raise UsageError("A comment can hold one command, and this one has several: write a comment for each.")
        return _read(lines[0].split()[1:])
    except UsageError as error:
        return BadCommand(error.message)


def _read(words: list[str]) -> Accept | ProfileWanted:
    if words[:1] not in (["accept"], ["profile"]):
        raise UsageError(f"There is no such command. {USAGE}")
    bare = [word.rstrip(",").strip("`") for word in words[1:]]  # people copy names from a comment: `a/b`,
    count = next((index for index, word in enumerate(bare) if not is_case(word)), len(bare))
    cases, rest = tuple(dict.fromkeys(bare[:count])), words[1 + count :]
    if not cases:
        is_pattern = any(c in "*?[" for c in rest[0]) if rest else False
        raise UsageError(f"{'Patterns are not allowed: name each case.' if is_pattern else 'It names no case.'} {USAGE}")
    if len(cases) > MOST_CASES:
        raise UsageError(f"It names {len(cases)} cases; {MOST_CASES} are the most in one comment.")
    if words[0] == "profile":
        if rest:
            raise UsageError(f"`/ratchet profile` takes cases and nothing else. {USAGE}")
        return ProfileWanted(cases)
    reason = " ".join(rest[1:] if rest[:1] == ["--"] else rest)
    if not any(character.isalnum() for character in reason):
        raise UsageError("A regression is accepted for a reason, and there is none: say why after the cases, on the same line.")
    if len(reason) > LONGEST_REASON:
        raise UsageError(f"The reason has {len(reason)} characters; {LONGEST_REASON} are the most.")
    return Accept(cases, reason)


def is_case(word: str) -> bool:
    """Return whether it can be the full name of a case: ``benchmark/config``, without patterns."""
    parts = word.split("/")
    is_plain = all(character.isalnum() or character in "_-.+" for part in parts for character in part)
    return len(word) <= LONGEST_CASE and len(parts) == 2 and all(parts) and is_plain


# Plain lines: what a person who reads the comment on GitHub sees as its writer's own words.

_COMMENT = re.compile(r"<!--(?:(?!--)[^<>])*-->")
"""An HTML comment that every parser ends at the same place."""
_FOOTNOTE = re.compile(r"[\s>*+-]*\[\^")
"""The beginning of a footnote, which GitHub moves or hides with all that follows it."""
_TABLE = re.compile(r"[ \t|:]*-[ \t|:-]*")
"""The line below the head of a table: on GitHub a table may have one column."""
_HTML = ("html_block", "html_inline")
_CLOSED = ("fence", "heading_open", "html_block")
"""Blocks after which a paragraph may begin on the next line."""
_MARKS = frozenset({"em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close"})


def _plain_lines(body: str) -> Iterator[str]:
    """Yield the lines of paragraphs that begin at the margin, outside quotations, lists and tables, up to the first HTML tag.

    What a tag leaves open depends on the reader's browser, so nothing after one counts; nor does anything after a footnote.
    """
    source = re.split(r"\r\n?|\n", body)
    footnote = next((number for number, line in enumerate(source) if _FOOTNOTE.match(line)), len(source))
    opening, below = None, 0
    for token in _markdown().parse(body):
        if token.type == "inline" and opening and token.map and token.children:
            first, end = token.map
            is_paragraph = (opening.type, opening.level) == ("paragraph_open", 0)
            # Parsers differ about what goes on in the line right below a quotation, a list or the definition of a link.
            begins = first == below or not source[first - 1].strip()
            if is_paragraph and begins and end <= footnote and all(map(_is_plain, source[first:end])):
                yield from _lines_of(token.children)
        if any("<" in _COMMENT.sub("", part.content) for part in (token, *(token.children or ())) if part.type in _HTML):
            return
        if token.level == 0 and token.map and token.type in _CLOSED:
            below = token.map[1]
        opening = token


def _is_plain(line: str) -> bool:
    return not line[:1].isspace() and not _TABLE.fullmatch(line)


def _lines_of(children: Sequence[Token]) -> Iterator[str]:
    """Yield the lines of a paragraph that begin with plain text, up to the first HTML tag: as shown, but with marks such as `*`.

    A tilde or a dollar sign may begin a struck-through text or a formula of GitHub's, so the lines after it are left out.
    """
    line, is_plain, depth = "", True, 0
    for child in children:
        depth += child.nesting
        if child.type in ("softbreak", "hardbreak"):
            if is_plain:
                yield line
            if "~" in line or "$" in line:
                return
            line, is_plain = "", depth == 0
            continue
        is_plain = is_plain and (line != "" or child.type == "text")
        if child.type == "html_inline" and not _COMMENT.fullmatch(child.content):
            break
        if child.type in ("text", "text_special", "image"):
            line += child.content
        elif child.type == "code_inline":
            line += f"{child.markup}{child.content}{child.markup}"
        elif child.type in _MARKS:
            line += child.markup
    if is_plain:
        yield line


@functools.cache
def _markdown() -> MarkdownIt:
    """Return a parser of GitHub's Markdown that keeps escaped characters apart."""
    from markdown_it import MarkdownIt  # of the extra `github`, and not loaded unless a comment may hold a command

    return MarkdownIt("commonmark").enable("strikethrough").disable("text_join")
