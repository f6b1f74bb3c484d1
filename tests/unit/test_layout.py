"""Objects that lie in the way."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.bench.child.worker import padding_objects

pytestmark = pytest.mark.no_cover

SEEDS = st.integers(0, 2**32)


def sizes(seed: int) -> list[int]:
    return [sys.getsizeof(each) for each in padding_objects(seed)]


@given(SEEDS)
def test_one_seed_is_one_layout(seed: int) -> None:
    """The same seed gives objects of the same sizes in the same order, another seed gives others."""
    assert sizes(seed) == sizes(seed)
    assert sizes(seed) != sizes(seed + 1)


@given(SEEDS)
def test_little_memory_is_taken(seed: int) -> None:
    """However many objects are drawn, they take less than 16 MiB."""
    assert sum(sizes(seed)) < 16 * 2**20
