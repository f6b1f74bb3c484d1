"""One case: what was measured + policy → outcome, with its reason in one sentence."""

from __future__ import annotations

import math
import statistics
from datetime import date

from ratchet import units
from ratchet.records.baseline import BaselineEntry
from ratchet.records.policy import Policy
from ratchet.records.run import CaseRun, Failure, Side
from ratchet.records.verdict import Comparison, Outcome
from ratchet.stats.comparison import FEWEST_DAYS, compare_stored, compare_workers, medians_ms

ROUGH = 0.03
"""A spread of single pairs beyond which something else than the code is being timed: launch latency, other work."""
STANDS_OUT = 3
"""Spreads by which a change must then differ from none."""

Finding = tuple[Outcome, str, Comparison | None]


def compared(case: CaseRun, confidence: float) -> Comparison | None:
    """What the pairs of a case show; None where there are too few, or nothing to compare."""
    if case.workload != case.reference_workload or not case.reference:
        return None
    return compare_workers(case.head, case.reference, confidence)


def judge_case(case: CaseRun, found: Comparison | None, policy: Policy, stored: BaselineEntry | None) -> Finding:
    """Decide one case of a check. ``found`` is what `compared` gave, and ``policy`` holds this case's share of false alarms.

    ``stored`` serves only where the reference could not be measured.
    """
    settled = _before_times(case)
    if settled is not None:
        return (*settled, None)
    if not case.in_reference:
        return Outcome.NEW, "The reference has no such case; it is timed alone.", None
    if case.workload and case.reference_workload and case.workload != case.reference_workload:
        what = "; ".join(case.reference_workload.differences(case.workload)[:3])
        return Outcome.CHANGED, f"The workload itself differs, so times do not compare ({what}).", None
    if not case.reference:
        return _against_stored(case, policy, stored)
    if found is None:
        broken = _broken(case, "reference")
        because = f" (the reference: {_phrase(broken.message)})" if broken else ""
        return Outcome.INCONCLUSIVE, f"Fewer than three pairs were measured{because}, too few for an interval.", None
    outcome, reason = decide(found, policy)
    return outcome, reason, found


def judge_alone(case: CaseRun) -> Finding:
    """A case of `ratchet run`, which compares nothing."""
    settled = _before_times(case)
    if settled is not None:
        return (*settled, None)
    return Outcome.MEASURED, "Timed alone.", None


def decide(found: Comparison, policy: Policy) -> tuple[Outcome, str]:
    """The rule. It takes evidence and the threshold to call a change. ``policy`` holds this case's share of false alarms.

    Regressed: slower by more than the gate, the interval excludes no change, and chance would do this too rarely. Unchanged:
    the interval shows that any slowdown is smaller than the gate. Neither: inconclusive, never shown as unchanged.
    """
    gate, goal = units.threshold(policy.regression), units.threshold(policy.improvement)
    rare = found.chance <= policy.false_alarm
    if found.ratio > 1 + policy.regression and found.low > 1 and rare and _stands_out(found, policy.regression):
        return Outcome.REGRESSED, f"Slower by {units.percent(found.ratio - 1, 2)}, past the gate of {gate}."
    least = min(policy.regression, policy.improvement)  # a gate that forgives much does not make noise an improvement
    if found.ratio <= 1 - policy.improvement and found.high < 1 and rare and _stands_out(found, least):
        return Outcome.IMPROVED, f"Takes {units.percent(1 - found.ratio, 2)} less time, past the threshold of {goal}."
    if found.high < 1 + policy.regression:
        return Outcome.UNCHANGED, f"Any slowdown is smaller than the gate of {gate}."
    if found.low > 1 + policy.regression:
        slower = units.percent(found.ratio - 1, 2)
        doubt = f"Slower by {slower}, but the {found.pairs} pairs differ so much that chance is not ruled out"
        return Outcome.INCONCLUSIVE, f"{doubt}: raise the budget, or quieten the machine."
    return (
        Outcome.INCONCLUSIVE,
        f"The interval reaches from {units.change(found.low)} to {units.change(found.high)}, across the gate of {gate} "
        f"(detectable here: {units.percent(found.detectable, 2)}): raise the budget, or quieten the machine.",
    )


