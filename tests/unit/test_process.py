"""The model that guides a search: what it learns and expects, and what failures and pending ones do to a search."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.optimize import check_grad

from ratchet.tune.models import LEVELS, MOST_PRODUCTS, Process, SearchHistory, _levels_of, improvement
from ratchet.tune.search import Search
from ratchet.tune.space import Candidates, Space, Value, candidates

pytestmark = pytest.mark.no_cover

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
SPACE = Space({"x": POWERS, "y": POWERS, "layout": ("row", "column", "tile")})


def milliseconds(found: Candidates, place: int) -> float:
    """Fast where x · y is 128, and with tiles."""
    each = found.configuration(place)
    return 1 + abs(math.log2(float(each["x"]) * float(each["y"])) - 7) + 0.5 * (each["layout"] != "tile")


def taught(places: list[int], answers: list[float], found: Candidates | None = None) -> Process:
    """Return a process that learned these answers."""
    process = Process(found or candidates(SPACE), np.random.default_rng(1))
    process.learn(np.array(places), np.array(answers))
    return process


def answered() -> SearchHistory:
    """A random third of the space with its times, without the fastest."""
    seen = SearchHistory(candidates(SPACE))
    slow = [place for place in range(seen.candidates.count) if milliseconds(seen.candidates, place) >= 2]
    for place in np.random.default_rng(7).choice(slow, 64, replace=False).tolist():
        seen.know(place, milliseconds(seen.candidates, place))
    return seen


def test_columns() -> None:
    """Each parameter with a choice is a column, and the product of any two with three or more numbers, none below 0."""
    found = candidates(
        Space({"on": (0, 1), "word": ("a", "b", "c"), "shift": (-1, 0, 1), "n": (1, 2, 3), "m": (2, 4, 8), "one": (7,)})
    )
    process = Process(found, np.random.default_rng(0))
    assert len(process._levels_at(np.arange(4))) == 5 + 1
    at = [
        found.index({"on": 0, "word": "a", "shift": 0, "n": n, "m": m, "one": 7}) or 0
        for n, m in ((1, 4), (2, 2), (2, 8), (1, 2))
    ]
    products = process._levels_at(np.array(at))[-1].tolist()
    assert products[0] == products[1]
    assert products[3] < products[0] < products[2]


def test_many_parameters_have_so_many_products() -> None:
    """Of twelve parameters' 66 pairs as many products are columns as eight parameters have."""
    found = candidates(Space({f"p{number}": (1, 2, 3) for number in range(12)}), limit=50)
    assert Process(found, np.random.default_rng(0))._levels_at(np.arange(5)).shape == (12 + MOST_PRODUCTS, 5)


def distances(values: tuple[Value, ...]) -> list[list[float]]:
    """Return how far apart a parameter's values are, in the order in which they are listed."""
    levels, apart = _levels_of(values)
    return apart[np.ix_(levels, levels)].tolist()  # type: ignore[no-any-return]


def test_words_have_no_order() -> None:
    """Numbers are as far apart as their ranks in whatever order they are listed, switches and words all the same."""
    assert distances((8, 1, 2)) == [[0, 1, 0.5], [1, 0, 0.5], [0.5, 0.5, 0]]
    assert distances((False, True)) == [[0, 1], [1, 0]]
    assert distances(("a", "b", "c")) == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_many_and_small_values() -> None:
    """Parameters of thousands of values share levels, so that no table grows with their square; small fractions have products."""
    numbers = {
        "a": tuple(range(20_000)),
        "b": tuple(range(500)),
        "c": tuple(range(500)),
        "p": (0.1, 0.2, 0.3),
        "q": (0, 0.1, 0.4),
    }
    two = np.array([[0, 0, 0, 0, 0], [19_999, 499, 499, 2, 2]], dtype=np.int16)
    process = Process(Candidates(Space(numbers), two, exact=True), np.random.default_rng(0))
    assert max(len(apart) for apart in process._apart) == LEVELS
    assert all(np.isfinite(apart).all() and apart.max() == 1 for apart in process._apart)


def test_the_fast_are_preferred() -> None:
    """Of what it was not told, the ten that it expects to be fastest are mostly among the fastest fifth."""
    seen = answered()
    process = taught([*seen.values], [-math.log(value or 1) for value in seen.values.values()])
    free = seen.untaken()
    times = np.array([milliseconds(seen.candidates, place) for place in free])
    assert np.median(times[np.argsort(-process.predict(free)[0])[:10]]) <= np.quantile(times, 0.2)


def test_what_matters_is_learned() -> None:
    """Where one of six parameters matters, it is found out from forty answers."""
    found = candidates(Space({f"p{number}": POWERS for number in range(6)}), limit=2000)
    places = np.random.default_rng(3).choice(found.count, 140, replace=False)
    third = np.abs(found.codes[places, 2] - 5.0)
    expected = taught(places[:40].tolist(), (-third[:40]).tolist(), found).predict(places[40:])[0]
    assert np.corrcoef(expected, -third[40:])[0, 1] > 0.95


