"""One case: what was measured + what it takes to believe a change → outcome, with its reason in one sentence.

`verdict.py` calls it for every case of a run, `sequential.py` while the run is still measured, `replay.py` for simulated
checks, and the tuner for its finalists. Pure.

The rule, for a case that was timed in pairs:

1. REGRESSED takes all of: the estimate is past the gate, in the first eight pairs and again in the later ones, which separately
   started processes measured; the interval excludes no change; there are 20 pairs or more, which in noise count only as far as
   they are independent; and an exact randomisation test over them has p ≤ 0.1 % / cases / looks. IMPROVED is the mirror image,
   past its own threshold.
2. SLOWER: the whole interval is past the gate, and some of that is missing. It is never a pass.
3. UNCHANGED: the interval is below the gate, and so is the upper end of the 99 % interval: cases are looked at several times.
4. INCONCLUSIVE: anything else.

Where the GPU waited for the host, the kernels were also timed alone. If these regressed by the same rule, a case that is
INCONCLUSIVE or SLOWER by the time of its calls is REGRESSED.

Assumptions, and what happens where one fails, stand in docs/decisions/0003-rule.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from ratchet import units
from ratchet.records.baseline import BaselineEntry
from ratchet.records.run import SESSION_PAIRS, CaseRun, Policy
from ratchet.records.verdict import Comparison, Outcome
from ratchet.stats.comparison import (
    FEWEST_DAYS,
    LARGEST_LOG,
    compare_kernels,
    compare_stored,
    compare_workers,
    kernels_median_ms,
    medians_ms,
)
from ratchet.stats.estimate import BOUND, LEAST_SPREAD, VALUES_PER_EXCEPTION, quantile

CHANGE_PAIRS = 20
"""Pairs without which no change is believed: 2⁻²⁰ is what a randomisation test needs for 200 cases."""
NOISY = 0.01
"""Spread of single pairs, as a fraction, above which noise that persists from pair to pair raises the thresholds, and pairs count
as far as they are independent."""
PERSISTENT = 2.0
"""Standard errors beyond which an autocorrelation counts as real."""
CLEAR = 3.0
"""Spreads of a pair by which a change must be past its threshold, if noise persists from pair to pair."""

POWER = 0.8
"""Probability with which a slowdown of the size of the MDE is red."""
EFFICIENCY = 0.9
"""Share of the pairs that the capped randomisation test uses effectively on normal noise (research/adversary.py)."""
MOST_SUGGESTED = 400
"""If more pairs than this would be needed, the advice is a quieter machine instead."""
HOST_BOUND = 0.5
"""Share of a side's blocks in which the GPU waited for the host, from which on the case is called host-bound."""
RESERVE = 1.3
"""Factor on the pairs that should settle a case, since its centre moves as well. A choice (docs/decisions/0003-rule.md)."""

_normal_cdf = statistics.NormalDist().cdf

Judgement = tuple[Outcome, str, Comparison | None]


@dataclass(frozen=True)
class CaseThresholds:
    """The evidence needed to believe a change of one case, among several in a run, at one of several looks."""

    policy: Policy
    level: float
    """The p-value must not be above this: the policy's false alarms, shared among cases and looks (Bonferroni)."""
    fewest: int = CHANGE_PAIRS
    """Fewest pairs that can prove a change."""
    fewest_independent: int = CHANGE_PAIRS
    """Smallest effective number of independent pairs that can prove a change of a noisy case."""
    persistent: float = 0.0
    """Spread of a pair in a run whose noise persists from pair to pair, all cases together; 0 where it does not."""

    def allows(self, comparison: Comparison, threshold: float) -> bool:
        """Return whether the evidence suffices for a change past ``threshold``, a ratio."""
        if comparison.chance > self.level:
            return False
        if not comparison.is_paired:
            return True
        way = 1 if threshold > 1 else -1
        past = all(way * (session - threshold) > 0 for session in comparison.sessions)
        margin = way * (math.log(comparison.ratio) - math.log(threshold))
        return self.has_pairs(comparison, threshold) and past and margin >= self.margin(comparison)

    def has_pairs(self, comparison: Comparison, threshold: float) -> bool:
        """Return whether there are enough pairs to believe a change past ``threshold``, a ratio.

        In a noisy case pairs that are like the pair before them count as fewer, unless nine in ten are past the threshold.
        """
        if comparison.pairs < self.fewest:
            return False
        quiet = comparison.spread <= NOISY and not comparison.rogues
        if quiet or comparison.independent is None or comparison.nearly_all is None:
            return True
        exceeded, undercut = comparison.nearly_all
        clear = exceeded > threshold if threshold > 1 else undercut < threshold
        return clear or comparison.independent >= self.fewest_independent

    def margin(self, comparison: Comparison) -> float:
        """Return by how much, as a log, a change must be past its threshold: 0 unless noise persists from pair to pair."""
        kept = comparison.pairs - comparison.rogues
        own = comparison.spread if _persists(comparison.correlation, kept) and comparison.spread > NOISY else 0.0
        return CLEAR * max(own, self.persistent)


