"""The models that guide a search: what they see, what they expect, and what failures and pending ones do to them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ratchet.tune.models import MOST_PAIRS, Features, Forest, Process, SearchHistory, improvement
from ratchet.tune.search import Search
from ratchet.tune.space import Candidates, Space, candidates

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
SPACE = Space({"x": POWERS, "y": POWERS, "layout": ("row", "column", "tile")})


def milliseconds(found: Candidates, place: int) -> float:
    """Fast where x · y is 128, and with tiles."""
    each = found.configuration(place)
    return 1 + abs(math.log2(float(each["x"]) * float(each["y"])) - 7) + 0.5 * (each["layout"] != "tile")


def answered() -> SearchHistory:
    """A random third of the space with its times, without the fastest."""
    seen = SearchHistory(candidates(SPACE))
    slow = [place for place in range(seen.candidates.count) if milliseconds(seen.candidates, place) >= 2]
    for place in np.random.default_rng(7).choice(slow, 64, replace=False).tolist():
        seen.know(place, milliseconds(seen.candidates, place))
    return seen


def test_products_and_ratios_are_columns() -> None:
    """Of two numbers there are the logarithms of product and ratio, beside a column for each number and one for each word."""
    found = candidates(SPACE)
    at = found.index({"x": 8, "y": 32, "layout": "tile"})
    points = Features(found, np.random.default_rng(0)).of(np.array([at]))
    assert points[0].tolist() == pytest.approx([3 / 7, 5 / 7, 0, 0, 1, 8, -2])
    assert points.dtype == np.float32


def test_two_values_and_words_make_no_product() -> None:
    """A switch, a word or a number below 0 has nothing to multiply; one value has no column."""
    found = candidates(Space({"on": (0, 1), "word": ("a", "b", "c"), "shift": (-1, 0, 1), "n": (1, 2, 3), "one": (7,)}))
    assert Features(found, np.random.default_rng(0)).of(np.arange(found.count)).shape == (54, 1 + 3 + 1 + 1)


def test_many_parameters_have_so_many_pairs() -> None:
    """Of twelve parameters' 66 pairs as many are looked at as eight parameters have."""
    found = candidates(Space({f"p{number}": (1, 2, 3) for number in range(12)}), limit=50)
    assert Features(found, np.random.default_rng(0)).of(np.arange(5)).shape == (5, 12 + 2 * MOST_PAIRS)


def test_the_fast_are_preferred() -> None:
    """Told a third of the times, half of the ten that are expected to be fastest are among the fastest fifth of the others."""
    seen = answered()
    forest = Forest(seen.candidates, np.random.default_rng(1))
    forest.learn(seen)
    free = seen.untaken()
    times = np.array([milliseconds(seen.candidates, place) for place in free])
    assert np.median(times[np.argsort(-forest.speed(free))[:10]]) <= np.quantile(times, 0.2)


def test_failures_are_shunned() -> None:
    """Where all that was tried failed, less is expected than where it did not."""
    found = candidates(SPACE)
    tiles = [place for place in range(found.count) if found.configuration(place)["layout"] == "tile"]
    expected = []
    for fails in (False, True):
        seen, forest = answered(), Forest(found, np.random.default_rng(2))
        for place in tiles:
            if place in seen.values and fails:
                seen.know(place, None)
        forest.learn(seen)
        expected.append(forest.speed(np.array([place for place in tiles if not seen.taken[place]])).max())
    assert expected[1] < expected[0]


def test_what_is_under_way_is_left_alone() -> None:
    """Beside a configuration that another station is trying, less is expected than before."""
    before, after = answered(), answered()
    first = Forest(before.candidates, np.random.default_rng(3))
    first.learn(before)
    free = before.untaken()
    best = int(free[np.argmax(first.gain(free))])
    beside = before.candidates.neighbours(best)
    beside = beside[~before.taken[beside]]
    after.take(best)
    second = Forest(after.candidates, np.random.default_rng(3))
    second.learn(after)
    assert second.speed(beside).mean() < first.speed(beside).mean()


def test_the_process_prefers_the_fast() -> None:
    """Told a third of the times, it expects most of those that are among the fastest fifth of the others."""
    seen = answered()
    process = Process(seen.candidates, np.random.default_rng(1))
    process.learn(seen)
    free = seen.untaken()
    times = np.array([milliseconds(seen.candidates, place) for place in free])
    assert np.median(times[np.argsort(-process.gain(free))[:10]]) <= np.quantile(times, 0.2)


