"""The meaning of GitHub's events and of people's comments. Pure: the caller talks to GitHub.

The commands that run in a workflow call `parse_event` with the content of ``GITHUB_EVENT_PATH``. The job that answers comments
calls `parse_command`, and so does `state.py` when it checks that a comment still says the same.

A stranger may have chosen every text in a payload: titles, branches, comments. A field that is missing, of another type or of an
impossible shape ends in UsageError, with the name of the field and never its content; no error repeats any text of a comment.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from ratchet.core.errors import UsageError
from ratchet.core.records.run import UNSEEN
from ratchet.github.records import LONGEST_CASE, LONGEST_REASON

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONGEST = 1024
"""Most characters of the name of a branch, workflow, label or input."""
Text = Annotated[str, StringConstraints(max_length=_LONGEST)]
Body = Annotated[str, StringConstraints(max_length=262_144)]
"""GitHub allows 65,536 characters, some of which count as more than one here."""
Id = Annotated[int, Field(gt=0, lt=2**63)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")]


def _at(field: str, *inner: str) -> Any:
    return Field(validation_alias=AliasPath(field, *inner))


class _Payload(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class ChangeEvent(_Payload):
    """Something happened to a pull request, or a merge queue wants a check. GitHub's API says the rest."""

    action: Text


class PushEvent(_Payload):
    """A branch or tag moved."""

    before: Sha
    """All zeros where there was none."""


class WorkflowRunEvent(_Payload):
    """A run of another workflow ended. GitHub's API says the rest."""

    run_id: Id = _at("workflow_run", "id")
    attempt: Id = Field(default=1, validation_alias=AliasPath("workflow_run", "run_attempt"))


class CommentEvent(_Payload):
    """A comment under an issue or a pull request."""

    action: Text
    comment_id: Id = _at("comment", "id")
    number: Id = _at("issue", "number")
    author: Text = _at("comment", "user", "login")
    body: Body = _at("comment", "body")
    pull_request: Any = Field(default=None, validation_alias=AliasPath("issue", "pull_request"))
    """None under an issue."""


class LabelEvent(_Payload):
    """A label was put on a pull request, or taken off."""

    action: Text
    number: Id = _at("pull_request", "number")
    label: Text = _at("label", "name")
    actor: Text = _at("sender", "login")
    head_sha: Sha = _at("pull_request", "head", "sha")


class DispatchEvent(_Payload):
    """A person or a workflow started the workflow with these inputs, each as text."""

    actor: Text = _at("sender", "login")
    inputs: dict[str, str] = {}

    @field_validator("inputs", mode="before")
    @classmethod
    def _as_texts(cls, value: object) -> dict[str, str]:
        """Turn every input into text: some runner versions give a ticked box as true, and an input without a value as null."""
        if value is not None and not (isinstance(value, dict) and all(isinstance(name, str) for name in value)):
            raise ValueError("it is not an object")
        texts = {name: str(v).lower() if isinstance(v, bool) else "" if v is None else v for name, v in (value or {}).items()}
        if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts.values()):
            raise ValueError("it holds something else than short texts")
        return texts


Event = ChangeEvent | PushEvent | WorkflowRunEvent | CommentEvent | LabelEvent | DispatchEvent
_KINDS: dict[str, type[Event]] = {
    "pull_request": ChangeEvent,
    "pull_request_target": ChangeEvent,
    "merge_group": ChangeEvent,
    "push": PushEvent,
    "workflow_run": WorkflowRunEvent,
    "issue_comment": CommentEvent,
    "workflow_dispatch": DispatchEvent,
}


def parse_event(name: str, payload: Mapping[str, object]) -> Event:
    """Read the payload of the event ``name`` (``GITHUB_EVENT_NAME``).

    Raises UsageError for an event that ratchet does not handle, and for a payload that GitHub does not write.
    """
    if name not in _KINDS:
        raise UsageError("ratchet does not handle this event.", f"It handles {', '.join(sorted(_KINDS))}.")
    try:
        event = _KINDS[name].model_validate(payload)
        if isinstance(event, ChangeEvent) and event.action in ("labeled", "unlabeled"):
            event = LabelEvent.model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"The payload of the event {name} is not as GitHub writes it: {place}: {first['msg']}.",
            "Run it in a workflow, where GITHUB_EVENT_PATH names the event's payload.",
        ) from None
    return event


# The command in a comment: ``/ratchet accept CASE… reason`` or ``/ratchet profile CASE…``.

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
    lines = [line for line in _plain_lines(body[:LONGEST_BODY]) if line.startswith(_WORD) and line.split()[0] == _WORD]
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
        raise UsageError(f"It names {len(cases)} cases; one comment may name at most {MOST_CASES}.")
    if words[0] == "profile":
        if rest:
            raise UsageError(f"`/ratchet profile` takes cases and nothing else. {USAGE}")
        return ProfileWanted(cases)
    reason = " ".join(rest[1:] if rest[:1] == ["--"] else rest)
    if not any(character.isalnum() for character in reason):
        raise UsageError("A regression is accepted for a reason, and there is none: say why after the cases, on the same line.")
    if len(reason) > LONGEST_REASON:
        raise UsageError(f"The reason has {len(reason)} characters; at most {LONGEST_REASON} are allowed.")
    return Accept(cases, reason)


def is_case(word: str) -> bool:
    """Return whether it can be the full name of a case: ``benchmark/config``, without patterns."""
    parts = word.split("/")
    is_plain = all(
        (character.isalnum() and character not in UNSEEN) or character in "_-.+" for part in parts for character in part
    )
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
