"""The samples of one case → one log ratio per pair → one comparison of the two sides, or the figures of one side.

Two questions are asked. *Typical*: the median call, which one slow call or one slow process hardly moves. *Total*: the mean of
everything that was timed, which is what a user pays. `estimate.py` beside this file has the statistics; this file knows records.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ratchet.core.judge.estimate import (
    Estimate,
    Floats,
    estimate,
    estimate_apart,
    quantile,
    randomisation_p,
    session_medians,
    student_interval,
    student_p,
)
from ratchet.core.records.run import Performance, WorkerSamples, WorkloadIdentity, packed_samples
from ratchet.core.records.verdict import Comparison, Total


@dataclass(frozen=True)
class Pair:
    """One pair of workers: the log of head time / reference time, and the median of each side."""

    log_ratio: float
    head_ms: float
    reference_ms: float
    session: int = 0
    """The pair of hosts that both were forked from."""


def medians_ms(workers: Sequence[WorkerSamples]) -> list[float]:
    """Return the median of each worker's block medians, in milliseconds; none for a worker whose blocks were all dropped."""
    return _row_medians([array("d", medians.values()) for medians in _block_medians(workers) if medians])


def pairs_of(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples]) -> list[Pair]:
    """Return every pair that both sides have and in which a block was kept on both, in the order in which they were taken.

    A pair's log ratio is the median over blocks that were taken next to each other: neighbouring blocks share clocks and
    temperature, so these cancel within a block's ratio. Light pairs are too short for that, and are none of these.
    """
    shared = shared_pairs(head, reference)
    medians = _block_medians([*(ours for ours, _ in shared), *(theirs for _, theirs in shared)])
    sessions = [ours.session for ours, _ in shared]
    return _pairs(medians[: len(shared)], medians[len(shared) :], sessions)


def pairs_of_medians(
    head: Sequence[Sequence[float]], reference: Sequence[Sequence[float]], sessions: Sequence[int] = ()
) -> list[Pair]:
    """Return the pairs of workers whose block medians, in milliseconds, are given: place i of each side is pair i.

    Raises ValueError where the sides have different numbers of workers.
    """
    ours, theirs = ([dict(enumerate(medians)) for medians in side] for side in (head, reference))
    return _pairs(ours, theirs, sessions or [0] * len(head))


BlockMedians = dict[int, float]
"""Number of each block that was kept → its median in milliseconds."""


def _block_medians(workers: Sequence[WorkerSamples]) -> list[BlockMedians]:
    kept = [[] if worker.is_light else worker.kept_blocks for worker in workers]
    medians = iter(_row_medians([packed_samples(block) for blocks in kept for block in blocks]))
    return [dict(zip([block.index for block in blocks], medians)) for blocks in kept]  # noqa: B905 - each takes its own share


def _pairs(head: Sequence[BlockMedians], reference: Sequence[BlockMedians], sessions: Sequence[int]) -> list[Pair]:
    rows = [row for row in zip(head, reference, sessions, strict=True) if row[0].keys() & row[1].keys()]
    both = [(a, b) for a, b, _ in rows]
    # math.log, since the last digit of numpy's depends on the processor.
    logs = [array("d", [math.log(a[index] / b[index]) for index in a.keys() & b.keys()]) for a, b in both]
    heads, references = ([array("d", pair[side].values()) for pair in both] for side in (0, 1))
    return list(map(Pair, *map(_row_medians, (logs, heads, references)), (session for *_, session in rows)))