def test_a_product_is_learned() -> None:
    """A cliff in the product of two parameters is known from forty answers, and what fails beyond it so too."""
    found = candidates(Space({"x": POWERS, "y": POWERS, "z": POWERS}))
    places = np.random.default_rng(4).choice(found.count, 240, replace=False)
    beyond = found.codes[places, 0] + found.codes[places, 2] > 7
    expected = taught(places[:40].tolist(), beyond[:40].astype(float).tolist(), found).predict(places[40:])[0]
    assert np.mean((expected > 0.5) == beyond[40:]) > 0.95


def test_the_derivatives() -> None:
    """The derivatives by which weights, reaches and noise are chosen are those of the likelihood."""
    seen = answered()
    places = np.array([*seen.values])
    process, rng = Process(seen.candidates, np.random.default_rng(2)), np.random.default_rng(5)
    scaled = rng.normal(size=len(places))
    process.learn(places, scaled)
    rows, columns = np.tril_indices(len(places), -1)
    apart = np.stack([table[known[rows], known[columns]] for table, known in zip(process._apart, process._known, strict=True)])
    chosen = process._usual + 0.3 * rng.normal(size=len(process._usual))
    value, slope = (
        functools.partial(lambda part, at: process._loss(at, scaled, apart, (rows, columns))[part], part) for part in (0, 1)
    )
    assert check_grad(value, slope, chosen) < 1e-3


def test_it_learns_from_so_many() -> None:
    """After some hundred answers it goes on, with the largest half and a random one."""
    found = candidates(Space({f"p{number}": POWERS for number in range(3)}))
    answers = [-1.0 - place % 7 for place in range(Process.rows + 50)]
    process = taught(list(range(Process.rows + 50)), answers, found)
    assert process._known.shape[1] == Process.rows
    assert np.isfinite(process.predict(np.arange(400, 500))[0]).all()


def test_equal_answers_are_no_trouble() -> None:
    """Where all are as fast, all are expected to be."""
    assert taught([0, 5, 9], [-1.0, -1.0, -1.0]).predict(np.arange(20))[0] == pytest.approx(np.full(20, -1.0))


@pytest.mark.parametrize("fails", [True, False])
def test_failures_are_shunned(fails: bool) -> None:
    """Where everything with tiles failed, nothing with tiles is tried for a while; where it is as fast as it is, it is."""
    found = candidates(SPACE)
    tiles = [place for place in range(found.count) if found.configuration(place)["layout"] == "tile"]
    search = Search(found, "bayes", seed=2)
    for place, value in answered().values.items():
        search.tell(found.configuration(place), None if fails and place in tiles else value)
    asked = []
    for _ in range(10):
        asked += search.ask()
        search.tell(asked[-1], milliseconds(found, found.index(asked[-1]) or 0))
    with_tiles = sum(each["layout"] == "tile" for each in asked)
    assert with_tiles <= 1 if fails else with_tiles >= 6


def test_stations_spread() -> None:
    """What is under way counts as of middling speed: the next proposals without an answer are not all neighbours of one spot."""
    found = candidates(SPACE)
    search = Search(found, "bayes", seed=3)
    for place, value in answered().values.items():
        search.tell(found.configuration(place), value)
    asked = [found.index(each) or 0 for each in search.ask(8)]
    assert len({(found.codes[place] - found.codes[asked[0]]).tobytes() for place in asked}) == 8
    assert not set(asked[1:]) <= set(found.neighbours(asked[0]).tolist())


def test_expected_improvement() -> None:
    """At the best it is the deviation over the root of 2π; far below the best it vanishes, far above it is the distance."""
    told = improvement(np.array([1.0, -9.0, 11.0]), np.array([0.5, 0.5, 0.5]), 1.0)
    assert told == pytest.approx([0.5 / math.sqrt(2 * math.pi), 0, 10])


def test_a_narrow_optimum_is_found() -> None:
    """Forty evaluations of 192 find the fastest, which one in twenty-four is."""
    found = candidates(SPACE)
    search = Search(found, "bayes", seed=4)
    times = []
    for _ in range(40):
        asked = search.ask()[0]
        times.append(milliseconds(found, found.index(asked) or 0))
        search.tell(asked, times[-1])
    assert min(times) == 1


@pytest.mark.parametrize(("budget", "random"), [(12, 4), (60, 15), (None, 15)])
def test_a_small_budget_begins_with_fewer(budget: int | None, random: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is asked after 15 answers, or after a third of the budget."""
    known: list[int] = []
    learn = Process.learn
    monkeypatch.setattr(
        Process, "learn", lambda model, places, answers: (known.append(len(places)), learn(model, places, answers))[1]
    )
    found = candidates(SPACE)
    search = Search(found, "auto", seed=5, budget=budget)
    for _ in range(20):
        asked = search.ask()[0]
        search.tell(asked, milliseconds(found, found.index(asked) or 0))
    assert known[0] == random
