"""One case: what was measured + what it takes to believe a change → outcome, with its reason in one sentence.

`verdict.py` calls it for every case of a run, `sequential.py` while the run is still measured, `replay.py` for simulated
checks, and the tuner for its finalists. Pure.

The rule, for a case that was timed in pairs:

1. REGRESSED takes all of: the estimate is past the gate; the interval excludes no change; there are 20 pairs or more, which in
   noise count only as far as they are independent; an exact randomisation test over them has a p-value of at most the level,
   0.09 % / cases / looks; and so has Student's t over the sessions, of which there are at least four. The hosts of a session are
   started on their own. IMPROVED is the mirror image, past its own threshold.
2. The same is asked about the total, the mean of everything that was timed, with 0.01 % / cases / looks.
3. SLOWER: the whole interval is past the gate, or the total is with a p-value of at most five times the level, and some of that
   is missing. It is never a pass.
4. UNCHANGED: the interval is below the gate, and so is the upper end of the 99.3 % interval: cases are looked at several times.
   And nothing that is slow now and then speaks against it.
5. INCONCLUSIVE: anything else.

Where the GPU waited for the host, the kernels were also timed alone. If these regressed by the same rule, a case that is
INCONCLUSIVE or SLOWER by the time of its calls is REGRESSED.

Assumptions, and what happens where one fails, stand in docs/decisions/0003-rule.md.
"""

from __future__ import annotations

import math
import statistics
from datetime import date

from ratchet.core import units
from ratchet.core.judge.comparison import FEWEST_DAYS, compare_kernels, compare_stored, compare_workers, medians_ms
from ratchet.core.judge.estimate import BOUND
from ratchet.core.judge.evidence import CaseThresholds
from ratchet.core.judge.reasons import describe_total, not_proven, phrase, settles, waiting_shares
from ratchet.core.records.baseline import BaselineEntry
from ratchet.core.records.run import CaseRun, Policy
from ratchet.core.records.verdict import SLOWDOWNS, Comparison, Outcome, Total

TOTAL_SLOWER, TOTAL_DOUBTFUL = 5, 0.05
"""A total past the gate is SLOWER up to a p-value of so many times the level of a change; up to the other it is no pass."""

Judgement = tuple[Outcome, str, Comparison | None]


def compared(case: CaseRun, confidence: float) -> Comparison | None:
    """Compare the two sides of a case; None where there are too few pairs, or nothing to compare."""
    if case.workload != case.reference_workload or not case.reference:
        return None
    return compare_workers(case.head, case.reference, confidence)


def judge_case(
    case: CaseRun, comparison: Comparison | None, thresholds: CaseThresholds, stored: BaselineEntry | None
) -> Judgement:
    """Decide one case of a check. ``comparison`` is what `compared` gave.

    ``stored`` serves only where the reference could not be measured.
    """
    settled = _before_times(case) or over_limit(case, thresholds.policy)
    if settled is not None:
        return (*settled, None)
    if not case.in_reference:
        return Outcome.NEW, "The reference has no such case; it is timed alone.", None
    if case.workload and case.reference_workload and case.workload != case.reference_workload:
        what = "; ".join(case.reference_workload.differences(case.workload)[:3])
        return Outcome.CHANGED, f"The workload itself differs, so times do not compare ({what}).", None
    if not case.reference:
        return _against_stored(case, thresholds, stored)
    if comparison is None:
        broken = case.failure("reference")
        because = f" (the reference: {phrase(broken.message)})" if broken else ""
        next_step = "" if broken else ": raise --pairs"
        return Outcome.INCONCLUSIVE, f"Fewer than three pairs were measured{because}, too few for an interval{next_step}.", None
    outcome, reason = decide(comparison, thresholds)
    past_gate, deciding = 1 + thresholds.policy.regression, comparison
    if comparison.total and outcome in SLOWDOWNS and _decide_typical(comparison, thresholds)[0] not in SLOWDOWNS:
        deciding = _of_total(comparison, comparison.total)
    elif outcome is Outcome.INCONCLUSIVE and comparison.upper_bound >= past_gate and not _is_too_coarse(comparison, past_gate):
        waits = bool(waiting_shares(case))
        reason = f"{reason} {settles(comparison, thresholds.policy, case.pair_s, waits_for_host=waits)}"
    kernels = slower_kernels(case, thresholds) if outcome in (Outcome.INCONCLUSIVE, Outcome.SLOWER) else None
    return kernels or (outcome, reason, deciding)