def _row_medians(rows: list[array[float]]) -> list[float]:
    """Return the median of each row. Rows of equal length are sorted together, since a large run has half a million of them."""
    medians = np.empty(len(rows))
    lengths = list(map(len, rows))
    for length in set(lengths):
        places = [place for place, other in enumerate(lengths) if other == length]
        table = np.frombuffer(b"".join([rows[place] for place in places])).reshape(-1, length).copy()
        table.sort(axis=1)
        medians[places] = (table[:, (length - 1) // 2] + table[:, length // 2]) / 2
    result: list[float] = medians.tolist()
    return result


def cliffs_delta(head: Sequence[float], reference: Sequence[float]) -> float:
    """Return P(head > reference) − P(head < reference) over all pairs of values, in O(n log n): for readers, no decision uses it.

    −1: every head time is below every reference time; +1: above; 0: no tendency. Source: N. Cliff, Psychological
    Bulletin 114 (1993), 494. Raises ValueError where a side is empty or holds NaN.
    """
    a, b = np.asarray(head), np.sort(reference)
    if a.size == 0 or b.size == 0 or np.isnan(a).any() or np.isnan(b).any():
        raise ValueError("Cliff's delta needs values on both sides, none of them NaN")
    above = np.searchsorted(b, a).sum()
    below = (b.size - np.searchsorted(b, a, side="right")).sum()
    return float((int(above) - int(below)) / (a.size * b.size))


FEWEST_PAIRS = 3
"""Fewer pairs give no interval."""
FEWEST_DAYS = 3
"""With fewer days, the spread between days is not known well enough to convict."""
LARGEST_LOG = 60.0
"""Largest size of a log ratio, so that `exp` never overflows: two times between a picosecond and eleven days stay below it."""


def compare_workers(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples], confidence: float) -> Comparison | None:
    """Compare head and reference over interleaved pairs. None where fewer than three pairs were kept."""
    resolution = resolution_of(head) + resolution_of(reference)
    return compare_pairs(pairs_of(head, reference), confidence, totals_of(head, reference), resolution)


def compare_kernels(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples], confidence: float) -> Comparison | None:
    """Compare the time of the kernels alone (`WorkerSamples.kernels_ms`). None where fewer than three pairs have it."""
    others = {worker.pair: worker.kernels_ms for worker in reference if worker.kernels_ms}
    shared = sorted((one.pair, one.kernels_ms, one.session) for one in head if one.kernels_ms and one.pair in others)
    ours = [[statistics.median(times)] for _, times, _ in shared]
    theirs = [[statistics.median(others[pair])] for pair, *_ in shared]
    compared = compare_pairs(pairs_of_medians(ours, theirs, [session for *_, session in shared]), confidence)
    return compared.model_copy(update={"source": "kernels"}) if compared else None


def kernels_median_ms(workers: Sequence[WorkerSamples]) -> float | None:
    """Return the median over workers of the time of their kernels alone, in milliseconds; None where nothing has it."""
    medians = [statistics.median(worker.kernels_ms) for worker in workers if worker.kernels_ms]
    return statistics.median(medians) if medians else None


def compare_pairs(
    pairs: Sequence[Pair], confidence: float, totals: Sequence[PairTotal] = (), resolution: float = 0.0
) -> Comparison | None:
    """Compare the sides of these pairs, given in the order in which they were taken. None where there are fewer than three.

    ``totals`` answer the question about the mean. ``resolution``: the times of both sides are known no better than to this
    fraction together, however many there are.
    """
    if len(pairs) < FEWEST_PAIRS:
        return None
    logs = [pair.log_ratio for pair in pairs]
    estimated = estimate(logs, confidence)
    sessions = session_medians(logs, [pair.session for pair in pairs])
    delta = cliffs_delta([pair.head_ms for pair in pairs], [pair.reference_ms for pair in pairs])
    compared = _comparison(estimated, confidence, delta, len(pairs), resolution=resolution)
    return compared.model_copy(
        update={
            "sessions": tuple(map(_exp, sessions)),
            "sessions_p_value": student_p(sessions, slower=estimated.centre >= 0),
            "total": compare_totals(totals, confidence) if len(totals) >= FEWEST_PAIRS else None,
        }
    )


