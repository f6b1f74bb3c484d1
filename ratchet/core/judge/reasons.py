"""The reason of an outcome in words: what was found, what is missing, and what would help."""

from __future__ import annotations

import itertools
import math
import statistics

from ratchet.core import units
from ratchet.core.judge.comparison import compare_kernels, kernels_median_ms, medians_ms
from ratchet.core.judge.estimate import fisher_p
from ratchet.core.judge.evidence import CaseThresholds
from ratchet.core.judge.power import pairs_to_settle
from ratchet.core.records.run import CaseRun, Policy
from ratchet.core.records.verdict import Comparison, Total

HOST_BOUND = 0.5
"""Share of a side's blocks in which the GPU waited for the host, from which on the case is called host-bound."""


def describe_total(total: Total) -> str:
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
    shown = f"The mean of all calls is {units.slowdown(total.ratio)} {units.interval(total.low, total.high, 1)}"
    return f"{shown}: {', and '.join(what)}." if what else f"{shown}."


def not_proven(comparison: Comparison, thresholds: CaseThresholds) -> str:
    """Describe a slowdown that the interval shows, and what is missing to call it a regression."""
    bounds = ", ".join(units.change(bound, 1).removesuffix(" %") for bound in (comparison.low, comparison.high))
    scatter = f"pairs scatter by {units.percent(math.expm1(comparison.spread), 1)}"
    shown = f"Slower, but not proven: {units.change(comparison.ratio, 1)} [{bounds}]; {scatter}"
    return f"{shown}. {_missing(comparison, thresholds)}"


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
    elif comparison.chance > thresholds.level:
        chance = next(
            text for digits in itertools.count(2) if float(text := f"{comparison.chance:.{digits}g}") > thresholds.level
        )
        p_values = f"p = {chance}, and a regression needs {thresholds.level:.2g} or less"
        missing = f"The randomisation test has {p_values}: raise --budget, or --pairs."
    elif not thresholds.has_sessions(comparison, comparison.sessions_chance, thresholds.level, thresholds.sessions):
        least, most = (units.change(end(sessions), 1) for end in (min, max))
        missing = f"Hosts that were started anew do not agree: they show {least} to {most}. Measure again."
    elif math.log(comparison.ratio / gate) < margin:
        missing = (
            "The noise of this machine persists from pair to pair, so only a change of more than "
            f"{units.percent(math.expm1(margin))} past the gate would be proven: stop other work, then measure again."
        )
    else:
        counts = f"{comparison.pairs} pairs count as only {max(1, round(comparison.independent or 0))} independent ones"
        needed = f"a regression needs {thresholds.fewest_independent}: {raise_limit}"
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
        far = f", and {comparison.rogues} of {comparison.pairs} lie far off" if comparison.rogues else ""
        return f"Pairs scatter by {units.percent(math.expm1(comparison.spread), 1)}{far}: {advice}, then measure again."
    more = wanted - comparison.pairs
    longer = f" and take {units.wall(pair_s * more)}" if pair_s else ""
    return f"About {more} more pairs would settle it{longer}: raise --budget, or --pairs if that was the limit."


def phrase(text: str) -> str:
    """Return a message as part of a sentence: on one line, without a full stop of its own."""
    return " ".join(text.split()).rstrip(" .")
