"""Read the command in a comment: ``/ratchet accept CASE… reason`` or ``/ratchet profile CASE…``.

The job that answers comments calls `parse_command`, and so does `acceptance.py` when it checks that a comment still says the
same. Pure. The text is a stranger's: no error message repeats any of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ratchet.errors import UsageError
from ratchet.records.acceptance import LONGEST_CASE, LONGEST_REASON

MOST_CASES = 20
LONGEST_BODY = 65_536
"""Characters of the longest comment that GitHub allows."""
USAGE = "Write `/ratchet accept CASE… reason` or `/ratchet profile CASE…`, each case as benchmark/config."

_WORD = "/ratchet"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


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

    A command is a line that begins with ``/ratchet``, outside quotes, blocks of code and HTML comments. Cases come first, as
    benchmark/config, backticks allowed; the reason is the rest of the line, after ``--`` if its first word has a slash.
    """
    lines = [line for line in _own_lines(body[:LONGEST_BODY]) if line.startswith(_WORD) and line.split(maxsplit=1)[0] == _WORD]
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


def _own_lines(body: str) -> Iterator[str]:
    """Yield the lines outside blocks of code and HTML comments; a quoted line begins with ``>``."""
    fence = ""
    hidden = False
    for line in re.split(r"\r\n|[\n\r]", body):
        if hidden:
            hidden = "-->" not in line
        elif fence:
            closing = _FENCE.fullmatch(line)
            if closing and closing[1].startswith(fence) and not closing[2].strip():
                fence = ""
        elif opening := _FENCE.fullmatch(line):
            fence = opening[1]
        elif "<!--" in line:
            hidden = "-->" not in line.rpartition("<!--")[2]
        else:
            yield line