def thresholds_for(policy: Policy, cases: int, looks: int) -> CaseThresholds:
    """Share the policy's false alarms among ``cases``, each of which may be called changed at each of ``looks``."""
    return CaseThresholds(policy, policy.false_alarm / max(1, cases) / max(1, looks))


def with_persistence(thresholds: CaseThresholds, comparisons: Iterable[Comparison | None]) -> CaseThresholds:
    """Raise the thresholds where noise persists: the autocorrelations of all cases together show what a single one cannot."""
    noisy = [case for case in comparisons if case and case.source == "paired" and case.spread > NOISY / 2]
    kept = [case.pairs - case.rogues for case in noisy]
    if len(noisy) < 2:
        return thresholds
    correlation = sum(count * case.correlation for count, case in zip(kept, noisy, strict=True)) / sum(kept)
    if not _persists(correlation, sum(kept)):
        return thresholds
    spread = math.sqrt(statistics.fmean(case.spread**2 for case in noisy))
    return replace(thresholds, persistent=spread) if spread > NOISY else thresholds


def _persists(correlation: float, pairs: int) -> bool:
    """Return whether an autocorrelation is too large to be chance: that of independent pairs has a standard error of 1/√n."""
    return correlation * math.sqrt(pairs) > PERSISTENT


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
        because = f" (the reference: {_phrase(broken.message)})" if broken else ""
        next_step = "" if broken else ": raise --pairs"
        return Outcome.INCONCLUSIVE, f"Fewer than three pairs were measured{because}, too few for an interval{next_step}.", None
    outcome, reason = decide(comparison, thresholds)
    kernels = slower_kernels(case, thresholds) if outcome in (Outcome.INCONCLUSIVE, Outcome.SLOWER) else None
    if kernels is None and outcome is Outcome.INCONCLUSIVE:
        waits = bool(_waiting_shares(case))
        reason = f"{reason} {settles(comparison, thresholds.policy, case.pair_s, waits_for_host=waits)}"
    return kernels or (outcome, reason, comparison)


