"""Samples of two sides → one comparison; samples of one side → its figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ratchet.records.run import Performance, WorkerSamples, WorkloadIdentity
from ratchet.records.verdict import Comparison
from ratchet.stats.effect import cliffs_delta
from ratchet.stats.evidence import chance, chance_apart
from ratchet.stats.interval import Interval, bootstrap_difference, bootstrap_interval
from ratchet.stats.power import detectable_difference, detectable_effect
from ratchet.stats.ratios import kept_blocks, log_ratios, worker_median_ms

FEWEST_PAIRS = 3


def medians_ms(workers: Sequence[WorkerSamples]) -> list[float]:
    """The median of each worker that has one."""
    return [median for worker in workers if (median := worker_median_ms(worker)) is not None]


def compare_pairs(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples], confidence: float) -> Comparison | None:
    """Head against reference over interleaved pairs. None where fewer than three pairs were kept."""
    logs = log_ratios(head, reference)
    if len(logs) < FEWEST_PAIRS:
        return None
    return _comparison(
        bootstrap_interval(logs, confidence),
        confidence=confidence,
        chance=chance(logs),
        cliffs_delta=cliffs_delta(medians_ms(head), medians_ms(reference)),
        pairs=len(logs),
        detectable=detectable_effect(logs, confidence),
        source="paired",
    )


def compare_stored(head_ms: Sequence[float], stored_ms: Sequence[float], confidence: float) -> Comparison | None:
    """Head against medians measured another time: nothing cancels, so this can inform but not convict."""
    if min(len(head_ms), len(stored_ms)) < FEWEST_PAIRS:
        return None
    a, b = [math.log(value) for value in head_ms], [math.log(value) for value in stored_ms]
    return _comparison(
        bootstrap_difference(a, b, confidence),
        confidence=confidence,
        chance=chance_apart(a, b),
        cliffs_delta=cliffs_delta(head_ms, stored_ms),
        pairs=min(len(a), len(b)),
        detectable=detectable_difference(a, b, confidence),
        source="stored",
    )


def performance(workers: Sequence[WorkerSamples], workload: WorkloadIdentity, confidence: float) -> Performance | None:
    """The figures of one side; None where nothing was kept."""
    medians = medians_ms(workers)
    if not medians:
        return None
    samples = [sample for worker in workers for block in kept_blocks(worker) for sample in block.samples_ms]
    median = statistics.median(medians)
    bounds = bootstrap_interval([math.log(value) for value in medians], confidence)
    seconds = median * 1e-3
    return Performance(
        samples=len(samples),
        workers=len(medians),
        mean_time_ms=statistics.fmean(samples),
        median_time_ms=median,
        min_time_ms=min(samples),
        std_time_ms=statistics.pstdev(samples),
        ci_95_low=min(median, math.exp(bounds.low)),
        ci_95_high=max(median, math.exp(bounds.high)),
        throughput_gflops=workload.flops / seconds * 1e-9,
        bandwidth_gb_s=workload.bytes / seconds * 1e-9,
        peak_memory_bytes=max(worker.peak_memory_bytes for worker in workers),
    )


def _comparison(found: Interval, **figures: object) -> Comparison:
    bounds = {"ratio": math.exp(found.centre), "low": math.exp(found.low), "high": math.exp(found.high)}
    return Comparison.model_validate(bounds | figures)
