"""How a published run ends: one state, which is the conclusion of its check run and the headline of its comment.

`ratchet.github` finds the gaps that only GitHub can show; `ratchet.core.report` asks for the state of a page. docs/github.md
lists all states, with what each does to a required check; a test publishes every one. The command ``/ratchet accept`` writes
acknowledgements of accepted regressions, and the job that judges a run again reads them. Pure: comments, permissions and labels
are arguments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ratchet.core.errors import Exit
from ratchet.core.judge.verdict import VERDICTS, ending
from ratchet.core.records.verdict import SLOWDOWNS, Outcome, ReportRecord
from ratchet.core.units import plural
from ratchet.github.event import Accept, parse_command
from ratchet.github.records import Acceptance, Comment, Conclusion


class PublishedState(Enum):
    """The end of a run, worst first."""

    NO_VERDICT = auto()
    REGRESSION = auto()
    """A case is proven slower, or gives a wrong result, or none."""
    TOO_LITTLE = auto()
    """Nothing was measured, or less than half of the cases."""
    UNDECIDED = auto()
    """A case is inconclusive, and the settings say that this fails."""
    SLOWER = auto()
    OTHER_REFERENCE = auto()
    LEFT_OUT = auto()
    """The baseline has cases that the run left out, or did not compare."""
    UNFIT = auto()
    STORED_REFERENCE = auto()
    """The reference could not be measured, so that stored times stand in for it."""
    REMOVED = auto()
    """The head has cases of the baseline no longer."""
    INCONCLUSIVE = auto()
    MUTED = auto()
    """A slowdown, of a case that the settings mute until a date."""
    NOT_COMPARED = auto()
    ACCEPTED = auto()
    PASS = auto()

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion of the check run."""
        if self.value <= PublishedState.UNDECIDED.value:
            return "failure"
        if self.value <= PublishedState.UNFIT.value:
            return "action_required"
        return "neutral" if self.value <= PublishedState.NOT_COMPARED.value else "success"


@dataclass(frozen=True)
class Gap:
    """Why a run in which nothing is slower is no success."""

    state: PublishedState
    sentence: str
    left_out: int = 0
    """Cases that the run does not have at all."""


_HELD = (Outcome.UNCHANGED, Outcome.IMPROVED, Outcome.IDENTICAL)
_IDLE = (Outcome.UNFIT, Outcome.SKIPPED)
_OPEN = {Outcome.SLOWER: PublishedState.SLOWER, Outcome.UNFIT: PublishedState.UNFIT}


def state_of(report: ReportRecord | None, accepted: Collection[str], gaps: Iterable[Gap]) -> PublishedState:
    """Return the worst state that the report or a gap gives; the slowdowns of the ``accepted`` cases do not count."""
    return PublishedState.NO_VERDICT if report is None else _worst(report, accepted, every_gap(report, gaps))


def _worst(report: ReportRecord, accepted: Collection[str], gaps: Iterable[Gap]) -> PublishedState:
    if not report.cases:
        return PublishedState.NO_VERDICT
    if report.verdict == "regression":
        return PublishedState.REGRESSION
    silenced = any(case.is_silenced for case in report.cases if case.name not in accepted)
    cases = [case for case in report.cases if case.name not in accepted and not case.is_silenced]
    outcomes = {case.outcome for case in cases}
    states = [gap.state for gap in gaps]
    states += [state for outcome, state in _OPEN.items() if outcome in outcomes]
    if Outcome.INCONCLUSIVE in outcomes:
        states.append(PublishedState.UNDECIDED if report.policy.on_inconclusive == "fail" else PublishedState.INCONCLUSIVE)
    states += [PublishedState.MUTED] if silenced else []
    held = PublishedState.PASS if outcomes & {*_HELD} else PublishedState.NOT_COMPARED
    return min([*states, PublishedState.ACCEPTED if accepted else held], key=lambda state: state.value)


