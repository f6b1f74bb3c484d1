"""One case: what was measured + what it takes to believe a change → outcome, with its reason in one sentence.

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

import itertools
import math
import statistics
from datetime import date

from ratchet.core import units
from ratchet.core.judge.comparison import (
    FEWEST_DAYS,
    compare_kernels,
    compare_stored,
    compare_workers,
    kernels_median_ms,
    medians_ms,
)
from ratchet.core.judge.estimate import BOUND, fisher_p
from ratchet.core.judge.evidence import CaseThresholds, pairs_to_settle
from ratchet.core.judge.gates import growths
from ratchet.core.records.baseline import BaselineEntry
from ratchet.core.records.run import CaseRun, Policy, Side
from ratchet.core.records.samples import counts_of
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
    """Decide one case by what `compared` gave; ``stored`` serves only where the reference could not be measured."""
    settled = _before_times(case, thresholds.policy)
    if settled is None or settled[0] is Outcome.IDENTICAL:  # the same launches may take longer to compile
        grown = [sentence for sentence, fails in growths(case, thresholds.policy) if fails]
        settled = (Outcome.FAILED, " ".join(grown)) if grown else settled
    if settled is not None:
        return (*settled, None)
    if not case.in_reference:
        return Outcome.NEW, "The reference has no such case; it is timed alone.", None
    if case.workload and case.reference_workload and case.workload != case.reference_workload:
        what = "; ".join(case.reference_workload.differences(case.workload)[:3])
        return Outcome.CHANGED, f"The workload itself differs, so times do not compare ({what}).", None
    if not case.reference or (stored and comparison is None and case.failure("reference")):
        return _against_stored(case, thresholds, stored)
    if comparison is None:
        broken = case.failure("reference")
        because = f" (the reference: {phrase(broken.message)})" if broken else ""
        next_step = "" if broken else ": raise --pairs"
        return Outcome.INCONCLUSIVE, f"Fewer than three pairs were measured{because}, too few for an interval{next_step}.", None
    outcome, reason = decide(comparison, thresholds)
    past_gate, deciding = 1 + thresholds.policy.regression, comparison
    if comparison.total and outcome in SLOWDOWNS and _decide_typical(comparison, thresholds)[0] not in SLOWDOWNS:
        total = comparison.total  # the comparison of the means, which decided, in the place of that of typical calls
        figures = {"ratio": total.ratio, "low": total.low, "high": total.high, "bound": None, "p_value": total.p_value}
        deciding = comparison.model_copy(update={**figures, "source": "total"})
    elif outcome is Outcome.INCONCLUSIVE and comparison.upper_bound >= past_gate and not _is_too_coarse(comparison, past_gate):
        waits = bool(waiting_shares(case))
        reason = f"{reason} {settles(comparison, thresholds.policy, case.pair_s, waits_for_host=waits)}"
    kernels = slower_kernels(case, thresholds) if outcome in (Outcome.INCONCLUSIVE, Outcome.SLOWER) else None
    return kernels or (outcome, reason, deciding)


def over_limit(case: CaseRun, policy: Policy) -> tuple[Outcome, str] | None:
    """Fail a head of which a call holds more memory than its workload allows, or else the policy; None if it does not."""
    limit = policy.memory_limit_bytes if case.memory_limit_bytes is None else case.memory_limit_bytes
    peak = _peak(case, "head")
    if limit is None or peak <= limit:
        return None
    other = _peak(case, "reference")
    before = f"; the reference takes {units.size(other)}" if other else ""
    return Outcome.FAILED, f"Memory: a call takes {units.size(peak)}, more than its limit of {units.size(limit)}{before}."


def _peak(case: CaseRun, side: Side) -> int:
    workers = case.head if side == "head" else case.reference
    return max(case.memory_before.get(side, 0), counts_of(workers).peak_memory_bytes)


def judge_alone(case: CaseRun, policy: Policy) -> Judgement:
    """Decide one case of `ratchet run`, which compares nothing."""
    outcome, reason = _before_times(case, policy) or (Outcome.MEASURED, "Timed alone.")
    return outcome, reason, None


def decide(comparison: Comparison, thresholds: CaseThresholds) -> tuple[Outcome, str]:
    """Apply the rule at the top of this file, and return the outcome with its reason."""
    outcome, reason = _decide_typical(comparison, thresholds)
    total, past_gate = comparison.total, 1 + thresholds.policy.regression
    if total is None or total.ratio * math.exp(-comparison.resolution) <= past_gate or outcome is Outcome.REGRESSED:
        return outcome, reason
    mean, typical = describe_total(total, thresholds.policy), f"The typical call: {reason}"
    if thresholds.allows_total(comparison, total):
        return Outcome.REGRESSED, f"{mean} {typical}"
    if outcome is Outcome.SLOWER:
        return outcome, reason
    if total.p_value <= TOTAL_SLOWER * thresholds.level:
        return Outcome.SLOWER, f"Slower now and then, but not proven: {mean} {typical}"
    if total.p_value <= TOTAL_DOUBTFUL:
        return Outcome.INCONCLUSIVE, f"{mean} That may be chance. {typical}"
    return outcome, reason


def digits_of(comparison: Comparison, policy: Policy) -> int:
    """Return the decimals with which a change is shown, so that no figure seems to lie on another side of a threshold."""
    marks = (1.0, 1 + policy.regression, 1 - policy.improvement)
    return units.earned_digits(comparison.ratio, comparison.low, comparison.high, marks)


def _decide_typical(comparison: Comparison, thresholds: CaseThresholds) -> tuple[Outcome, str]:
    policy, unknown = thresholds.policy, math.exp(comparison.resolution)
    past_gate, improved = 1 + policy.regression, 1 - policy.improvement
    gate, goal = units.threshold(policy.regression), units.threshold(policy.improvement)
    digits = digits_of(comparison, policy)
    if comparison.ratio / unknown > past_gate and comparison.low > 1 and thresholds.allows(comparison, past_gate):
        return Outcome.REGRESSED, f"Slower by {units.percent(comparison.ratio - 1, digits)}, past the gate of {gate}."
    if comparison.ratio * unknown <= improved and comparison.high < 1 and thresholds.allows(comparison, improved):
        return Outcome.IMPROVED, f"Takes {units.percent(1 - comparison.ratio, digits)} less time, past the threshold of {goal}."
    if comparison.low > past_gate:
        change = f"{units.change(comparison.ratio, digits)} {units.interval(comparison.low, comparison.high, digits)}"
        shown = f"{change}; pairs scatter by {units.percent(math.expm1(comparison.spread), 1)}"
        return Outcome.SLOWER, f"Slower, but not proven: {shown}. {_missing(comparison, thresholds)}"
    if comparison.upper_bound < past_gate:
        return Outcome.UNCHANGED, f"Any slowdown is smaller than the gate of {gate}."
    low, high, bound = (units.change(end, digits) for end in (comparison.low, comparison.high, comparison.upper_bound))
    certainty = units.threshold(1 - BOUND * (1 - comparison.confidence))
    outliers = f" with the outliers ({comparison.outliers} of {comparison.pairs} pairs)" if comparison.outliers else ""
    further = f", and{outliers} at {certainty} certainty to {bound}" if comparison.high < past_gate else ""
    known = units.percent(comparison.resolution, 1)
    finer = f" Times are known to {known} at best: time longer calls, or store more digits."
    coarse = finer if _is_too_coarse(comparison, past_gate) else ""
    return Outcome.INCONCLUSIVE, f"The interval reaches from {low} to {high}{further}, across the gate of {gate}.{coarse}"


def _is_too_coarse(comparison: Comparison, past_gate: float) -> bool:
    """Return whether finer times are what would decide an inconclusive case, and not more pairs."""
    near = abs(math.log(comparison.ratio / past_gate)) <= comparison.resolution
    return comparison.resolution > 0 and (near or comparison.upper_bound * math.exp(-comparison.resolution) < past_gate)


def slower_kernels(case: CaseRun, thresholds: CaseThresholds) -> Judgement | None:
    """Return the finding that the kernels alone regressed, where the host's noise hides it from the time of the whole call."""
    timed = counts_of(case.head).has_kernels and counts_of(case.reference).has_kernels
    kernels = compare_kernels(case.head, case.reference, thresholds.policy.confidence) if timed else None
    if kernels is None or decide(kernels, thresholds)[0] is not Outcome.REGRESSED:
        return None
    by = units.percent(kernels.ratio - 1, digits_of(kernels, thresholds.policy))
    gate = units.threshold(thresholds.policy.regression)
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


