"""How a time budget is shared."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ratchet.tune.executor import Budget

seconds = st.floats(1, 1e5)


@given(seconds, st.floats(0, 1))
def test_no_part_reaches_beyond_the_budget(whole: float, share: float) -> None:
    """At any moment, what is given to the finals and to the other configs ends within the budget."""
    budget = Budget(100.0, whole)
    now = 100.0 + share * (budget.ends - 100.0)
    assert 100.0 < budget.search_ends < budget.ends < 100.0 + whole
    assert now + budget.for_finals(now) <= budget.ends + 1e-6
    assert now + budget.for_others(now) <= budget.ends + 1e-6
    assert budget.for_finals(budget.ends + 1) == budget.for_others(budget.ends + 1) == 0


def test_most_of_a_budget_is_for_the_search() -> None:
    """At least seven tenths are for searching, and of a long budget all but some minutes."""
    assert Budget(0, 100).search_ends == 70
    assert Budget(0, 3600).search_ends == 3450


def test_without_a_limit_all_is_searched() -> None:
    """No budget means no end, but confirming still gets a finite time."""
    budget = Budget(0, None)
    assert budget.search_ends == budget.ends == math.inf
    assert 0 < budget.for_finals(1e9) < math.inf
    assert budget.evaluations(None, 1) is None
    assert budget.evaluations(7, 1) == 7


def test_a_strategy_plans_with_what_the_time_allows() -> None:
    """More stations and more time allow more evaluations; a number asked for is an upper limit."""
    assert Budget(0, 200).evaluations(None, 2) == 2 * (Budget(0, 200).evaluations(None, 1) or 0)
    assert Budget(0, 200).evaluations(3, 1) == 3


def test_as_many_finalists_as_can_be_decided() -> None:
    """A short time is for the best one, a longer one for more, and none for more than four."""
    assert [Budget(0, whole).finalists(0.7 * whole) for whole in (10, 60, 120, 180, 1200)] == [1, 1, 2, 3, 4]
    assert Budget(0, None).finalists(1e9) == 4