def over_limit(case: CaseRun, policy: Policy) -> tuple[Outcome, str] | None:
    """Fail a timed head of which a call holds more memory than its workload allows, or else the policy; None if it does not."""
    limit = policy.memory_limit_bytes if case.memory_limit_bytes is None else case.memory_limit_bytes
    peak = max(worker.peak_memory_bytes for worker in case.head)
    if limit is None or peak <= limit:
        return None
    other = max((0, *(worker.peak_memory_bytes for worker in case.reference)))
    before = f"; the reference takes {units.size(other)}" if other else ""
    return Outcome.FAILED, f"Memory: a call takes {units.size(peak)}, more than its limit of {units.size(limit)}{before}."


def judge_alone(case: CaseRun, policy: Policy) -> Judgement:
    """Decide one case of `ratchet run`, which compares nothing."""
    settled = _before_times(case) or over_limit(case, policy)
    if settled is not None:
        return (*settled, None)
    return Outcome.MEASURED, "Timed alone.", None


def decide(comparison: Comparison, thresholds: CaseThresholds) -> tuple[Outcome, str]:
    """Apply the rule at the top of this file, and return the outcome with its reason."""
    outcome, reason = _decide_typical(comparison, thresholds)
    total, past_gate = comparison.total, 1 + thresholds.policy.regression
    if total is None or total.ratio * math.exp(-comparison.resolution) <= past_gate or outcome is Outcome.REGRESSED:
        return outcome, reason
    if thresholds.allows_total(comparison, total):
        return Outcome.REGRESSED, f"{describe_total(total)} {reason}"
    if outcome is Outcome.SLOWER:
        return outcome, reason
    if total.chance <= TOTAL_SLOWER * thresholds.level:
        return Outcome.SLOWER, f"Slower now and then, but not proven: {describe_total(total)} {reason}"
    if total.chance <= TOTAL_DOUBTFUL:
        return Outcome.INCONCLUSIVE, f"{describe_total(total)} That may be chance. The typical call: {reason}"
    return outcome, reason


def _of_total(comparison: Comparison, total: Total) -> Comparison:
    """Return the comparison of the means, which decided, in the place of that of typical calls."""
    figures = {"ratio": total.ratio, "low": total.low, "high": total.high, "bound": None, "chance": total.chance}
    return comparison.model_copy(update={**figures, "source": "total"})


def _decide_typical(comparison: Comparison, thresholds: CaseThresholds) -> tuple[Outcome, str]:
    policy, unknown = thresholds.policy, math.exp(comparison.resolution)
    past_gate, improved = 1 + policy.regression, 1 - policy.improvement
    gate, goal = units.threshold(policy.regression), units.threshold(policy.improvement)
    if comparison.ratio / unknown > past_gate and comparison.low > 1 and thresholds.allows(comparison, past_gate):
        return Outcome.REGRESSED, f"Slower by {units.percent(comparison.ratio - 1, 2)}, past the gate of {gate}."
    if comparison.ratio * unknown <= improved and comparison.high < 1 and thresholds.allows(comparison, improved):
        return Outcome.IMPROVED, f"Takes {units.percent(1 - comparison.ratio, 2)} less time, past the threshold of {goal}."
    if comparison.low > past_gate:
        return Outcome.SLOWER, not_proven(comparison, thresholds)
    if comparison.upper_bound < past_gate:
        return Outcome.UNCHANGED, f"Any slowdown is smaller than the gate of {gate}."
    low, high, bound = (units.change(end) for end in (comparison.low, comparison.high, comparison.upper_bound))
    certainty = units.threshold(1 - BOUND * (1 - comparison.confidence))
    outliers = f" with the outliers ({comparison.rogues} of {comparison.pairs} pairs)" if comparison.rogues else ""
    further = f", and{outliers} at {certainty} certainty to {bound}" if comparison.high < past_gate else ""
    coarse = ""
    if _is_too_coarse(comparison, past_gate):
        coarse = (
            f" Times are known to {units.percent(comparison.resolution, 1)} at best: time longer calls, or store more digits."
        )
    return Outcome.INCONCLUSIVE, f"The interval reaches from {low} to {high}{further}, across the gate of {gate}.{coarse}"


def _is_too_coarse(comparison: Comparison, past_gate: float) -> bool:
    """Return whether finer times are what would decide an inconclusive case, and not more pairs."""
    near = abs(math.log(comparison.ratio / past_gate)) <= comparison.resolution
    return comparison.resolution > 0 and (near or comparison.upper_bound * math.exp(-comparison.resolution) < past_gate)