def over_limit(case: CaseRun, policy: Policy) -> tuple[Outcome, str] | None:
    """Fail a head of which a call holds more memory than its workload allows, or else the policy; None where it does not."""
    limit = policy.memory_limit_bytes if case.memory_limit_bytes is None else case.memory_limit_bytes
    peak = max((worker.peak_memory_bytes for worker in case.head), default=0)
    if limit is None or peak <= limit:
        return None
    other = max((worker.peak_memory_bytes for worker in case.reference), default=0)
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
    policy = thresholds.policy
    past_gate, improved = 1 + policy.regression, 1 - policy.improvement
    gate, goal = units.threshold(policy.regression), units.threshold(policy.improvement)
    if comparison.ratio > past_gate and comparison.low > 1 and thresholds.allows(comparison, past_gate):
        return Outcome.REGRESSED, f"Slower by {units.percent(comparison.ratio - 1, 2)}, past the gate of {gate}."
    if comparison.ratio <= improved and comparison.high < 1 and thresholds.allows(comparison, improved):
        return Outcome.IMPROVED, f"Takes {units.percent(1 - comparison.ratio, 2)} less time, past the threshold of {goal}."
    if max(comparison.low, _with_outliers(comparison)) > past_gate:
        return Outcome.SLOWER, _not_proven(comparison, thresholds)
    if comparison.surely_below < past_gate:
        return Outcome.UNCHANGED, f"Any slowdown is smaller than the gate of {gate}."
    low, high, bound = (units.change(end) for end in (comparison.low, comparison.high, comparison.bound or comparison.high))
    certainty = units.threshold(1 - BOUND * (1 - comparison.confidence))
    further = f", and at {certainty} certainty to {bound}" if comparison.high < past_gate <= (comparison.bound or 0.0) else ""
    reaches = f"The interval reaches from {low} to {high}{further}, across the gate of {gate}."
    if comparison.high < past_gate and not further:
        outliers = f"{comparison.rogues} of {comparison.pairs} pairs" if comparison.rogues else "many pairs"
        reaches = f"The answer depends on the outliers ({outliers}): it changes if they are left out."
    return Outcome.INCONCLUSIVE, reaches


def _with_outliers(comparison: Comparison) -> float:
    """Return the lower end of the interval of all pairs, if outliers were left out of the main one; else 0."""
    return comparison.other[0] if comparison.other and comparison.rogues else 0.0


def _not_proven(comparison: Comparison, thresholds: CaseThresholds) -> str:
    """Describe a slowdown that the interval shows, and what is missing to call it a regression."""
    if comparison.other and comparison.low <= 1 + thresholds.policy.regression:
        low, high = (units.percent(bound - 1, 2) for bound in comparison.other[:2])
        return (
            f"Slower, but not proven: with the outliers ({comparison.rogues} of {comparison.pairs} pairs) it is "
            f"slower by {low} to {high}. Measure again."
        )
    bounds = ", ".join(units.change(bound, 1).removesuffix(" %") for bound in (comparison.low, comparison.high))
    scatter = f"pairs scatter by {units.percent(math.expm1(comparison.spread), 1)}"
    shown = f"Slower, but not proven: {units.change(comparison.ratio, 1)} [{bounds}]; {scatter}"
    return f"{shown}. {_missing(comparison, thresholds)}"


def _missing(comparison: Comparison, thresholds: CaseThresholds) -> str:
    gate = 1 + thresholds.policy.regression
    if not comparison.is_paired:
        return "The two sides were measured at different times: `ratchet check` compares them side by side."
    if comparison.pairs < thresholds.fewest:
        needs = f"A regression needs {thresholds.fewest} pairs, and this case has {comparison.pairs}"
        return f"{needs}: raise --budget, or --pairs if that was the limit."
    if any(session <= gate for session in comparison.sessions):
        first, *later_sessions = (units.change(session, 1) for session in comparison.sessions)
        both = f", new processes show {later_sessions[0]}, and both must be" if later_sessions else ", which is not"
        return f"The first {min(SESSION_PAIRS, comparison.pairs)} pairs show {first}{both} past the gate: measure again."
    if comparison.chance > thresholds.level:
        chance = next(text for digits in range(2, 18) if float(text := f"{comparison.chance:.{digits}g}") > thresholds.level)
        p_values = f"p = {chance}, and a regression needs {thresholds.level:.2g} or less"
        return f"The randomisation test has {p_values}: raise --budget, or --pairs."
    margin = thresholds.margin(comparison)
    if math.log(comparison.ratio / gate) < margin:
        return (
            "The noise of this machine persists from pair to pair, so only a change of more than "
            f"{units.percent(math.expm1(margin), 0)} past the gate would be proven: stop other work, then measure again."
        )
    counts = f"{comparison.pairs} pairs count as only {max(1, round(comparison.independent or 0))} independent ones"
    needed = f"a regression needs {thresholds.fewest_independent}: raise --budget, or --pairs if that was the limit"
    return f"Noise carries over from pair to pair, so {counts}, and {needed}."