def compare_stored(
    head_ms: Sequence[float], stored_ms: Sequence[float], confidence: float, days_ms: Sequence[float] = ()
) -> Comparison | None:
    """Compare the head with medians measured another time, where nothing cancels. None where a side has fewer than three.

    ``days_ms`` are centres of the stored code on earlier days, one a day. From three days on, their spread widens the
    interval and ``source`` is ``"days"``; with fewer it is ``"stored"``, which can inform but not convict.
    """
    if len(days_ms) >= FEWEST_DAYS and len(head_ms) >= FEWEST_PAIRS:
        between = estimate_apart(_logs(head_ms), _logs(days_ms), confidence, are_days=True)
        return _comparison(between, confidence, cliffs_delta(head_ms, days_ms), len(head_ms), "days")
    if min(len(head_ms), len(stored_ms)) < FEWEST_PAIRS:
        return None
    apart = estimate_apart(_logs(head_ms), _logs(stored_ms), confidence)
    return _comparison(apart, confidence, cliffs_delta(head_ms, stored_ms), min(len(head_ms), len(stored_ms)), "stored")


def performance(workers: Sequence[WorkerSamples], workload: WorkloadIdentity, confidence: float) -> Performance | None:
    """Return the figures of one side; None where nothing was kept."""
    medians = medians_ms(workers)
    if not medians:
        return None
    samples = _kept_samples(workers)
    median = statistics.median(medians)
    _, low, high = student_interval(_logs(medians), confidence)
    seconds = median * 1e-3
    return Performance(
        samples=len(samples),
        workers=len(medians),
        mean_time_ms=math.fsum(samples.tolist()) / len(samples),
        median_time_ms=median,
        min_time_ms=float(samples.min()),
        std_time_ms=float(np.std(samples)),
        ci_95_low=min(median, _exp(low)),
        ci_95_high=max(median, _exp(high)),
        throughput_gflops=(workload.flops or 0.0) / seconds * 1e-9,
        bandwidth_gb_s=(workload.bytes or 0.0) / seconds * 1e-9,
        peak_memory_bytes=max(worker.peak_memory_bytes for worker in workers),
    )


def _kept_samples(workers: Sequence[WorkerSamples]) -> Floats:
    return np.frombuffer(b"".join([packed_samples(block) for worker in workers for block in worker.kept_blocks]))


def _comparison(
    estimated: Estimate,
    confidence: float,
    delta: float,
    pairs: int,
    source: Literal["paired", "stored", "days"] = "paired",
    resolution: float = 0.0,
) -> Comparison:
    return Comparison(
        ratio=_exp(estimated.centre),
        low=_exp(estimated.low - resolution),
        high=_exp(estimated.high + resolution),
        bound=_exp(estimated.bound + resolution),
        resolution=resolution,
        confidence=confidence,
        p_value=estimated.p_value,
        cliffs_delta=delta,
        pairs=pairs,
        outliers=estimated.outliers,
        spread=estimated.spread,
        correlation=estimated.correlation,
        effective_pairs=estimated.effective_pairs if source == "paired" else None,
        decile_bounds=(_exp(estimated.decile_bounds[0]), _exp(estimated.decile_bounds[1])) if source == "paired" else None,
        source=source,
    )


def _logs(values_ms: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values_ms]


def _exp(log: float) -> float:
    return math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, log)))


SLOW_PROCESS, SLOW_CALL = 1.1, 1.5
"""A process, or a call, is slow if it takes this many times the median one, …"""
_LARGEST_LOG = 30.0
SLOW_SPREADS = 5
"""… and lies so many robust spreads above it."""


class PairTotal(NamedTuple):
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
            head_ms, reference_ms = (np.frombuffer(b"".join([pair[side] for pair in both])) for side in (0, 1))
            found.append(PairTotal(head_ms, reference_ms, ours.session))
    return found


