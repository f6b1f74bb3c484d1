"""Samples of two sides → one comparison; samples of one side → its figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ratchet.records.run import SESSION_PAIRS, Performance, WorkerSamples, WorkloadIdentity
from ratchet.records.verdict import Comparison
from ratchet.stats.effect import cliffs_delta
from ratchet.stats.estimate import (
    Estimate,
    estimate,
    estimate_apart,
    estimate_between_days,
    student_interval,
    without_outliers,
)
from ratchet.stats.ratios import Pair, kept_blocks, pairs_of, worker_median_ms

FEWEST_PAIRS = 3
FEWEST_DAYS = 3
LARGEST_LOG = 60.0
"""Beyond what two times between a picosecond and eleven days can give."""


def medians_ms(workers: Sequence[WorkerSamples]) -> list[float]:
    """The median of each worker that has one."""
    return [median for worker in workers if (median := worker_median_ms(worker)) is not None]


def compare_workers(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples], confidence: float) -> Comparison | None:
    """Head against reference over interleaved pairs. None where fewer than three pairs were kept."""
    return compare_pairs(pairs_of(head, reference), confidence)


def compare_pairs(pairs: Sequence[Pair], confidence: float) -> Comparison | None:
    """The comparison that these pairs show, in the order in which they were taken. None where there are fewer than three."""
    if len(pairs) < FEWEST_PAIRS:
        return None
    logs = [pair.log_ratio for pair in pairs]
    parts = (logs[:SESSION_PAIRS], logs[SESSION_PAIRS:])
    sessions = tuple(_exp(_majority_mean(part)) for part in parts if part)
    delta = cliffs_delta([pair.head_ms for pair in pairs], [pair.reference_ms for pair in pairs])
    return _comparison(estimate(logs, confidence), confidence, delta, len(pairs), sessions=sessions)


def compare_stored(
    head_ms: Sequence[float], stored_ms: Sequence[float], confidence: float, days_ms: Sequence[float] = ()
) -> Comparison | None:
    """Head against medians measured another time, where nothing cancels.

    ``days_ms`` are centres of the stored code on earlier days, one a day. From three days on, their spread widens the
    interval and ``source`` is ``"days"``; with fewer it is ``"stored"``, which can inform but not convict.
    """
    if len(days_ms) >= FEWEST_DAYS and len(head_ms) >= FEWEST_PAIRS:
        between = estimate_between_days(_logs(head_ms), _logs(days_ms), confidence)
        return _comparison(between, confidence, cliffs_delta(head_ms, days_ms), len(head_ms), "days")
    if min(len(head_ms), len(stored_ms)) < FEWEST_PAIRS:
        return None
    apart = estimate_apart(_logs(head_ms), _logs(stored_ms), confidence)
    return _comparison(apart, confidence, cliffs_delta(head_ms, stored_ms), min(len(head_ms), len(stored_ms)), "stored")


def performance(workers: Sequence[WorkerSamples], workload: WorkloadIdentity, confidence: float) -> Performance | None:
    """The figures of one side; None where nothing was kept."""
    medians = medians_ms(workers)
    if not medians:
        return None
    samples = [sample for worker in workers for block in kept_blocks(worker) for sample in block.samples_ms]
    median = statistics.median(medians)
    _, low, high = student_interval(_logs(medians), confidence)
    seconds = median * 1e-3
    return Performance(
        samples=len(samples),
        workers=len(medians),
        mean_time_ms=statistics.fmean(samples),
        median_time_ms=median,
        min_time_ms=min(samples),
        std_time_ms=statistics.pstdev(samples),
        ci_95_low=min(median, _exp(low)),
        ci_95_high=max(median, _exp(high)),
        throughput_gflops=workload.flops / seconds * 1e-9,
        bandwidth_gb_s=workload.bytes / seconds * 1e-9,
        peak_memory_bytes=max(worker.peak_memory_bytes for worker in workers),
    )


def _majority_mean(log_ratios: Sequence[float]) -> float:
    """The mean of one session, without outliers while these are a minority: of eight pairs, three may be."""
    return float(without_outliers(np.asarray(log_ratios), most=(len(log_ratios) - 1) // 2).mean())


def _comparison(
    estimated: Estimate,
    confidence: float,
    delta: float,
    pairs: int,
    source: Literal["paired", "stored", "days"] = "paired",
    sessions: tuple[float, ...] = (),
) -> Comparison:
    return Comparison(
        ratio=_exp(estimated.centre),
        low=_exp(estimated.low),
        high=_exp(estimated.high),
        bound=_exp(estimated.bound),
        confidence=confidence,
        chance=estimated.p_value,
        cliffs_delta=delta,
        pairs=pairs,
        rogues=estimated.outliers,
        other=tuple(map(_exp, estimated.other)) if estimated.other else None,
        spread=estimated.spread,
        correlation=estimated.correlation,
        sessions=sessions,
        source=source,
    )


def _logs(values_ms: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values_ms]


def _exp(log: float) -> float:
    return math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, log)))
