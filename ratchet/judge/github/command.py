"""A comment → the command in it: ``/ratchet accept CASE… reason`` or ``/ratchet profile CASE…``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ratchet.records.acceptance import LONGEST_CASE, LONGEST_REASON

MOST_CASES = 20
LONGEST_BODY = 65_536
"""Characters of a comment on GitHub; a longer one is none."""
USAGE = "Write `/ratchet accept CASE… reason` or `/ratchet profile CASE…`, each case as benchmark/config."

_WORD = "/ratchet"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


@dataclass(frozen=True)
class Accept:
    """Take the regression of these cases, for this reason."""

    cases: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class ProfileWanted:
    """Profile both sides of these cases."""

    cases: tuple[str, ...]


@dataclass(frozen=True)
class BadCommand:
    """A command that cannot be read. ``sentence`` says why, in our words alone, so it may be shown as it is."""

    sentence: str


Command = Accept | ProfileWanted | BadCommand


def parse_command(body: str) -> Command | None:
    """The one command of a comment; None where it has none.

    A command is a line that begins with ``/ratchet``. What is quoted, stands in a block of code or in an HTML comment does not
    count. Cases come first, as benchmark/config, backticks allowed; the reason is the rest of the line, after ``--`` where its
    first word has a slash.
    """
    found = [line for line in _spoken(body[:LONGEST_BODY]) if line.split(maxsplit=1)[:1] == [_WORD] and line.startswith(_WORD)]
    if not found:
        return None
    if len(found) > 1:
        return BadCommand("A comment can hold one command, and this one has several: write a comment for each.")
    words = found[0].split()[1:]
    match words[:1]:
        case ["accept"]:
            return _accept(words[1:])
        case ["profile"]:
            return _profile(words[1:])
        case _:
            return BadCommand(f"There is no such command. {USAGE}")


def is_case(word: str) -> bool:
    """Whether it can be the full name of a case: ``benchmark/config``, without patterns."""
    parts = word.split("/")
    return len(word) <= LONGEST_CASE and len(parts) == 2 and all(part and all(map(_in_name, part)) for part in parts)


def _in_name(character: str) -> bool:
    return character.isalnum() or character in "_-.+"


def _accept(words: list[str]) -> Accept | BadCommand:
    cases, rest = _cases(words)
    reason = " ".join(rest[1:] if rest[:1] == ["--"] else rest)
    if wrong := _wrong(cases, rest):
        return wrong
    if not any(character.isalnum() for character in reason):
        return BadCommand("A regression is accepted for a reason, and there is none: say why after the cases, on the same line.")
    if len(reason) > LONGEST_REASON:
        return BadCommand(f"The reason has {len(reason)} characters; {LONGEST_REASON} are the most.")
    return Accept(cases, reason)


def _profile(words: list[str]) -> ProfileWanted | BadCommand:
    cases, rest = _cases(words)
    if wrong := _wrong(cases, rest):
        return wrong
    return BadCommand(f"`/ratchet profile` takes cases and nothing else. {USAGE}") if rest else ProfileWanted(cases)


def _cases(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The cases at the front, each once, and the words after them."""
    bare = [_bare(word) for word in words]
    count = next((index for index, word in enumerate(bare) if not is_case(word)), len(bare))
    return tuple(dict.fromkeys(bare[:count])), words[count:]


def _bare(word: str) -> str:
    """``\\`a/b\\`,`` → ``a/b``: people copy names from a comment."""
    return word.rstrip(",").strip("`")


def _wrong(cases: tuple[str, ...], rest: list[str]) -> BadCommand | None:
    if not cases:
        pattern = any(c in "*?[" for c in rest[0]) if rest else False
        why = "Patterns are not taken: name each case." if pattern else "It names no case."
        return BadCommand(f"{why} {USAGE}")
    if len(cases) > MOST_CASES:
        return BadCommand(f"It names {len(cases)} cases; {MOST_CASES} are the most of one comment.")
    return None


def _spoken(body: str) -> Iterator[str]:
    """The lines that the writer says: neither quoted nor code, nor hidden in an HTML comment."""
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
