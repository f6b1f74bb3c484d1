"""From the samples of one case to one number per pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ratchet.records.run import Block, WorkerSamples


def kept_blocks(worker: WorkerSamples) -> list[Block]:
    """The blocks that count: those not slowed by heat or a hardware brake."""
    return [block for block in worker.blocks if not block.throttled]


def worker_median_ms(worker: WorkerSamples) -> float | None:
    """The median of a worker's block medians; None where every block was dropped."""
    blocks = kept_blocks(worker)
    return statistics.median(statistics.median(block.samples_ms) for block in blocks) if blocks else None


def pair_log_ratio(head: WorkerSamples, reference: WorkerSamples) -> float | None:
    """The log of head time / reference time in one pair: the median over blocks that were taken next to each other.

    Neighbouring blocks share clocks and temperature, so these cancel within a block's ratio. None where no block
    was kept on both sides.
    """
    others = {block.index: block for block in kept_blocks(reference)}
    logs = [
        math.log(statistics.median(block.samples_ms)) - math.log(statistics.median(others[block.index].samples_ms))
        for block in kept_blocks(head)
        if block.index in others
    ]
    return statistics.median(logs) if logs else None


def log_ratios(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples]) -> list[float]:
    """One log ratio for each pair that both sides have."""
    others = {worker.pair: worker for worker in reference}
    found = (pair_log_ratio(worker, others[worker.pair]) for worker in head if worker.pair in others)
    return [ratio for ratio in found if ratio is not None]
