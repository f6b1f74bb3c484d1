"""Cliff's delta."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.core.judge.comparison import cliffs_delta

VALUES = st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 1e-9, 1e9]) | st.floats(0.01, 100), min_size=1, max_size=20)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_definition(head: list[float], reference: list[float]) -> None:
    """It is the share of pairs won minus the share lost, ties counting for neither."""
    wins = sum((a > b) - (a < b) for a in head for b in reference)
    assert cliffs_delta(head, reference) == pytest.approx(wins / (len(head) * len(reference)), abs=1e-12)


@pytest.mark.parametrize(("head", "reference"), [([], [1.0]), ([1.0], []), ([math.nan], [1.0]), ([1.0], [1.0, math.nan])])
def test_nothing_to_compare(head: list[float], reference: list[float]) -> None:
    """An empty side or NaN is refused."""
    with pytest.raises(ValueError, match=r"^Cliff's delta needs values on both sides, none of them NaN$"):
        cliffs_delta(head, reference)
