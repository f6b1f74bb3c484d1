"""From the samples of one case to one number per pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.records.run import Block, WorkerSamples


@dataclass(frozen=True)
class Pair:
    """One pair of workers: the log of head time / reference time, and the median of each side."""

    log_ratio: float
    head_ms: float
    reference_ms: float


def kept_blocks(worker: WorkerSamples) -> list[Block]:
    """The blocks that count: those not slowed by heat or a hardware brake."""
    return [block for block in worker.blocks if not block.throttled]


def worker_median_ms(worker: WorkerSamples) -> float | None:
    """The median of a worker's block medians; None where every block was dropped."""
    medians = _block_medians(worker)
    return statistics.median(medians.values()) if medians else None


def pairs_of(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples]) -> list[Pair]:
    """Every pair that both sides have and in which a block was kept on both, in the order in which they were taken.

    A pair's log ratio is the median over blocks that were taken next to each other: neighbouring blocks share clocks and
    temperature, so these cancel within a block's ratio.
    """
    others = {worker.pair: worker for worker in reference}
    taken = sorted((worker for worker in head if worker.pair in others), key=lambda worker: worker.pair)
    both = ((_block_medians(worker), _block_medians(others[worker.pair])) for worker in taken)
    return [pair for a, b in both if (pair := _pair(a, b)) is not None]


def pairs_of_medians(head: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> list[Pair]:
    """The same of times that no worker of ours took: for each pair, the medians of its blocks in milliseconds."""
    both = zip(head, reference, strict=True)
    return [pair for a, b in both if (pair := _pair(dict(enumerate(a)), dict(enumerate(b)))) is not None]


def _pair(a: Mapping[int, float], b: Mapping[int, float]) -> Pair | None:
    """From the block medians of head and reference by the number of the block."""
    logs = [math.log(a[index] / b[index]) for index in a.keys() & b.keys()]
    if not logs:
        return None
    return Pair(statistics.median(logs), statistics.median(a.values()), statistics.median(b.values()))


def _block_medians(worker: WorkerSamples) -> dict[int, float]:
    return {block.index: block.median_ms for block in worker.blocks if not block.throttled}