def slower_kernels(case: CaseRun, thresholds: CaseThresholds) -> Judgement | None:
    """Return the finding that the kernels alone regressed, where the host's noise hides it from the time of the whole call."""
    kernels = compare_kernels(case.head, case.reference, thresholds.policy.confidence)
    if kernels is None or decide(kernels, thresholds)[0] is not Outcome.REGRESSED:
        return None
    by, gate = units.percent(kernels.ratio - 1, 2), units.threshold(thresholds.policy.regression)
    decided = "their own time decided, since host noise hides this in the time of the whole call"
    reason = f"Its kernels are slower by {by}, past the gate of {gate}; {decided}."
    return Outcome.REGRESSED, reason, kernels


def host_bound(case: CaseRun, confidence: float) -> str:
    """Say that the GPU mostly waited for the host in a case, in which share of its blocks, and what would help; empty if not.

    Where the kernels were timed without the host, how much of the time is theirs and how it changed is said, too.
    """
    shares = _waiting_shares(case)
    if not shares:
        return ""
    where = " and ".join(f"{units.percent(share)} of the {side}'s" for side, share in shares.items())
    graph = "" if case.workload and case.workload.clock.endswith("graph") else 'A CUDA graph (clock="graph"), '
    advice = f"{graph}{'fewer' if graph else 'Fewer'} launches or a larger size would help."
    waited = f"The GPU waited for the host in {where} blocks, so these times include launch latency and the host's noise."
    return " ".join(filter(None, (waited, _of_kernels(case, confidence), advice)))


def _waiting_shares(case: CaseRun) -> dict[str, float]:
    """Return each host-bound side's share of blocks in which the GPU waited for the host."""
    sides = {"reference": case.reference, "head": case.head}
    kept = {
        side: [block for worker in workers for block in worker.blocks if not block.throttled] for side, workers in sides.items()
    }
    shares = {side: sum([block.exposed for block in blocks]) / len(blocks) for side, blocks in kept.items() if blocks}
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
    return f"{took}, and changed by {units.change(kernels.ratio)} {units.interval(kernels.low, kernels.high)} (warm L2)."


def settles(comparison: Comparison, policy: Policy, pair_s: float, *, waits_for_host: bool = False) -> str:
    """Say what would decide an inconclusive case: more pairs and seconds, a quieter machine, or a GPU that waits less."""
    wanted = pairs_to_settle(comparison, policy)
    if wanted is None:
        advice = "make the case less host-bound" if waits_for_host else "stop other work on this machine"
        return f"Pairs scatter by {units.percent(math.expm1(comparison.spread), 1)}: {advice}, then measure again."
    more = wanted - comparison.pairs
    longer = f" and take {units.wall(pair_s * more)}" if pair_s else ""
    return f"About {more} more pairs would settle it{longer}: raise --budget, or --pairs if that was the limit."


def pairs_to_settle(comparison: Comparison, policy: Policy, reserve: float = RESERVE) -> int | None:
    """Return the pairs that should decide an inconclusive case, if the interval narrows with their square root.

    None where more pairs are no help: too many would be needed, outliers give two answers, or nothing was paired.
    """
    centre, gate = math.log(comparison.ratio), math.log1p(policy.regression)
    reach = math.log(comparison.surely_below) - centre if centre <= gate else centre - math.log(comparison.low)
    away = abs(centre - gate)
    pairs = reserve * comparison.pairs * (reach / away) ** 2 if away > 0 else math.inf
    if not comparison.is_paired or comparison.other or pairs > MOST_SUGGESTED:
        return None
    return max(CHANGE_PAIRS if comparison.ratio > 1 + policy.regression else 0, math.ceil(pairs), comparison.pairs + 2)


def with_smallest_slowdown(comparison: Comparison, thresholds: CaseThresholds, pairs: int) -> Comparison:
    """Return the comparison with its MDE, in a check that takes up to ``pairs`` pairs of a case."""
    if comparison.source != "paired":
        return comparison
    margin = thresholds.margin(comparison)
    return comparison.model_copy(update={"detectable": smallest_slowdown(comparison.spread, thresholds, pairs, margin)})


