"""What is slow now and then, and how finely times are known: the mean of everything that was timed, and the steps of samples.

A median hides one slow call in ten and one slow process in five. A user pays for them. `comparison.py` beside this file calls it
for each case. Pure; knows records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ratchet.core.judge.estimate import Floats, quantile, randomisation_p, session_medians, student_p
from ratchet.core.records.run import WorkerSamples, packed_samples
from ratchet.core.records.verdict import Total

SLOW_PROCESS, SLOW_CALL = 1.1, 1.5
"""A process, or a call, is slow if it takes this many times the median one, …"""
_LARGEST_LOG = 30.0
SLOW_SPREADS = 5
"""… and lies so many robust spreads above it."""


@dataclass(frozen=True)
class PairTotal:
    """One pair of workers, or a light one: everything that was timed in both, in the blocks that both have."""

    head_ms: Floats
    reference_ms: Floats
    session: int


def shared_pairs(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples]) -> list[tuple[WorkerSamples, WorkerSamples]]:
    """Return the pairs that both sides have, in the order in which they were taken."""
    others = {worker.pair: worker for worker in reference}
    return [(ours, others[ours.pair]) for ours in sorted(head, key=lambda worker: worker.pair) if ours.pair in others]


def totals_of(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples]) -> list[PairTotal]:
    """Return all that was timed in each pair, light ones included, in the order in which they were taken."""
    found = []
    for ours, theirs in shared_pairs(head, reference):
        blocks = {block.index: packed_samples(block) for block in theirs.kept_blocks}
        both = [(packed_samples(block), blocks[block.index]) for block in ours.kept_blocks if block.index in blocks]
        if both:
            head_ms, reference_ms = (np.concatenate([pair[side] for pair in both]) for side in (0, 1))
            found.append(PairTotal(head_ms, reference_ms, ours.session))
    return found


def compare_totals(totals: Sequence[PairTotal], confidence: float) -> Total:
    """Compare the means of everything that was timed; a process counts once, however many calls were timed in it.

    The ratio is that of the sides' means. Its interval is Student's t, by linearisation: W. G. Cochran, Sampling Techniques
    (1977), section 6.4. The p-value is that of `randomisation_p`, not capped.
    """
    heads, references = (np.array([getattr(one, side).mean() for one in totals]) for side in ("head_ms", "reference_ms"))
    ratio = float(heads.sum() / references.sum())
    away = (heads - ratio * references) / heads.mean()
    half = quantile((1 + confidence) / 2, away.size - 1) * math.sqrt(float(away @ away) / (away.size * (away.size - 1)))
    logs = _logs(heads / references)
    sessions = session_medians(logs.tolist(), [one.session for one in totals])
    factor, slow = _slow_of(heads, references, SLOW_PROCESS)
    calls = [_slow_of(one.head_ms, one.reference_ms, SLOW_CALL) for one in totals]
    counts = [sum(getattr(one, side).size for one in totals) for side in ("head_ms", "reference_ms")]
    return Total(
        ratio=ratio,
        low=ratio * math.exp(-min(half, _LARGEST_LOG)),
        high=ratio * math.exp(min(half, _LARGEST_LOG)),
        chance=randomisation_p(logs, slower=ratio >= 1, capped=False),
        sessions_chance=student_p(sessions, slower=ratio >= 1),
        processes=len(totals),
        slow_processes=slow,
        process_factor=factor,
        calls=(counts[0], counts[1]),
        slow_calls=(sum(of[0] for _, of in calls), sum(of[1] for _, of in calls)),
        call_factor=max((factor for factor, of in calls if of[0]), default=1.0),
    )


def _slow_of(head: Floats, reference: Floats, least: float) -> tuple[float, tuple[int, int]]:
    """Return how many times the median the head's slow values take (1: it has none), and how many are slow on each side."""
    sides = [_logs(side / np.median(side)) for side in (head, reference)]
    spread = 1.4826 * float(np.median(np.abs(np.concatenate(sides))))
    limit = max(math.log(least), SLOW_SPREADS * spread)
    slow = sides[0][sides[0] > limit]
    return (math.exp(np.median(slow)) if slow.size else 1.0), (int(slow.size), int((sides[1] > limit).sum()))


def _logs(ratios: Floats) -> Floats:
    """Return the logs by the C library, since the last digit of numpy's depends on the processor."""
    return np.array([math.log(ratio) for ratio in ratios.tolist()])


# Resolution: a clock that counts in steps, or a file that keeps few digits.

_DIGITS = 12
"""More digits than any clock has; fewer than those in which binary fractions show."""
_FINE = 1e-6
"""A step of this fraction matters to nobody."""
_MOST_UNKNOWN = 0.95
"""A time that may be next to nothing: a logarithm needs an end."""


def resolution_of(workers: Sequence[WorkerSamples]) -> float:
    """Return how far, as a log, the time of a side may lie from its samples: half a step at their median.

    The step is one unit of the last digit that any sample has; where values repeat, it is the distance of the two nearest ones if
    that is more.
    """
    samples = np.array([sample for worker in workers for block in worker.kept_blocks for sample in packed_samples(block)])
    if samples.size == 0:
        return 0.0
    distinct = np.unique(samples)
    step = _last_digit(distinct)
    if 1 < distinct.size <= samples.size / 2:
        step = max(step, float(np.diff(distinct).min()))
    return -math.log1p(-min(_MOST_UNKNOWN, step / 2 / float(np.median(samples))))


def _last_digit(values: Floats) -> float:
    """Return one unit of the last digit that any of these has: (2.0, 3.0) → 1, (0.155, 0.2) → 0.001."""
    least = math.inf
    for value in values.tolist():
        digits, exponent = f"{value:.{_DIGITS - 1}e}".split("e")
        least = min(least, 10.0 ** (int(exponent) - len(digits.rstrip("0").partition(".")[2])))
        if least <= _FINE * value:
            return 0.0
    return least
