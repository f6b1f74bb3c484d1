"""Accept regressions on purpose: which acceptances hold, and the verdict that is left.

An acceptance stands on two comments: the person's command, and our acknowledgement, which binds it to the head of that
moment. Both are read again at each publication, and count only while neither has changed.

The command ``/ratchet accept`` writes acknowledgements; the job that judges a run again reads them. Pure: comments,
permissions and labels are arguments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.errors import Exit
from ratchet.judge.github.command import Accept, parse_command
from ratchet.judge.headline import headline
from ratchet.judge.verdict import exit_code
from ratchet.records.forge import Acceptance, Comment
from ratchet.records.verdict import SLOWDOWNS, Outcome, ReportRecord

MARKER = "<!-- ratchet:accept "
"""The start of our acknowledgements; JSON and ` -->` follow."""
LABEL = "ratchet:accept"
MOST = 50
"""Most acceptances in one acknowledgement."""
LONGEST = 60_000
"""Most characters of its JSON: below the 65,536 that GitHub allows in a comment."""
WRITERS = frozenset({"admin", "maintain", "write"})


@dataclass(frozen=True)
class AcceptedReport:
    """A report in which accepted regressions fail nothing; their outcome stays REGRESSED, since they are still slower."""

    report: ReportRecord
    acceptances: tuple[Acceptance, ...]
    """Acceptances of a regression in this report."""
    unused: tuple[Acceptance, ...]
    """Acceptances of a case that is not red here, or fails for another reason than its time."""


def acknowledgement(acceptances: Sequence[Acceptance]) -> str:
    """Return the first line of the comment that acknowledges them: one HTML comment, whatever the texts hold."""
    document = {"acceptances": [acceptance.model_dump(mode="json") for acceptance in acceptances]}
    text = json.dumps(document, separators=(",", ":"))  # ASCII alone
    for mark in ("<", ">", "&", "--"):
        text = text.replace(mark, f"{mark[1:]}\\u{ord(mark[0]):04x}")
    return f"{MARKER}{text} -->"


def read_acknowledgement(body: str) -> tuple[Acceptance, ...]:
    """Read the acceptances in a comment's first line; none if it is not as `acknowledgement` writes it."""
    first = body.split("\n", 1)[0].rstrip("\r")
    text = first.removeprefix(MARKER).removesuffix(" -->")
    if len(first) - len(text) != len(MARKER) + len(" -->") or len(text) > LONGEST:
        return ()
    try:
        document = json.loads(text, object_pairs_hook=_unique_fields)
        listed = document["acceptances"] if isinstance(document, dict) and len(document) == 1 else None
        if not isinstance(listed, list) or len(listed) > MOST:
            return ()
        return tuple(Acceptance.model_validate_json(json.dumps(fields), strict=True) for fields in listed)
    except (ValueError, KeyError, RecursionError):  # pydantic's ValidationError is a ValueError
        return ()


def acknowledged_in(comments: Iterable[Comment], bot: str) -> tuple[Acceptance, ...]:
    """Read the acknowledgements in our own comments; a copy by anybody else does not count."""
    ours = [comment for comment in comments if comment.author == bot]
    return tuple(acceptance for comment in ours for acceptance in read_acknowledgement(comment.body))


def believed(
    acknowledged: Iterable[Acceptance],
    comments_by_id: Mapping[int, Comment],
    permissions: Mapping[str, str],
    head_sha: str,
    labels: Iterable[str],
) -> tuple[Acceptance, ...]:
    """Return the acceptances that hold now, the latest of each case.

    ``acknowledged`` comes from comments of our own bot alone (`acknowledged_in`); ``permissions`` is what each person may do now,
    by login. An acceptance needs the present head of the pull request, a person who may write, and either the person's comment,
    still there, never edited and saying the same of this case, or the label.
    """
    present = frozenset(labels)
    latest: dict[str, Acceptance] = {}
    for acceptance in acknowledged:
        case, may_write = acceptance.case, permissions.get(acceptance.by) in WRITERS
        holds = acceptance.sha == head_sha and may_write and _is_backed(acceptance, comments_by_id, present)
        if holds and (case not in latest or acceptance.at >= latest[case].at):
            latest[case] = acceptance
    return tuple(latest.values())


def with_acceptances(report: ReportRecord, acceptances: Iterable[Acceptance]) -> AcceptedReport:
    """Judge the report as if the accepted regressions had been measured without a comparison."""
    offered = tuple(acceptances)
    red = {case.name for case in report.cases if case.outcome in SLOWDOWNS}
    used = tuple(acceptance for acceptance in offered if acceptance.case in red)
    unused = tuple(acceptance for acceptance in offered if acceptance.case not in red)
    names = {acceptance.case for acceptance in used}
    if not names:
        return AcceptedReport(report, (), unused)
    others = tuple(case for case in report.cases if case.name not in names)
    code = exit_code(Counter(case.outcome for case in others) + Counter({Outcome.MEASURED: len(names)}), report.policy)
    text = headline(others, report.policy, code, accepted=len(names))
    verdict = {Exit.PASS: "pass", Exit.REGRESSION: "regression"}.get(code, "not measured")
    changes: dict[str, Any] = {"verdict": verdict, "exit_code": int(code), "headline": text}
    return AcceptedReport(report.model_copy(update=changes), used, unused)


def _is_backed(acceptance: Acceptance, comments: Mapping[int, Comment], labels: frozenset[str]) -> bool:
    if acceptance.comment is None:
        return LABEL in labels
    comment = comments.get(acceptance.comment)
    if comment is None or comment.author != acceptance.by or comment.created_at != comment.updated_at:
        return False
    command = parse_command(comment.body)
    return isinstance(command, Accept) and acceptance.case in command.cases and command.reason == acceptance.reason


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field appears twice")
    return fields