def every_gap(report: ReportRecord, gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return the gaps, and those that the report itself has: too little was measured, or beside stored times alone.

    At least half of the cases have to be measured. Those that the head removed do not count; new ones do, and so do those that
    the run left out.
    """
    listed = [*gaps]
    if any(case.comparison and not case.comparison.is_paired for case in report.cases):
        why = "Compared with stored times alone, since the reference could not be measured."
        listed.append(Gap(PublishedState.STORED_REFERENCE, why))
    counts: Counter[Outcome] = Counter(case.outcome for case in report.cases if case.outcome is not Outcome.MISSING)
    idle, left_out = {outcome: counts[outcome] for outcome in _IDLE}, sum(gap.left_out for gap in listed)
    measured, every = counts.total() - sum(idle.values()), counts.total() + left_out
    if measured * 2 >= every and measured:
        return tuple(listed)
    words = [f"{count} {outcome.value.lower()}" for outcome, count in idle.items() if count]
    words += [f"{left_out} left out"] if left_out else []
    why = f": {', '.join(words)}" if words else ""
    some = f"Only {measured} of {plural(every, 'case')} {'was' if measured == 1 else 'were'} measured, less than half{why}."
    return (*listed, Gap(PublishedState.TOO_LITTLE, some if measured else f"Nothing was measured{why}."))


def with_gaps(report: ReportRecord, accepted: Collection[str], gaps: Iterable[Gap]) -> ReportRecord:
    """Return the report without a pass where a gap forbids one. The gap that decides is the headline, the others are warnings."""
    listed = every_gap(report, gaps)
    state = _worst(report, accepted, listed)
    first = next((gap for gap in listed if gap.state is state), None)
    warnings = (*(gap.sentence for gap in listed if gap is not first), *report.warnings)
    ends: dict[str, Any] = {}
    if first and state.conclusion == "neutral":
        ends = {"headline": f"{first.sentence} {report.headline}"}
    elif first:
        ends = {"verdict": "not measured", "exit_code": int(Exit.NOT_MEASURED), "headline": first.sentence}
    return report.model_copy(update={**ends, "warnings": warnings})


# Regressions that were accepted on purpose: which acceptances hold, and the verdict that is left. An acceptance stands on two
# comments: the person's command, and our acknowledgement, which binds it to the head of that moment. Both are read again at each
# publication, and count only while neither has changed.

MARKER = "<!-- ratchet:accept "
"""The start of our acknowledgements; JSON and ` -->` follow."""
LABEL = "ratchet:accept"
MOST = 50
"""Most acceptances in one acknowledgement."""
LONGEST = 60_000
"""Most characters of its JSON: below the 65,536 that GitHub allows in a comment."""
WRITERS = frozenset({"admin", "maintain", "write"})


def acknowledgement(acceptances: Sequence[Acceptance]) -> str:
    """Return the first line of the comment that acknowledges them: one HTML comment, whatever the texts hold."""
    document = {"acceptances": [acceptance.model_dump(mode="json") for acceptance in acceptances]}
    text = json.dumps(document, separators=(",", ":"))  # ASCII alone
    for mark in ("<", ">", "&", "--"):
        text = text.replace(mark, f"{mark[1:]}\\u{ord(mark[0]):04x}")
    return f"{MARKER}{text} -->"


def read_acknowledgement(body: str) -> tuple[Acceptance, ...]:
    """Read the acceptances in a comment's first line; none if it is not as `acknowledgement` writes it."""
    first = body.partition("\n")[0].rstrip("\r")
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
    """Read the acknowledgements in our own comments, as we wrote them.

    A copy by anybody else does not count, nor does an edited one: people who may write can edit the comments of a bot.
    """
    ours = [comment for comment in comments if comment.author == bot and comment.updated_at == comment.created_at]
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


def with_acceptances(report: ReportRecord, acceptances: Iterable[Acceptance]) -> tuple[ReportRecord, tuple[Acceptance, ...]]:
    """Judge the report as if the accepted regressions had been measured without a comparison.

    Return it, and the acceptances of a regression in it. The outcome of such a case stays REGRESSED, since it is still slower.
    """
    red = {case.name for case in report.cases if case.outcome in SLOWDOWNS}
    used = tuple(acceptance for acceptance in acceptances if acceptance.case in red)
    if not used:
        return report, ()
    code, text = ending(report.cases, report.policy, {acceptance.case for acceptance in used})
    changes: dict[str, Any] = {"verdict": VERDICTS[code], "exit_code": int(code), "headline": text}
    return report.model_copy(update=changes), used


def _is_backed(acceptance: Acceptance, comments: Mapping[int, Comment], labels: frozenset[str]) -> bool:
    if acceptance.comment is None:
        return LABEL in labels
    comment = comments.get(acceptance.comment)
    if comment is None or comment.author != acceptance.by or comment.created_at != comment.updated_at:
        return False
    command = parse_command(comment.body)
    return isinstance(command, Accept) and acceptance.case in command.cases and command.reason == acceptance.reason


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object. Raises ValueError where one appears twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError
    return fields
