"""From samples to one number per pair."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from ratchet.core.judge.comparison import Pair, medians_ms, pairs_of, pairs_of_medians
from ratchet.core.records.run import Block, WorkerSamples
from tests import examples

LOG2 = math.log(2)


def ratio(head: WorkerSamples, reference: WorkerSamples) -> float:
    (pair,) = pairs_of([head], [reference])
    return pair.log_ratio


def test_throttled_blocks_are_left_out() -> None:
    """A block that heat slowed counts in no median and no ratio, on either side."""
    head = examples.blocks(0, 2.0, 9.0, 2.0, throttled=[1])
    reference = examples.blocks(0, 1.0, 1.0, 1.0)
    assert [block.index for block in head.kept_blocks] == [0, 2]
    assert medians_ms([head]) == [2.0]
    assert pairs_of([head], [reference]) == [Pair(pytest.approx(LOG2), 2.0, 1.0)]
    assert pairs_of([reference], [head]) == [Pair(pytest.approx(-LOG2), 1.0, 2.0)]


@pytest.mark.parametrize("samples", [(3.0,), (1.0, 4.0), (3.0, 1.0, 2.0), (0.1, 0.3, 0.2, 0.7)])
def test_median(samples: tuple[float, ...]) -> None:
    """A worker's median is that of the statistics module, to the last digit, beside workers with more samples."""
    block = Block(index=0, position=0, samples_ms=samples)
    worker = replace(examples.blocks(0, 1.0), blocks=(block,))
    assert medians_ms([examples.blocks(0, 1.0, 3.0), worker]) == [2.0, statistics.median(samples)]


def test_all_throttled() -> None:
    """A worker whose blocks were all slowed has no median, and its pair does not count."""
    slowed = examples.blocks(0, 1.0, 1.0, throttled=[0, 1])
    assert medians_ms([slowed]) == []
    assert slowed.kept_blocks == []
    assert pairs_of([slowed], [examples.blocks(0, 1.0, 1.0)]) == []
    assert pairs_of([examples.blocks(0, 1.0, 1.0)], [slowed]) == []


def test_no_block_in_common() -> None:
    """Blocks are compared with their neighbour of the same turn only."""
    assert pairs_of([examples.blocks(0, 1, 1, throttled=[0])], [examples.blocks(0, 1, 1, throttled=[1])]) == []


def test_drift_cancels() -> None:
    """A clock that falls through both sides alike leaves the ratio of neighbouring blocks as it was."""
    head, reference = examples.blocks(0, 2.0, 4.0, 8.0, 16.0), examples.blocks(0, 1.0, 2.0, 4.0, 8.0)
    assert ratio(head, reference) == pytest.approx(LOG2)


def test_median_over_blocks() -> None:
    """One block that went wrong does not move its pair."""
    assert ratio(examples.blocks(0, 2.0, 2.0, 90.0), examples.blocks(0, 1.0, 1.0, 1.0)) == pytest.approx(LOG2)


def test_median_of_each_side() -> None:
    """A pair's times are the medians over the blocks of each side, whatever their ratios are."""
    (pair,) = pairs_of([examples.blocks(0, 1.0, 5.0, 3.0)], [examples.blocks(0, 4.0, 2.0, 7.0)])
    assert (pair.head_ms, pair.reference_ms) == (3.0, 4.0)
    assert pair.log_ratio == pytest.approx(math.log(3 / 7))


def test_pairs_match_by_number() -> None:
    """Workers are compared within their pair, in the order of pairs, wherever they stand; one without a partner is left out."""
    head = [examples.blocks(2, 4.0), examples.blocks(0, 1.0), examples.blocks(7, 5.0)]
    reference = [examples.blocks(0, 1.0), examples.blocks(1, 3.0), examples.blocks(2, 2.0)]
    assert pairs_of(head, reference) == [Pair(0.0, 1.0, 1.0), Pair(pytest.approx(LOG2), 4.0, 2.0)]
    assert pairs_of([], reference) == pairs_of(head, []) == []


def test_medians_of_other_workers() -> None:
    """Medians of blocks that no worker of ours took give the pairs that a worker's would have."""
    head, reference = [[2.0, 4.0, 90.0], [1.0]], [[1.0, 2.0, 3.0], [2.0]]
    assert pairs_of_medians(head, reference) == pairs_of(
        [examples.blocks(pair, *medians) for pair, medians in enumerate(head)],
        [examples.blocks(pair, *medians) for pair, medians in enumerate(reference)],
    )
    with pytest.raises(ValueError, match="argument 2 is"):
        pairs_of_medians(head, reference[:1])