def _before_times(case: CaseRun, policy: Policy) -> tuple[Outcome, str] | None:
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
    if not case.head and case.identical:
        launched = "The same machine code, launched in the same way on both sides; it was not timed."
        read = "All that it runs and reads in the tree is the same on both sides; it was not timed."
        return Outcome.IDENTICAL, launched if case.launches_the_same else read
    return over_limit(case, policy) or (None if case.head else (Outcome.UNFIT, "Nothing was measured."))


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
    changed = units.change(comparison.ratio, digits_of(comparison, thresholds.policy))
    slower = comparison.low > 1 + thresholds.policy.regression  # not proven, since days differ, but never a pass
    return (
        Outcome.SLOWER if slower else Outcome.INCONCLUSIVE,
        f"{why}; compared with the time stored on {stored_on} it changed by {changed}, but the history has {known}.",
        comparison,
    )


def days_ms(stored: BaselineEntry) -> list[float]:
    """Return the median of the stored code on each day on which it was measured, in milliseconds."""
    by_date: dict[date, list[float]] = {}
    for day in stored.days:
        by_date.setdefault(day.timestamp.date(), []).append(day.median_ms)
    return [statistics.median(values) for values in by_date.values()]


HOST_BOUND = 0.5
"""Share of a side's blocks in which the GPU waited for the host, from which on the case is called host-bound."""


