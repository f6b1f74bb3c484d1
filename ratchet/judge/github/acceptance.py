"""Which regressions a person with write access took on purpose, and what is left of the verdict then.

An acceptance stands on two comments: the person's command, and our acknowledgement, which binds it to the head of that
moment. Both are read again at each publication, and count only as long as nothing about them changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ratchet.errors import Exit
from ratchet.judge.github.command import Accept, parse_command
from ratchet.judge.verdict import exit_code, headline
from ratchet.records.acceptance import Acceptance
from ratchet.records.verdict import SLOWDOWNS, CaseVerdict, Outcome, ReportRecord

if TYPE_CHECKING:
    from ratchet.records.forge import Comment

MARKER = "<!-- ratchet:accept "
"""Our acknowledgements begin with it; JSON follows, and then ` -->`."""
LABEL = "ratchet:accept"
MOST = 50
"""Acceptances of one acknowledgement."""
LONGEST = 60_000
"""Characters of its JSON."""
WRITERS = frozenset({"admin", "maintain", "write"})


@dataclass(frozen=True)
class Accepted:
    """A report in which accepted regressions fail nothing; their outcome stays REGRESSED, for they are slower still."""

    report: ReportRecord
    acceptances: tuple[Acceptance, ...]
    """Those that took a regression of this report."""
    unused: tuple[Acceptance, ...]
    """Those whose case is not red here, or fails for another reason than its time."""


def acknowledgement(acceptances: Sequence[Acceptance]) -> str:
    """The first line of the comment that acknowledges them: one HTML comment, whatever the texts hold."""
    document = {"acceptances": [each.model_dump(mode="json") for each in acceptances]}
    text = json.dumps(document, separators=(",", ":"))  # ASCII alone
    for mark in ("<", ">", "&", "--"):
        text = text.replace(mark, f"{mark[1:]}\\u{ord(mark[0]):04x}")
    return f"{MARKER}{text} -->"


def read_acknowledgement(body: str) -> tuple[Acceptance, ...]:
    """The acceptances in a comment's first line; none where it holds anything else than `acknowledgement` writes."""
    first = body.split("\n", 1)[0].rstrip("\r")
    text = first.removeprefix(MARKER).removesuffix(" -->")
    if len(first) - len(text) != len(MARKER) + len(" -->") or len(text) > LONGEST:
        return ()
    try:
        document = json.loads(text, object_pairs_hook=_without_twins)
        listed = document["acceptances"] if isinstance(document, dict) and len(document) == 1 else None
        if not isinstance(listed, list) or len(listed) > MOST:
            return ()
        return tuple(Acceptance.model_validate_json(json.dumps(each), strict=True) for each in listed)
    except (ValueError, KeyError, RecursionError):  # pydantic's ValidationError is a ValueError
        return ()


def acknowledged_in(comments: Iterable[Comment], bot: str) -> tuple[Acceptance, ...]:
    """What our own comments acknowledge. A copy by anybody else says nothing."""
    return tuple(each for comment in comments if comment.author == bot for each in read_acknowledgement(comment.body))


def believed(
    acknowledged: Iterable[Acceptance],
    comments_by_id: Mapping[int, Comment],
    permissions: Mapping[str, str],
    head_sha: str,
    labels: Iterable[str],
) -> tuple[Acceptance, ...]:
    """Those that hold now, the latest of each case.

    ``acknowledged`` comes from comments of our own bot alone (`acknowledged_in`); ``permissions`` has what each person may do
    now, by login. Each needs the very head of the pull request and a person who may write; and the person's comment, still
    there, never edited, saying the same of this case, or else the label.
    """
    present = frozenset(labels)
    found: dict[str, Acceptance] = {}
    for each in acknowledged:
        holds = each.sha == head_sha and permissions.get(each.by) in WRITERS and _is_backed(each, comments_by_id, present)
        if holds and (each.case not in found or each.at >= found[each.case].at):
            found[each.case] = each
    return tuple(found.values())


def with_acceptances(report: ReportRecord, acceptances: Iterable[Acceptance]) -> Accepted:
    """The report judged as if the accepted regressions had been measured without a comparison."""
    offered = tuple(acceptances)
    red = {case.name for case in report.cases if case.outcome in SLOWDOWNS}
    used = tuple(each for each in offered if each.case in red)
    unused = tuple(each for each in offered if each.case not in red)
    names = {each.case for each in used}
    if not names:
        return Accepted(report, (), unused)
    others = tuple(case for case in report.cases if case.name not in names)
    counts = Counter(case.outcome for case in others) + Counter({Outcome.MEASURED: len(names)})
    code = exit_code(counts, report.policy)
    changes: dict[str, Any] = {
        "verdict": {Exit.PASS: "pass", Exit.REGRESSION: "regression"}.get(code, "not measured"),
        "exit_code": int(code),
        "headline": _headline(others, report, code, [case for case in report.cases if case.name in names]),
    }
    return Accepted(report.model_copy(update=changes), used, unused)


def _headline(others: tuple[CaseVerdict, ...], report: ReportRecord, code: Exit, taken: Sequence[CaseVerdict]) -> str:
    kind = "regression" if all(case.outcome is Outcome.REGRESSED for case in taken) else "slowdown"
    what = f"{len(taken)} {kind}{'s' if len(taken) > 1 else ''}"
    if code is Exit.PASS and not others:
        return f"Nothing but {what}, accepted on purpose."
    return f"{headline(others, report.policy, code).removesuffix('.')}; {what} accepted on purpose."


def _is_backed(each: Acceptance, comments: Mapping[int, Comment], labels: frozenset[str]) -> bool:
    if each.comment is None:
        return LABEL in labels
    comment = comments.get(each.comment)
    if comment is None or comment.author != each.by or comment.created_at != comment.updated_at:
        return False
    said = parse_command(comment.body)
    return isinstance(said, Accept) and each.case in said.cases and said.reason == each.reason


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands twice")
    return fields