def smallest_slowdown(spread: float, thresholds: CaseThresholds, pairs: int, margin: float = 0.0) -> float | None:
    """Return the smallest slowdown, as a fraction, that the rule would call a regression four times in five (MDE).

    ``spread`` is the standard deviation of one pair's log ratio; all ``pairs`` pairs are measured. None where these are too few
    to prove any change.
    """
    if pairs < thresholds.fewest:
        return None
    spread = max(spread, LEAST_SPREAD)
    gate = (math.log1p(thresholds.policy.regression) + margin) / spread
    level, efficient = quantile(1 - thresholds.level, pairs - 1), math.sqrt(EFFICIENCY * pairs)

    def power(change: float) -> float:
        shown = _shown_past(change - gate, pairs, thresholds.fewest_independent, noisy=spread > NOISY)
        return shown * _normal_cdf(change * efficient - level)

    return math.expm1(min(_first(power, POWER, gate, gate + level + 3) * spread, LARGEST_LOG))


@lru_cache(maxsize=256)
def both_past(pairs: int, power: float, *, noisy: bool = False) -> float:
    """Return how many spreads past the gate a true change must be, for both sessions to show it with probability ``power``.

    In a ``noisy`` case the pairs must also count as enough.
    """
    return _first(lambda past: _shown_past(past, pairs, CHANGE_PAIRS, noisy=noisy), power, 0.0, 3.0)


def _shown_past(past: float, pairs: int, fewest: int, *, noisy: bool) -> float:
    """Return the probability that both sessions show a change past the gate, if it is ``past`` spreads of a pair past it.

    In a ``noisy`` case independent pairs must also count as ``fewest``, or nine in ten be past the gate
    (`CaseThresholds.has_pairs`).
    """
    sessions = _normal_cdf(past * math.sqrt(SESSION_PAIRS)) * _normal_cdf(past * math.sqrt(pairs - SESSION_PAIRS))
    if not noisy:
        return sessions
    from scipy.special import betainc  # loads for a quarter of a second, which commands that judge nothing should not pay

    counted = _normal_cdf(math.sqrt(pairs) * (pairs - fewest) / (pairs + fewest) - 1)
    exceptions = pairs / VALUES_PER_EXCEPTION
    clear = float(betainc(pairs - exceptions, exceptions + 1, _normal_cdf(past)))
    return sessions * (1 - (1 - counted) * (1 - clear))


def _first(power: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return the smallest change between ``low`` and ``high``, in spreads of a pair, whose ``power`` is ``wanted``."""
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < wanted else (low, middle)
    return high


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
        return Outcome.FAILED, f"{broken.stage.capitalize()}: {_phrase(broken.message)}.{also}"
    if case.skipped is not None:
        why = _phrase(case.skipped)
        return Outcome.SKIPPED, f"{why[:1].upper()}{why[1:]}."
    if not case.in_head:
        return Outcome.MISSING, "The head no longer has this case."
    if case.unfit is not None:
        return Outcome.UNFIT, f"{_phrase(case.unfit)}."
    if not case.head:
        return (Outcome.IDENTICAL, _same(case)) if case.identical else (Outcome.UNFIT, "Nothing was measured.")
    return None


def _same(case: CaseRun) -> str:
    if case.launches_the_same:
        return "The same machine code, launched in the same way on both sides; it was not timed."
    return "All that it runs and reads in the tree is the same on both sides; it was not timed."


def _against_stored(case: CaseRun, thresholds: CaseThresholds, stored: BaselineEntry | None) -> Judgement:
    broken = case.failure("reference")
    why = f"The reference could not be measured ({_phrase(broken.message)})" if broken else "There was no reference to measure"
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


def _phrase(text: str) -> str:
    """Return a message as part of a sentence: on one line, without a full stop of its own."""
    return " ".join(text.split()).rstrip(" .")
