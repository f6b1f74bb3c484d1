"""How a published run ends: one state, which is the conclusion of its check run and the headline of its comment. Pure.

`ratchet.commands.github` finds the gaps that only GitHub can show; `ratchet.report` asks for the state of a page. docs/github.md
has a table of all states, with what each does to a required check and why; a test publishes every row of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal

from ratchet.errors import Exit
from ratchet.records.verdict import Outcome, ReportRecord
from ratchet.units import plural

Conclusion = Literal["success", "failure", "neutral", "action_required"]
"""Of a check run. GitHub lets ``success`` and ``neutral`` satisfy a required check, and the other two block it."""


class State(Enum):
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
    NOT_COMPARED = auto()
    ACCEPTED = auto()
    PASS = auto()

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion of the check run."""
        if self.value <= State.UNDECIDED.value:
            return "failure"
        if self.value <= State.UNFIT.value:
            return "action_required"
        return "neutral" if self.value <= State.NOT_COMPARED.value else "success"


@dataclass(frozen=True)
class Gap:
    """Why a run in which nothing is slower is no success."""

    state: State
    sentence: str
    left_out: int = 0
    """Cases that the run does not have at all."""


_HELD = (Outcome.UNCHANGED, Outcome.IMPROVED, Outcome.IDENTICAL)
_IDLE = (Outcome.UNFIT, Outcome.SKIPPED)
_OPEN = {Outcome.SLOWER: State.SLOWER, Outcome.UNFIT: State.UNFIT}


def state_of(report: ReportRecord | None, accepted: Collection[str], gaps: Iterable[Gap]) -> State:
    """Return the worst state that the report or a gap gives; the slowdowns of the ``accepted`` cases do not count."""
    if report is None or not report.cases:
        return State.NO_VERDICT
    if report.verdict == "regression":
        return State.REGRESSION
    cases = [case for case in report.cases if case.name not in accepted]
    outcomes = {case.outcome for case in cases}
    states = [gap.state for gap in every_gap(report, gaps)]
    states += [state for outcome, state in _OPEN.items() if outcome in outcomes]
    if Outcome.INCONCLUSIVE in outcomes:
        states.append(State.UNDECIDED if report.policy.on_inconclusive == "fail" else State.INCONCLUSIVE)
    held = State.PASS if outcomes & {*_HELD} else State.NOT_COMPARED
    return min([*states, State.ACCEPTED if accepted else held], key=lambda state: state.value)


def every_gap(report: ReportRecord, gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return the gaps, and those that the report itself has: too little was measured, or beside stored times alone.

    At least half of the cases have to be measured. Those that the head removed do not count; new ones do, and so do those that
    the run left out.
    """
    listed = [*gaps]
    if any(case.comparison and not case.comparison.is_paired for case in report.cases):
        why = "Compared with stored times alone, since the reference could not be measured."
        listed.append(Gap(State.STORED_REFERENCE, why))
    counts: Counter[Outcome] = Counter(case.outcome for case in report.cases if case.outcome is not Outcome.MISSING)
    idle, left_out = {outcome: counts[outcome] for outcome in _IDLE}, sum(gap.left_out for gap in listed)
    measured, every = counts.total() - sum(idle.values()), counts.total() + left_out
    if measured * 2 >= every and measured:
        return tuple(listed)
    words = [f"{count} {outcome.value.lower()}" for outcome, count in idle.items() if count]
    words += [f"{left_out} left out"] if left_out else []
    why = f": {', '.join(words)}" if words else ""
    some = f"Only {measured} of {plural(every, 'case')} {'was' if measured == 1 else 'were'} measured, less than half{why}."
    return (*listed, Gap(State.TOO_LITTLE, some if measured else f"Nothing was measured{why}."))


def with_gaps(report: ReportRecord, accepted: Collection[str], gaps: Iterable[Gap]) -> ReportRecord:
    """Return the report without a pass where a gap forbids one. The gap that decides is the headline, the others are warnings."""
    listed = every_gap(report, gaps)
    state = state_of(report, accepted, gaps)
    first = next((gap for gap in listed if gap.state is state), None)
    warnings = (*(gap.sentence for gap in listed if gap is not first), *report.warnings)
    ends: dict[str, Any] = {}
    if first and state.conclusion == "neutral":
        ends = {"headline": f"{first.sentence} {report.headline}"}
    elif first:
        ends = {"verdict": "not measured", "exit_code": int(Exit.NOT_MEASURED), "headline": first.sentence}
    return report.model_copy(update={**ends, "warnings": warnings})