def slower_kernels(case: CaseRun, thresholds: CaseThresholds) -> Judgement | None:
    """Return the finding that the kernels alone regressed, where the host's noise hides it from the time of the whole call."""
    kernels = compare_kernels(case.head, case.reference, thresholds.policy.confidence)
    if kernels is None or decide(kernels, thresholds)[0] is not Outcome.REGRESSED:
        return None
    by, gate = units.percent(kernels.ratio - 1, 2), units.threshold(thresholds.policy.regression)
    decided = "their own time decided, since host noise hides this in the time of the whole call"
    reason = f"Its kernels are slower by {by}, past the gate of {gate}; {decided}."
    return Outcome.REGRESSED, reason, kernels


def decide_apart(comparison: Comparison, thresholds: CaseThresholds) -> tuple[Outcome, str]:
    """Decide for sides measured at different times, where nothing cancels: red only if the whole interval is past the gate."""
    outcome, reason = decide(comparison, thresholds)
    if outcome is Outcome.REGRESSED and comparison.low <= 1 + thresholds.policy.regression:
        return (
            Outcome.INCONCLUSIVE,
            "Slower, but times that were not taken in turn may differ by this much; `ratchet check` takes them in turn.",
        )
    return outcome, reason


def _before_times(case: CaseRun) -> tuple[Outcome, str] | None:
    """Decide a case whose outcome does not depend on its times; None if it does."""
    broken = case.failure("head")
    if broken is not None:
        also = " The reference fails, too." if case.failure("reference") else ""
        return Outcome.FAILED, f"{broken.stage.capitalize()}: {phrase(broken.message)}.{also}"
    if case.skipped is not None:
        why = phrase(case.skipped)
        return Outcome.SKIPPED, f"{why[:1].upper()}{why[1:]}."
    if not case.in_head:
        return Outcome.MISSING, "The head no longer has this case."
    if case.unfit is not None:
        return Outcome.UNFIT, f"{phrase(case.unfit)}."
    if not case.head:
        return (Outcome.IDENTICAL, _same(case)) if case.identical else (Outcome.UNFIT, "Nothing was measured.")
    return None


def _same(case: CaseRun) -> str:
    if case.launches_the_same:
        return "The same machine code, launched in the same way on both sides; it was not timed."
    return "All that it runs and reads in the tree is the same on both sides; it was not timed."


def _against_stored(case: CaseRun, thresholds: CaseThresholds, stored: BaselineEntry | None) -> Judgement:
    broken = case.failure("reference")
    why = f"The reference could not be measured ({phrase(broken.message)})" if broken else "There was no reference to measure"
    if stored is None:
        what = "name a --base that works here, or give the baseline a first entry (`ratchet baseline record`)"
        return Outcome.INCONCLUSIVE, f"{why}, and the baseline file has nothing for this machine: {what}.", None
    if case.workload != stored.workload:
        return Outcome.CHANGED, f"{why}, and the stored workload differs from this one.", None
    days = days_ms(stored)
    comparison = compare_stored(medians_ms(case.head), stored.pair_medians_ms, thresholds.policy.confidence, days)
    stored_on = f"{stored.timestamp:%Y-%m-%d}"
    if comparison is None:
        return Outcome.INCONCLUSIVE, f"{why}, and too few medians are stored from {stored_on}.", None
    if comparison.source == "days":
        outcome, reason = decide_apart(comparison, thresholds)
        return outcome, f"{why}; compared with the times of {len(days)} earlier days: {reason}", comparison
    known = f"{len(days)} of the {FEWEST_DAYS} days needed to know how much times vary from day to day on this machine"
    slower = comparison.low > 1 + thresholds.policy.regression  # not proven, since days differ, but never a pass
    return (
        Outcome.SLOWER if slower else Outcome.INCONCLUSIVE,
        f"{why}; compared with the time stored on {stored_on} it changed by {units.change(comparison.ratio)}, "
        f"but the history has {known}.",
        comparison,
    )


def days_ms(stored: BaselineEntry) -> list[float]:
    """Return the median of the stored code on each day on which it was measured, in milliseconds."""
    by_date: dict[date, list[float]] = {}
    for day in stored.days:
        by_date.setdefault(day.timestamp.date(), []).append(day.median_ms)
    return [statistics.median(values) for values in by_date.values()]
