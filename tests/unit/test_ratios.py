"""From samples to one number per pair."""

from __future__ import annotations

import math

import examples
import pytest

from ratchet.stats.ratios import kept_blocks, log_ratios, pair_log_ratio, worker_median_ms

LOG2 = math.log(2)


def test_throttled_blocks_are_left_out() -> None:
    """A block that heat slowed counts in no median and no ratio."""
    head = examples.blocks(0, 2.0, 9.0, 2.0, throttled=[1])
    reference = examples.blocks(0, 1.0, 1.0, 1.0)
    assert [block.index for block in kept_blocks(head)] == [0, 2]
    assert worker_median_ms(head) == 2.0
    assert pair_log_ratio(head, reference) == pytest.approx(LOG2)
    assert pair_log_ratio(reference, head) == pytest.approx(-LOG2)


def test_all_throttled() -> None:
    """A worker whose blocks were all slowed has no median, and its pair no ratio."""
    slowed = examples.blocks(0, 1.0, 1.0, throttled=[0, 1])
    assert worker_median_ms(slowed) is None
    assert pair_log_ratio(slowed, examples.blocks(0, 1.0, 1.0)) is None
    assert log_ratios([slowed], [examples.blocks(0, 1.0, 1.0)]) == []


def test_no_block_in_common() -> None:
    """Blocks are compared with their neighbour of the same turn only."""
    assert pair_log_ratio(examples.blocks(0, 1, 1, throttled=[0]), examples.blocks(0, 1, 1, throttled=[1])) is None


def test_drift_cancels() -> None:
    """A clock that falls through both sides alike leaves the ratio of neighbouring blocks as it was."""
    head, reference = examples.blocks(0, 2.0, 4.0, 8.0, 16.0), examples.blocks(0, 1.0, 2.0, 4.0, 8.0)
    assert pair_log_ratio(head, reference) == pytest.approx(LOG2)


def test_median_over_blocks() -> None:
    """One block that went wrong does not move its pair."""
    assert pair_log_ratio(examples.blocks(0, 2.0, 2.0, 90.0), examples.blocks(0, 1.0, 1.0, 1.0)) == pytest.approx(LOG2)


def test_pairs_match_by_number() -> None:
    """Workers are compared within their pair, wherever they stand; a worker without a partner counts nothing."""
    head = [examples.blocks(2, 4.0), examples.blocks(0, 1.0), examples.blocks(7, 5.0)]
    reference = [examples.blocks(0, 1.0), examples.blocks(1, 3.0), examples.blocks(2, 2.0)]
    assert log_ratios(head, reference) == pytest.approx([LOG2, 0.0])


def test_extreme_samples() -> None:
    """A very long sample over a very short one still has a log ratio."""
    found = pair_log_ratio(examples.blocks(0, 1e7), examples.blocks(0, 1e-8))
    assert found == pytest.approx(15 * math.log(10))