def describe_total(total: Total, policy: Policy) -> str:
    """Say by how much the mean changed, and what is slow now and then: ``one call in 10 takes 50×``."""
    what = []
    (slow, slow_before), (calls, calls_before) = total.slow_calls, total.calls
    if slow * calls_before > 2 * slow_before * calls:
        what.append(f"one call in {round(calls / slow)} takes {units.times(total.call_factor)}")
    ours, theirs = total.slow_processes
    if ours > theirs:
        p_value = fisher_p(ours, theirs, total.processes)
        what.append(
            f"{ours} of {total.processes} processes take {units.times(total.process_factor)}, of the reference {theirs} "
            f"(Fisher's exact test: p = {p_value:.2g})"
        )
    digits = units.earned_digits(total.ratio, total.low, total.high, (1.0, 1 + policy.regression))
    change = units.change(total.ratio, digits), units.interval(total.low, total.high, digits)
    shown = f"The mean of all calls is {' '.join(change)}"
    return f"{shown}: {', and '.join(what)}." if what else f"{shown}."


def _missing(comparison: Comparison, thresholds: CaseThresholds) -> str:
    """Say which part of the evidence for a regression is missing, and what to do: the first one that is."""
    gate, raise_limit = 1 + thresholds.policy.regression, "raise --budget, or --pairs if that was the limit"
    margin, sessions = thresholds.margin(comparison), comparison.sessions
    if not comparison.is_paired:
        return "The two sides were measured at different times: `ratchet check` compares them side by side."
    if comparison.pairs < thresholds.fewest:
        return f"A regression needs {thresholds.fewest} pairs, and this case has {comparison.pairs}: {raise_limit}."
    if len(sessions) < thresholds.sessions:
        started = units.plural(len(sessions), "time")
        missing = (
            f"A regression needs hosts that were started {thresholds.sessions} times, and these were {started}: {raise_limit}."
        )
    elif comparison.p_value > thresholds.level:
        chance = next(
            text for digits in itertools.count(2) if float(text := f"{comparison.p_value:.{digits}g}") > thresholds.level
        )
        p_values = f"p = {chance}, and a regression needs {thresholds.level:.2g} or less"
        missing = f"The randomisation test has {p_values}: raise --budget, or --pairs."
    elif not thresholds.has_sessions(comparison, comparison.sessions_p_value, thresholds.level, thresholds.sessions):
        least, most = (units.change(end(sessions), 1) for end in (min, max))
        missing = f"Hosts that were started anew do not agree: they show {least} to {most}. Measure again."
    elif math.log(comparison.ratio / gate) < margin:
        missing = (
            "The noise of this machine persists from pair to pair, so only a change of more than "
            f"{units.percent(math.expm1(margin))} past the gate would be proven: stop other work, then measure again."
        )
    else:
        counts = f"{comparison.pairs} pairs count as only {max(1, round(comparison.effective_pairs or 0))} independent ones"
        needed = f"a regression needs {thresholds.fewest_effective_pairs}: {raise_limit}"
        missing = f"Noise carries over from pair to pair, so {counts}, and {needed}."
    return missing


