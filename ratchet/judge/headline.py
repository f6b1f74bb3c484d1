"""The sentence that a reader understands in three seconds: how many cases are slower, the worst one, and by how much.

It is the title of a check run and the first line of a comment and a report, which add the cause that a profile shows
(`ratchet.report.words.headline`). So a sentence about slower or faster cases ends with the case that it names. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from ratchet import units
from ratchet.errors import Exit
from ratchet.records.run import Policy
from ratchet.records.verdict import CaseVerdict, Outcome

_NO_TIMES = (Outcome.UNFIT, Outcome.SKIPPED, Outcome.MISSING)


def headline(cases: Sequence[CaseVerdict], policy: Policy, code: Exit, accepted: int = 0) -> str:
    """Return the sentence about ``cases``; ``accepted`` more are slower, and a person has accepted them."""
    groups = {outcome: [case for case in cases if case.outcome is outcome] for outcome in Outcome}
    red, failed, slower = (groups[outcome] for outcome in (Outcome.REGRESSED, Outcome.FAILED, Outcome.SLOWER))
    of = f"of {units.plural(len(cases) + accepted, 'case')}"
    taken = _also((accepted, "accepted"))
    if red:
        by, than, name = max(((*_slowdown(case, policy), case.name) for case in red), key=itemgetter(0))
        more = _also((len(slower), "more slower but not proven"), (len(failed), "failed"))
        return f"{len(red)} {of} slower{more}{taken}; worst: {name} {units.slowdown(by)}{than}."
    if failed:
        unproven = _also((len(slower), "slower but not proven"))
        return f"{len(failed)} {of} failed{unproven}{taken}{_named(failed)}"
    if slower:
        worst = max(slower, key=_ratio)
        return f"{len(slower)} {of} slower, but not proven{taken}; worst: {worst.name} {units.slowdown(_ratio(worst))}."
    if open_cases := groups[Outcome.UNFIT] or groups[Outcome.INCONCLUSIVE]:
        return _without_answer(open_cases, cases, of, taken)
    over = f"by over {units.threshold(policy.regression)}"
    if faster := groups[Outcome.IMPROVED]:
        best = min(faster, key=_ratio)
        return f"{len(faster)} {of} faster, none slower {over}{taken}; best: {best.name} {units.slowdown(_ratio(best))}."
    accepted_alone = f"{accepted} {of} slower, but accepted; no other slower {over}."
    return accepted_alone if accepted else f"{_without_change(cases, over, code)}: {_counted(cases)}."


def _without_answer(group: Sequence[CaseVerdict], cases: Sequence[CaseVerdict], of: str, taken: str) -> str:
    if group[0].outcome is Outcome.UNFIT:
        nothing = all(case.outcome in _NO_TIMES for case in cases) and not taken
        said = f"Nothing was measured: {_counted(cases)}" if nothing else f"{len(group)} {of} could not be measured{taken}"
        return f"{said}{_named(group)}"
    widest = max(group, key=lambda case: case.comparison.high if case.comparison else math.inf)
    between = ""
    if widest.comparison:
        between = f": anything from {units.change(widest.comparison.low, 1)} to {units.change(widest.comparison.high, 1)}"
    return f"{len(group)} {of} inconclusive{taken}, such as {widest.name}{between}."


def _named(group: Sequence[CaseVerdict]) -> str:
    """Name the first case, and its reason last: where the reason stands right below, the sentence does without it."""
    return f"{', such as' if len(group) > 1 else ':'} {group[0].name}. {group[0].reason}"


def _without_change(cases: Sequence[CaseVerdict], over: str, code: Exit) -> str:
    outcomes = {case.outcome for case in cases}
    if code is Exit.NOT_MEASURED:
        return "Nothing was measured"
    if outcomes <= {Outcome.MEASURED, Outcome.SKIPPED}:
        return "Timed without a comparison"
    if outcomes <= {Outcome.NEW, Outcome.CHANGED, Outcome.MISSING, Outcome.SKIPPED}:
        return "Nothing to compare"
    return "Nothing changed" if outcomes == {Outcome.IDENTICAL} else f"No case is slower {over}"


def _ratio(case: CaseVerdict) -> float:
    return case.comparison.ratio if case.comparison else 1.0


def _slowdown(case: CaseVerdict, policy: Policy) -> tuple[float, str]:
    """Return the ratio that made a case red, and what it is slower than where that is not the reference."""
    own = _ratio(case)
    if case.best and own <= 1 + policy.regression:
        return case.best.ratio, " against the best commit"
    return own, ""


def _also(*counts: tuple[int, str]) -> str:
    return "".join(f", {count} {what}" for count, what in counts if count)


def _counted(cases: Sequence[CaseVerdict]) -> str:
    counts = Counter(case.outcome for case in cases)
    return ", ".join(f"{counts[outcome]} {outcome.value.lower()}" for outcome in Outcome if counts[outcome]) or "no case"