def test_the_process_shuns_failures_and_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one kernel, less is expected than before beside what failed, and beside what another station is trying."""
    monkeypatch.setattr(Process, "reaches", (1.5,))
    monkeypatch.setattr(Process, "mixes", (4.0,))
    before, failed, tried = answered(), answered(), answered()
    process = Process(before.candidates, np.random.default_rng(2))
    process.learn(before)
    free = before.untaken()
    best = int(free[np.argmax(process.gain(free))])
    beside = before.candidates.neighbours(best)
    beside = beside[~before.taken[beside]]
    failed.know(best, None)
    tried.take(best)
    expected = []
    for seen in (before, failed, tried):
        process = Process(seen.candidates, np.random.default_rng(2))
        process.learn(seen)
        expected.append(process.gain(beside).mean())
    assert max(expected[1:]) < expected[0]


def test_the_process_learns_from_so_many() -> None:
    """After some hundred answers it goes on, with the fastest half and a random one."""
    found = candidates(Space({f"p{number}": POWERS for number in range(3)}))
    seen, process = SearchHistory(found), Process(found, np.random.default_rng(3))
    for place in range(Process.rows + 50):
        seen.know(place, 1.0 + place % 7)
    process.learn(seen)
    assert np.isfinite(process.gain(seen.untaken())).all()


def test_expected_improvement() -> None:
    """At the best it is the deviation over the root of 2π; far below the best it vanishes, far above it is the distance."""
    told = improvement(np.array([1.0, -9.0, 11.0]), np.array([0.5, 0.5, 0.5]), 1.0)
    assert told == pytest.approx([0.5 / math.sqrt(2 * math.pi), 0, 10])


def test_a_narrow_optimum_is_found() -> None:
    """Forty evaluations of 192 find the fastest, which one in twenty-four is."""
    found = candidates(SPACE)
    search = Search(found, "portfolio", seed=4)
    times = []
    for _ in range(40):
        asked = search.ask()[0]
        times.append(milliseconds(found, found.index(asked) or 0))
        search.tell(asked, times[-1])
    assert min(times) == 1


@pytest.mark.parametrize(("budget", "random"), [(12, 4), (60, 15), (None, 15)])
def test_a_small_budget_begins_with_fewer(budget: int | None, random: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is asked after 15 answers, or after a third of the budget."""
    known: list[int] = []
    for kind in (Forest, Process):
        learn = kind.learn
        noted = lambda model, seen, learn=learn: (known.append(len(seen.values)), learn(model, seen))[1]  # noqa: E731
        monkeypatch.setattr(kind, "learn", noted)
    found = candidates(SPACE)
    search = Search(found, "auto", seed=5, budget=budget)
    for _ in range(20):
        asked = search.ask()[0]
        search.tell(asked, milliseconds(found, found.index(asked) or 0))
    assert known[0] == random


def test_a_climb_in_vain_begins_elsewhere() -> None:
    """Every third proposal climbs: neighbours of one start, and where six of them are no better, those of another."""
    found = candidates(SPACE)
    search, climbed = Search(found, "portfolio", seed=6), list[int]()
    for number in range(60):
        asked = search.ask()[0]
        if number >= 15 and number % 3 == 2:
            climbed.append(found.index(asked) or 0)
        search.tell(asked, 1.0)
    for start in (0, 7):
        assert set(climbed[start + 1 : start + 7]) <= set(found.neighbours(climbed[start]).tolist())
    assert len(set(climbed)) == len(climbed)


def test_of_very_many_answers_the_fastest_and_some_others_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trees are told no more than so many, half of them the fastest, so that a proposal does not take longer and longer."""
    seen, told = answered(), list[np.ndarray[tuple[int], np.dtype[np.intp]]]()
    of = Features.of
    monkeypatch.setattr(Forest, "rows", 20)
    monkeypatch.setattr(Features, "of", lambda features, places: (told.append(places), of(features, places))[1])
    Forest(seen.candidates, np.random.default_rng(2)).learn(seen)
    fastest = sorted(seen.values, key=lambda place: seen.values[place] or math.inf)[:10]
    assert len(set(told[0].tolist())) == 20
    assert {seen.values[place] for place in told[0].tolist()[:10]} == {seen.values[place] for place in fastest}