def host_bound(case: CaseRun, confidence: float) -> str:
    """Say that the GPU mostly waited for the host in a case, in which share of its blocks, and what would help; empty if not.

    Where the kernels were timed without the host, how much of the time is theirs and how it changed is said, too.
    """
    shares = waiting_shares(case)
    if not shares:
        return ""
    where = " and ".join(f"{units.percent(share)} of the {side}'s" for side, share in shares.items())
    graph = "" if case.workload and case.workload.clock.endswith("graph") else 'A CUDA graph (clock="graph"), '
    advice = f"{graph}{'fewer' if graph else 'Fewer'} launches or a larger size would help."
    waited = f"The GPU waited for the host in {where} blocks, so these times include launch latency and the host's noise."
    return " ".join(filter(None, (waited, _of_kernels(case, confidence), advice)))


def waiting_shares(case: CaseRun) -> dict[str, float]:
    """Return each host-bound side's share of blocks in which the GPU waited for the host."""
    counts = {"reference": counts_of(case.reference), "head": counts_of(case.head)}
    shares = {side: count.exposed / count.blocks for side, count in counts.items() if count.blocks}
    return {side: share for side, share in shares.items() if share >= HOST_BOUND}


def _of_kernels(case: CaseRun, confidence: float) -> str:
    """Say how much of a host-bound head's time its kernels take, and how that changed; empty where they were not timed alone."""
    kernels_ms, whole_ms = kernels_median_ms(case.head), medians_ms(case.head)
    if not kernels_ms or not whole_ms:
        return ""
    took = f"Its kernels take {units.duration(kernels_ms / 1e3)} of {units.duration(statistics.median(whole_ms) / 1e3)}"
    kernels = compare_kernels(case.head, case.reference, confidence)
    if kernels is None:
        return f"{took}."
    return f"{took}, and changed by {' '.join(units.estimate(kernels.ratio, kernels.low, kernels.high))} (warm L2)."


def settles(comparison: Comparison, policy: Policy, pair_s: float, *, waits_for_host: bool = False) -> str:
    """Say what would decide an inconclusive case: more pairs and seconds, a quieter machine, or a GPU that waits less."""
    wanted = pairs_to_settle(comparison, policy)
    if wanted is None:
        advice = "make the case less host-bound" if waits_for_host else "stop other work on this machine"
        far = f", and {comparison.outliers} of {comparison.pairs} lie far off" if comparison.outliers else ""
        return f"Pairs scatter by {units.percent(math.expm1(comparison.spread), 1)}{far}: {advice}, then measure again."
    more = wanted - comparison.pairs
    longer = f" and take {units.wall(pair_s * more)}" if pair_s else ""
    return f"About {more} more pairs would settle it{longer}: raise --budget, or --pairs if that was the limit."


def phrase(text: str) -> str:
    """Return a message as part of a sentence: on one line, without a full stop of its own."""
    return " ".join(text.split()).rstrip(" .")
