"""Levels of many cases judged at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.stats.family import holm_levels

CHANCES = st.lists(st.integers(0, 400).map(lambda value: value / 4000), max_size=12)
STEADY = settings(deadline=None, derandomize=True, max_examples=100)


@pytest.mark.parametrize(
    ("chances", "levels"),
    [
        ([], []),
        ([0.01], [0.06]),
        ([0.9], [0.06]),
        ([0.001, 0.04, 0.025], [0.02, 0.06, 0.03]),  # all three are rejected, one after the other
        ([0.025, 0.001, 0.07], [0.03, 0.02, 0.06]),  # the last is not
        ([0.021, 0.021, 0.5], [0.02, 0.02, 0.02]),  # the first is not, so no other may be
        ([0.05, 0.001, 0.04], [0.03, 0.02, 0.03]),  # 0.05 would be under 0.06, but 0.04 stopped it at 0.03
        ([0.02, 0.03], [0.03, 0.06]),  # at its level, a p-value is rejected
        ([0.01, 0.01], [0.03, 0.06]),
    ],
)
def test_by_hand(chances: list[float], levels: list[float]) -> None:
    """At a level of 6 %, small families have the levels that counting on fingers gives, in their own order."""
    assert holm_levels(chances, 0.06) == pytest.approx(levels)


def rejected(chances: list[float], level: float) -> list[bool]:
    return [chance <= own for chance, own in zip(chances, holm_levels(chances, level), strict=True)]


@STEADY
@given(CHANCES, st.sampled_from([0.001, 0.01, 0.05]))
def test_definition(chances: list[float], level: float) -> None:
    """What is rejected is what Holm's adjusted p-values, the running maximum of (n − i) × p, put under the level."""
    exact = [Fraction(chance).limit_denominator(4000) for chance in chances]
    adjusted, worst = [Fraction(0)] * len(exact), Fraction(0)
    for rank, index in enumerate(sorted(range(len(exact)), key=exact.__getitem__)):
        worst = max(worst, (len(exact) - rank) * exact[index])
        adjusted[index] = worst
    limit = Fraction(level).limit_denominator(1000)
    if limit in adjusted:  # at the level itself a float may round to either side
        return
    assert rejected(chances, level) == [each <= limit for each in adjusted]


@STEADY
@given(CHANCES.filter(bool), st.sampled_from([0.001, 0.01, 0.05]))
def test_between_bonferroni_and_none(chances: list[float], level: float) -> None:
    """No level is stricter than an equal share or looser than the whole, and what equal shares reject, these do."""
    levels = holm_levels(chances, level)
    assert min(levels) >= level / len(chances)
    assert max(levels) <= level
    equal = [chance <= level / len(chances) for chance in chances]
    assert all(own for own, share in zip(rejected(chances, level), equal, strict=True) if share)


@STEADY
@given(CHANCES, st.integers(0, 400).map(lambda value: value / 4000), st.sampled_from([0.001, 0.01, 0.05]))
def test_one_more_makes_none_easier(chances: list[float], more: float, level: float) -> None:
    """A family with one member more has no looser level for any of the others."""
    without, with_it = holm_levels(chances, level), holm_levels([*chances, more], level)[:-1]
    assert all(own <= before for own, before in zip(with_it, without, strict=True))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("real", [0, 4])
def test_a_family_is_rarely_wrong(*, shared: bool, real: int) -> None:
    """Of families of eight at a level of 5 %, at most one in twenty has a false rejection: alone, alike or beside real ones."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(4000):
        nothing = [rng.random()] * (8 - real) if shared else list(rng.random(8 - real))
        wrong += any(rejected([*nothing, *[1e-9] * real], 0.05)[: 8 - real])
    assert wrong / 4000 <= 0.05 + 3 * (0.05 * 0.95 / 4000) ** 0.5
    if not shared:
        assert wrong / 4000 >= 0.03  # and it is not stricter than it must be
