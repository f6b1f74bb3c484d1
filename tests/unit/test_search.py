"""The search: what it may propose, whatever the strategy."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_spaces import SPACES, best_so_far, read

from ratchet.core.errors import UsageError
from ratchet.tune.search import STRATEGIES, Search
from ratchet.tune.space import Space, candidates

pytestmark = pytest.mark.no_cover

QUICK = [name for name in STRATEGIES if name != "tpe"]
SPACE = Space(
    {"a": (1, 2, 4, 8, 16), "b": (1, 2, 4), "c": ("row", "column", "tile"), "d": (False, True), "one": (7,)},
    (lambda a, b: a * b <= 32, lambda a, c: not (a == 16 and c == "tile")),
    {"a": 4, "b": 2, "c": "row", "d": False, "one": 7},
)


def milliseconds(configuration: dict[str, Any]) -> float | None:
    """A landscape with a hole in it."""
    if configuration["a"] * configuration["b"] == 32:
        return None
    shape = {"row": 0.0, "column": 0.3, "tile": -0.2}[configuration["c"]]
    return (
        1
        + abs(math.log2(configuration["a"]) - 3)
        + 0.5 * abs(math.log2(configuration["b"]) - 1)
        + shape
        + 0.1 * configuration["d"]
    )


def searched(
    strategy: str,
    seed: int,
    batches: list[int],
    *,
    fails: bool = False,
    most: float = math.inf,
    space: Space = SPACE,
) -> list[Any]:
    """Ask in batches and answer each, until nothing comes, or ``most`` have come."""
    search = Search(candidates(space), strategy, seed)
    proposed: list[Any] = []
    while True:
        asked = search.ask(batches[len(proposed) % len(batches)])
        if not asked or len(proposed) >= most:
            return proposed
        proposed += asked
        for each in reversed(asked):
            search.tell(each, None if fails else milliseconds(each))


@pytest.mark.parametrize("strategy", QUICK)
@given(seed=st.integers(0, 2**32), batches=st.lists(st.integers(1, 9), min_size=1, max_size=4), fails=st.booleans())
@settings(max_examples=3, deadline=None)
def test_everything_is_proposed_once(strategy: str, seed: int, batches: list[int], fails: bool) -> None:
    """Only valid configurations, none twice, the default first, and all of them in the end, even if every one fails."""
    proposed = searched(strategy, seed, batches, fails=fails)
    everything = candidates(SPACE)
    places = [everything.index(each) for each in proposed]
    assert None not in places
    assert len(set(places)) == len(places) == everything.count
    assert proposed[0] == SPACE.default


@pytest.mark.slow
def test_tpe_proposes_everything_once() -> None:
    """Its suggestions that are not valid, or come twice, are not handed on."""
    # Fewer of them: each suggestion takes longer than the one before it.
    space = Space({**SPACE.parameters, "d": (False,)}, SPACE.constraints, SPACE.default)
    proposed = searched("tpe", 3, [4], space=space)
    assert len({str(each) for each in proposed}) == len(proposed) == candidates(space).count


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_a_seed_repeats_a_search(strategy: str) -> None:
    """The same seed and answers give the same proposals."""
    assert searched(strategy, 5, [3, 1], most=24) == searched(strategy, 5, [3, 1], most=24)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_one_configuration(strategy: str) -> None:
    """A space of one is proposed and then exhausted."""
    search = Search(candidates(Space({"a": (1,)})), strategy)
    assert search.ask(5) == [{"a": 1}]
    search.tell({"a": 1}, None)
    assert search.ask() == []


@pytest.mark.parametrize("strategy", QUICK)
def test_answers_without_asking(strategy: str) -> None:
    """What is known already, as after a resume, is not proposed again; what is no candidate is passed over."""
    search = Search(candidates(SPACE), strategy)
    known = [candidates(SPACE).configuration(place) for place in range(40)]
    for each in known:
        search.tell(each, milliseconds(each))
    search.tell({"a": 99}, 1.0)
    proposed = [search.ask(1) for _ in range(candidates(SPACE).count - 40)]
    assert all(each and each[0] not in known for each in proposed)
    assert search.ask() == []


def test_auto_tries_everything_that_fits() -> None:
    """Where the budget is enough for the whole space, the search is exhaustive."""
    found = candidates(SPACE)
    assert Search(found, "auto", budget=found.count).strategy == "exhaustive"
    assert Search(found, "auto", budget=found.count - 1).strategy == "bayes"


def test_auto_changes_its_mind_with_the_pace() -> None:
    """What is tried goes by what there is time for: the whole rest as soon as that fits, and guided again when it does not."""
    found = candidates(SPACE)
    search = Search(found, "auto", seed=1, budget=found.count - 1)
    tried = search.ask(5)
    for each in tried:
        search.tell(each, 1.0)
    assert search.strategy == "bayes"
    search.expect(found.count - 5)
    rest = [each for each in map(found.configuration, range(found.count)) if each not in tried]
    assert search.ask(3) == rest[:3]
    assert search.strategy == "bayes, then exhaustive"
    search.expect(2)
    assert search.ask(10) != rest[3:13]


def test_a_resumed_search_needs_less() -> None:
    """What is known already needs no budget."""
    found = candidates(SPACE)
    search = Search(found, "auto", budget=found.count - 10)
    for place in range(10):
        search.tell(found.configuration(place), 1.0)
    assert search.strategy == "exhaustive"


def test_unknown_strategy() -> None:
    """The strategies that exist are named."""
    with pytest.raises(UsageError, match=r"no strategy called newton.*auto, exhaustive"):
        Search(candidates(SPACE), "newton")


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_times_that_cannot_be(value: float) -> None:
    """A time is above 0 and finite."""
    with pytest.raises(ValueError, match="above 0"):
        Search(candidates(SPACE)).tell(dict(SPACE.default or {}), value)


def test_tpe_names_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Optuna, `tpe` names it and the extra to install, and `auto` searches as it did."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="The strategy tpe needs optuna, which is not installed") as raised:
        Search(candidates(SPACE), "tpe")
    assert "pip install 'gpu-ratchet[tune]'" in raised.value.hint
    assert Search(candidates(SPACE)).ask(3)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SPACES.glob("*.json.gz")), ids=lambda path: path.name)
def test_auto_finds_what_is_recorded(path: Path) -> None:
    """Of three seeds, two come within 3 % of the optimum in 100 evaluations; after two that do, the third is not tried."""
    space = read(path)
    assert space.candidates.count > 3000
    optimum = space.best_ms or math.nan
    found = (optimum / (best_so_far(space, "auto", seed, 100)[-1] or math.inf) for seed in range(3))
    assert len(list(itertools.islice((each for each in found if each >= 0.97), 2))) == 2
