"""Make text that code under test may have written safe to show: on a terminal, in a log, in Markdown, in a commit message.

Everything that prints such text calls this module, and no other module escapes anything. Each function returns text that is
safe in the place that it names: no terminal commands, no runner commands, no Markdown structure, no mentions. Pure.

Markdown escapes are numeric entities rather than backslashes, because an entity means the same in a paragraph, in a table
cell and inside an HTML tag, and is never read as structure. GitHub looks for ``@name``, ``#123`` and the like in the
rendered page, where entities are already text, so those get a zero-width space (U+200B), as Renovate does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

CELL = 120
"""Most characters of a name in a table."""
SENTENCE = 400
"""Most characters of a reason, a warning or a headline."""
LINE = 300
"""Most characters of one line of a program's output."""

_SPACE = re.compile(r"\s+")
_BLANK = {ord(c): " " for c in "\u2028\u2029\u0085"}
_ENTITY = {ord(c): f"&#{ord(c)};" for c in "|`[]*~$\\{}"} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_GAP = "&#8203;"
_LIVE = re.compile(
    r"[@#](?=\S)"  # a mention, an issue, an e-mail address
    r"|gh-(?=\d)"  # another way to write an issue
    r"|:(?=//)"  # an address
    r"|www(?=\.)"
    r"|(?:mailto|xmpp):"
    r"|:(?=(?:100|1234|[0-9]*[a-z_+-][a-z0-9_+-]*):)",  # an emoji: `kernel.cu:100:` would get a picture
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_START = re.compile(r"^(?:[-+](?=[\s-]|$)|=|#)")
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:-]+(?:/[A-Za-z0-9_.~/?=&%+-]*(?:#[A-Za-z0-9_-]+)?)?")
_ACTED_ON = re.compile(r"(?:[@#\[]|\bgh-)(?=\w)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)
"""Text that GitHub acts upon in a commit message: a mention, an issue, an address, a word in brackets that skips workflows."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_./+-]+")
_ANSI = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|\Z)"  # operating-system commands, such as links
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c|\Z)"  # device control and other strings
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequences, such as colours
    r"|\x1b[ -/]*[0-~]?"  # the rest
)
"""Colours, cursor movements, links and other commands to a terminal (ECMA-48)."""


class Markdown(str):
    """Text that is already Markdown. A template escapes everything else that it prints."""

    __slots__ = ()


def clean(text: object, limit: int = SENTENCE) -> str:
    """Return one line without colours, control characters or invisible ones, at most ``limit`` characters long."""
    line = _SPACE.sub(" ", _visible(str(text))).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def log_line(text: object, limit: int = LINE) -> str:
    """Clean a line, so that the GitHub runner that prints it sees no command (``::error::`` first, ``##[group]`` anywhere)."""
    line = clean(text, limit).replace("##[", "## [")
    return f"' {line}" if line.startswith("::") else line


def plain(text: object, limit: int = SENTENCE) -> str:
    """Return a `log_line` without live mentions, issues or addresses, for places without Markdown, such as a title."""
    return _LIVE.sub(lambda live: f"{live[0]}\u200b", log_line(text, limit))


def neutralise_workflow_commands(line: str) -> str:
    """Make a cleaned line safe for a commit message or a title: it mentions nobody, closes no issue, skips no workflow."""
    return _ACTED_ON.sub(lambda match: f"{match[0]}\u200b", line)


def last_lines(text: str, count: int) -> tuple[str, ...]:
    """Return the last ``count`` lines that are not empty, each cleaned."""
    lines = (clean(line) for line in text[-8192:].splitlines())
    return tuple(line for line in lines if line)[-count:]


def link(url: str, text: str) -> Markdown:
    """Return a link to an address that GitHub gave; only the text where the address could be anything else."""
    return Markdown(f"[{markdown(text)}]({url})") if web_address(url) else markdown(text)


def web_address(url: str) -> str:
    """Return an address of the web as it is; empty where it could be anything else."""
    return url if _ADDRESS.fullmatch(url) else ""


def markdown(text: object, limit: int = SENTENCE) -> Markdown:
    """Return one line of Markdown that shows ``text`` literally: no structure, link, mention, image, formula or HTML."""
    escaped = clean(text, limit)
    pieces = []
    position = 0
    for match in _LIVE.finditer(escaped):
        pieces += [_entities(escaped[position : match.end()]), _GAP]
        position = match.end()
    line = "".join([*pieces, _entities(escaped[position:])])
    line = _NUMBERED.sub(lambda m: f"{m[1]}&#{ord(m[2])};", line)
    return Markdown(_START.sub(lambda m: f"&#{ord(m[0])};", line))


def name(text: object) -> Markdown:
    """Return a case, hash or other name as code where it is plain, and as escaped text where it is not."""
    shown = clean(text, CELL)
    return Markdown(f"`{shown}`") if PLAIN_NAME.fullmatch(shown) else markdown(shown, CELL)


def cell_name(text: object) -> Markdown:
    """Return a `name` that breaks after ``/``, ``_``, ``-`` and ``.`` where a table has to fit a phone; copied, it is whole."""
    shown = name(text)
    if not shown.startswith("`"):
        return shown
    return Markdown(f"<code>{re.sub(r'(?<=[/_.-])(?=[A-Za-z0-9])', '<wbr>', shown.strip('`'))}</code>")


def output_line(text: object) -> str:
    """Return one line of a program's output, indented as it was, for a log. Print a prefix first: it may begin with ``::``."""
    return _code_line(str(text)).replace("##[", "## [")


def fenced(lines: Iterable[object], language: str = "text", most: int = 20) -> Markdown:
    """Return the last ``most`` lines in a code block, whose fence is longer than any run of backticks inside."""
    shown = [_code_line(line) for text in lines for line in re.split(r"\r\n|[\n\r\u2028\u2029]", str(text))][-most:]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown("\n".join([f"{fence}{language}", *shown, fence]))


def _entities(text: str) -> str:
    return _EMPHASIS.sub("&#95;", text.translate(_ENTITY))


def _code_line(text: str) -> str:
    line = _SPACE.sub(lambda space: space[0].translate(_BLANK), _visible(text.expandtabs(4))).rstrip()
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def _visible(text: str) -> str:
    """Return the text without terminal commands, control characters and invisible characters."""
    if text.isprintable():  # nearly every text; one character at a time, a thousand logs take seconds
        return text
    return "".join(_show(character) for character in _ANSI.sub("", text))


def _show(character: str) -> str:
    match unicodedata.category(character):
        case "Cc" | "Cf":  # a lone control character has no picture; `clean` joins the spaces later
            return " " if character.isspace() else ""
        case "Cs":
            return "\ufffd"
        case _:
            return character
