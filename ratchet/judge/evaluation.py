"""Decide an evaluation: is the candidate faster than the baseline, and do two clocks agree that it is?

`ratchet evaluate` calls it between rounds of pairs, and at the end. Pure.

Faster takes a bound, too low in one of two hundred runs, on that side of no change (`Comparison.bound`, a studentised bootstrap
over pairs of processes), and an exact randomisation test over the pairs (`Comparison.chance`). Slower takes such a bound past
`SAME`: what a process has of its own (where its code lies) is one or two per cent, and nobody is to be blamed for that. Same:
both bounds are within `SAME`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ratchet import units
from ratchet.errors import Exit
from ratchet.judge.sequential import looks
from ratchet.records.evaluation import EvaluationVerdict, Slope, Violation
from ratchet.records.run import WorkerSamples
from ratchet.records.verdict import Comparison
from ratchet.stats.comparison import compare_workers

CONFIDENCE = 0.95
SAME = 0.03
"""Both bounds of a change below this: the files are equally fast."""
FEWEST, CHANCE = 8, 0.005
"""Pairs without which nothing is decided, and the largest p-value of a file that is faster or slower: all of eight pairs agree.

On a busy machine a few pairs scatter too little by chance: the bound alone, of six pairs, was wrong in one run of twenty-four."""
AGREE = 0.7
"""Share of the time that a candidate seems to save which the parent's clock has to see as well."""


def looks_that_decide(pairs: int) -> tuple[int, ...]:
    """Return the numbers of pairs at which an evaluation or an experiment of so many pairs at most is looked at."""
    return tuple(number for number in looks(pairs) if number >= FEWEST) or (pairs,)


def timed_verdict(
    head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples]
) -> tuple[EvaluationVerdict, Comparison | None]:
    """Return what the pairs say so far, and the comparison of candidate time / baseline time."""
    comparison, mirrored = compare_workers(head, reference, CONFIDENCE), compare_workers(reference, head, CONFIDENCE)
    if comparison is None or mirrored is None or comparison.pairs < FEWEST:
        return "inconclusive", comparison
    above, below = comparison.bound or comparison.high, mirrored.bound or mirrored.high
    if above < 1 and comparison.chance <= CHANCE:
        return "faster", comparison
    if below < 1 / (1 + SAME) and comparison.chance <= CHANCE:
        return "slower", comparison
    return ("same" if max(above, below) < 1 + SAME else "inconclusive"), comparison


def is_confirmed(baseline_ms: float, candidate_ms: float, slope: Slope) -> bool:
    """Return whether the parent's clock sees the time that the candidate saves by the clock in its own process.

    What both sides do besides (new inputs, emptying the cache) cancels in the difference. Its scatter is allowed for.
    """
    saved_ms = baseline_ms - candidate_ms
    seen_ms = statistics.median(slope.baseline_ms) - statistics.median(slope.candidate_ms)
    noise_ms = max(_scatter(slope.baseline_ms), _scatter(slope.candidate_ms))
    return seen_ms >= AGREE * saved_ms - noise_ms


def _scatter(values: Sequence[float]) -> float:
    """Return the median distance from the median, twice."""
    middle = statistics.median(values)
    return 2 * statistics.median(abs(value - middle) for value in values)


def headline(verdict: EvaluationVerdict, comparison: Comparison | None, violations: Sequence[Violation], trouble: str) -> str:
    """Say the verdict in one sentence."""
    if violations:
        return f"Not accepted: {violations[0].message}."
    if comparison is None or verdict == "not measured":
        return f"Not measured: {trouble or 'too few pairs'}"
    speed = f"{1 / comparison.ratio:.3f} times as fast"
    interval = f"95 % interval {1 / comparison.high:.3f} to {1 / comparison.low:.3f}, {units.plural(comparison.pairs, 'pair')}"
    return {
        "faster": f"Faster: {speed} ({interval}).",
        "same": f"As fast as the baseline, within {units.threshold(SAME)} ({interval}).",
        "slower": f"Slower: {speed} ({interval}).",
        "unconfirmed": f"Not confirmed: {speed} by the clock of its own process ({interval}), but the parent's clock does not "
        "see the time that it saves. The host may take that time: use a larger input, or a CUDA graph.",
    }.get(verdict, f"Inconclusive: {speed} ({interval}); measure on a quieter machine, or with more --pairs.")


def exit_code(verdict: EvaluationVerdict) -> Exit:
    """Return 0 for a valid evaluation, 1 for a slower or an invalid candidate, 3 where nothing was shown."""
    if verdict in ("violated", "slower"):
        return Exit.REGRESSION
    return Exit.PASS if verdict in ("faster", "same") else Exit.NOT_MEASURED