def compare_totals(totals: Sequence[PairTotal], confidence: float) -> Total:
    """Compare the means of everything that was timed; a process counts once, however many calls were timed in it.

    The ratio is that of the sides' means. Its interval is Student's t, by linearisation: W. G. Cochran, Sampling Techniques
    (1977), section 6.4. The p-value is that of `randomisation_p`, not capped.
    """
    pairs = [(one.head_ms, one.reference_ms) for one in totals]
    heads, references = (np.array([np.add.reduce(side) / side.size for side in sides]) for sides in zip(*pairs, strict=True))
    ratio = float(heads.sum() / references.sum())
    away = (heads - ratio * references) / heads.mean()
    half = quantile((1 + confidence) / 2, away.size - 1) * math.sqrt(float(away @ away) / (away.size * (away.size - 1)))
    # By the C library, since the last digit of numpy's logarithm depends on the processor.
    logs = np.array(list(map(math.log, (heads / references).tolist())))
    sessions = session_medians(logs.tolist(), [one.session for one in totals])
    [(factor, slow)] = _slow_of([(heads, references)], SLOW_PROCESS)
    alike: dict[tuple[int, ...], list[tuple[Floats, Floats]]] = {}  # looked at together, since a large run has many
    for sides in pairs:
        alike.setdefault(tuple(side.size for side in sides), []).append(sides)
    calls = [slow_calls for group in alike.values() for slow_calls in _slow_of(group, SLOW_CALL)]
    return Total(
        ratio=ratio,
        low=ratio * math.exp(-min(half, _LARGEST_LOG)),
        high=ratio * math.exp(min(half, _LARGEST_LOG)),
        p_value=randomisation_p(logs, slower=ratio >= 1, capped=False),
        sessions_p_value=student_p(sessions, slower=ratio >= 1),
        processes=len(totals),
        slow_processes=slow,
        process_factor=factor,
        calls=(sum(ours.size for ours, _ in pairs), sum(theirs.size for _, theirs in pairs)),
        slow_calls=(sum(of[0] for _, of in calls), sum(of[1] for _, of in calls)),
        call_factor=max((factor for factor, of in calls if of[0]), default=1.0),
    )


def _slow_of(pairs: Sequence[tuple[Floats, Floats]], least: float) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield for each head and reference how many times the median the head's slow values take (1: it has none), and how many are
    slow on each side. All heads are of one length, and so are all references.
    """
    rows = [np.stack(side) for side in zip(*pairs, strict=True)]
    sides = [side / (np.add(*_middle(side)) / 2)[:, None] for side in rows]
    both = np.concatenate(sides, axis=1)
    # The median of logs is the log of a median: a large run has millions of values, whose logs would take most of the time.
    spreads = [1.4826 * math.log(low * high) / 2 for low, high in zip(*_middle(np.maximum(both, 1 / both)), strict=True)]
    limits = np.array([max(least, math.exp(min(SLOW_SPREADS * spread, _LARGEST_LOG))) for spread in spreads])
    are_slow = [side > limits[:, None] for side in sides]
    counts = zip(*(np.count_nonzero(slow, axis=1).tolist() for slow in are_slow), strict=True)
    for values, slow, count in zip(sides[0], are_slow[0], counts, strict=True):
        yield math.sqrt(math.prod(middle.item() for middle in _middle(values[None, slow]))) if count[0] else 1.0, count


def _middle(rows: Floats) -> tuple[Floats, Floats]:
    """Return the two values in the middle of each row, the same one twice of an odd number of values."""
    low, high = (rows.shape[1] - 1) // 2, rows.shape[1] // 2
    parted = np.partition(rows, (low, high), axis=1)  # `numpy.median` takes several times as long
    return parted[:, low], parted[:, high]


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
    samples = np.sort(_kept_samples(workers))
    if not samples.size:
        return 0.0
    steps = np.diff(samples)
    distinct = samples[np.flatnonzero(steps) + 1]
    step = _last_digit([float(samples[0]), *distinct.tolist()])
    if 0 < distinct.size <= samples.size / 2 - 1:
        step = max(step, float(steps[steps > 0].min()))
    median = (samples[(samples.size - 1) // 2] + samples[samples.size // 2]) / 2
    return -math.log1p(-min(_MOST_UNKNOWN, step / 2 / float(median)))


def _last_digit(values: Sequence[float]) -> float:
    """Return one unit of the last digit that any of these has: (2.0, 3.0) → 1, (0.155, 0.2) → 0.001."""
    least = math.inf
    for value in values:
        digits, exponent = f"{value:.{_DIGITS - 1}e}".split("e")
        least = min(least, 10.0 ** (int(exponent) - len(digits.rstrip("0").partition(".")[2])))
        if least <= _FINE * value:
            return 0.0
    return least