def _stands_out(found: Comparison, threshold: float) -> bool:
    """Where single pairs differ by more than the threshold, it no longer keeps noise from being a change, and Student's t takes
    them to be normal, which such pairs rarely are: then a change must be much larger than what pairs differ by.
    """
    return found.spread <= max(threshold, ROUGH) or abs(math.log(found.ratio)) >= STANDS_OUT * found.spread


def decide_apart(found: Comparison, policy: Policy) -> tuple[Outcome, str]:
    """The rule for sides measured at different times, where nothing cancels: red only if the whole interval is past the gate."""
    outcome, reason = decide(found, policy)
    if outcome is Outcome.REGRESSED and found.low <= 1 + policy.regression:
        return Outcome.INCONCLUSIVE, "Slower, but not by more than separate times may differ: only taking turns can tell."
    return outcome, reason


def _before_times(case: CaseRun) -> tuple[Outcome, str] | None:
    """What is decided without looking at any time."""
    broken = _broken(case, "head")
    if broken is not None:
        return Outcome.FAILED, f"{broken.stage.capitalize()}: {_phrase(broken.message)}."
    if case.skipped is not None:
        return Outcome.SKIPPED, f"Skipped: {_phrase(case.skipped)}."
    if not case.in_head:
        return Outcome.MISSING, "The head no longer has this case."
    if case.unfit is not None:
        return Outcome.UNFIT, f"{_phrase(case.unfit)}."
    if not case.head:
        same = Outcome.IDENTICAL, "The same machine code, launched in the same way on both sides; it was not timed."
        return same if case.identical else (Outcome.UNFIT, "Nothing was measured.")
    return None


def _against_stored(case: CaseRun, policy: Policy, stored: BaselineEntry | None) -> Finding:
    broken = _broken(case, "reference")
    why = f"The reference could not be measured ({_phrase(broken.message)})" if broken else "There was no reference to measure"
    if stored is None:
        return Outcome.INCONCLUSIVE, f"{why}, and the baseline file has nothing for this machine.", None
    if case.workload != stored.workload:
        return Outcome.CHANGED, f"{why}, and the stored workload differs from this one.", None
    days = days_ms(stored)
    found = compare_stored(medians_ms(case.head), stored.pair_medians_ms, policy.confidence, days)
    stored_on = f"{stored.timestamp:%Y-%m-%d}"
    if found is None:
        return Outcome.INCONCLUSIVE, f"{why}, and too few medians are stored from {stored_on}.", None
    if found.source == "days":
        outcome, reason = decide_apart(found, policy)
        return outcome, f"{why}; against the milliseconds of {len(days)} earlier days: {reason}", found
    known = f"{len(days)} of the {FEWEST_DAYS} days needed to know how far days differ on this machine"
    return (
        Outcome.INCONCLUSIVE,
        f"{why}; against the milliseconds stored on {stored_on} it is {units.change(found.ratio)}, but history holds {known}.",
        found,
    )


def days_ms(stored: BaselineEntry) -> list[float]:
    """The median of the stored code on each day on which it was measured, in milliseconds."""
    by_date: dict[date, list[float]] = {}
    for day in stored.days:
        by_date.setdefault(day.timestamp.date(), []).append(day.median_ms)
    return [statistics.median(values) for values in by_date.values()]


def _broken(case: CaseRun, side: Side) -> Failure | None:
    return next((failure for failure in case.failures if failure.side == side), None)


def _phrase(text: str) -> str:
    """A message as part of a sentence: on one line, without a full stop of its own."""
    return " ".join(text.split()).rstrip(" .")
