"""Who is dropped from a race, and what a time is held against."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.tune.trials import FEWEST, SLACK, behind, normalised

ratios = st.lists(st.floats(0.1, 10), min_size=FEWEST, max_size=8)


@given(ratios, st.floats(0.1, 10))
def test_only_the_clearly_slower_are_dropped(turns: list[float], best: float) -> None:
    """Nobody whose fastest turn lies within the slack of the best is dropped; everybody beyond it is."""
    assert behind(turns, best) == (min(turns) > best * (1 + SLACK))


def test_nobody_is_dropped_early_or_without_a_rival() -> None:
    """Before the fewest turns, and before there is a best, everybody goes on."""
    assert not behind([100.0] * (FEWEST - 1), 1.0)
    assert not behind([100.0] * 9, None)


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.5, 2)), min_size=1, max_size=9))
def test_clocks_cancel_in_a_normalised_time(turns: list[tuple[float, float]]) -> None:
    """If both slow down alike from turn to turn, the normalised time stays what it is."""
    default = [2.0 * slow for _, slow in turns]
    mine = [3.0 * slow for _, slow in turns]
    assert normalised(mine, default) == pytest.approx(1.5)
