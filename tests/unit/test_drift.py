"""Many small slowdowns, held to the best commit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ratchet.core.judge.drift import Drift, by_commit, drifting, held_to_best, is_significant_alone, needs_best_comparison, pooled
from ratchet.core.judge.outcome import decide
from ratchet.core.records.baseline import BaselineEntry, Candidate, Measurement
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import Comparison, Outcome
from tests import examples, history_examples, pair_examples, reports

POLICY = Policy()
BEST = Tree(commit="1" * 40)


def entry_with(*ratios: float, **changes: object) -> BaselineEntry:
    """An entry that merges of these ratios to its commit were measured of."""
    merges = (
        Candidate(
            commit=history_examples.commit(10 + number),
            measurement=Measurement(
                started_at=examples.STARTED,
                ended_at=examples.STARTED,
                reference=examples.REFERENCE.commit,
                ratio=ratio,
                low=ratio - 0.01,
                high=ratio + 0.01,
                pairs=8,
            ),
        )
        for number, ratio in enumerate(ratios)
    )
    return examples.first_entry().model_copy(update={"merges": tuple(merges), **changes})


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((), None),
        ((1.02,), 1.02),
        ((1.01, 1.02), 1.02),  # the newest, where it is the highest
        ((1.02, 1.01), math.sqrt(1.02 * 1.01)),  # the mean, where the newest was a lucky one
        ((1.5, 1.02, 1.02, 1.02), 1.02),  # of the newest three
        ((1.03, 1.02, 1.01), (1.03 * 1.02 * 1.01) ** (1 / 3)),
    ],
)
def test_measurements_of_main_are_pooled(ratios: tuple[float, ...], expected: float | None) -> None:
    """Main stands where it was measured last, or, if that is slower, at the mean of the last three merges."""
    found = pooled(entry_with(*ratios))
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("ratio", "chance", "pairs", "known", "worth"),
    [
        (1.0075, 0.2, 12, None, True),  # nothing known: a quarter of the gate counts
        (1.0074, 0.2, 12, None, False),
        (1.004, 0.2, 12, 1.02, True),  # 1.02 × 1.004 reaches four fifths of the gate
        (1.0039, 0.2, 12, 1.02, False),
        (1.0001, 0.2, 12, 1.024, True),
        (1.024, 0.2, 12, 1.0, True),  # exactly four fifths
        (1.0, 0.2, 12, 1.05, False),  # no slowdown of its own
        (0.99, 0.0, 12, 1.05, False),
        (1.01, 0.5, 12, 1.02, False),  # no sign of one
        (1.01, 0.49, 39, 1.02, True),
        (1.01, 0.49, 40, 1.02, False),  # enough pairs were spent on finding out
        (1.01, 0.005, 40, 1.02, True),
    ],
)
def test_may_add_up(ratio: float, chance: float, pairs: int, known: float | None, worth: bool) -> None:
    """A change that slows its case, and with what is known before it nearly past the gate, is worth the best commit."""
    own = reports.comparison(ratio, p_value=chance, pairs=pairs)
    assert needs_best_comparison(own, Drift("1" * 40, known), POLICY) is worth


@pytest.mark.parametrize(
    ("ratio", "chance", "own"), [(1.001, 0.005, True), (1.001, 0.0051, False), (1.0, 0.0, False), (0.9, 0.0, False)]
)
def test_a_slowdown_of_its_own(ratio: float, chance: float, own: bool) -> None:
    """However little slower, what chance gives once in two hundred times is the change's own."""
    assert is_significant_alone(reports.comparison(ratio, p_value=chance)) is own


def test_drifting() -> None:
    """A case drifts where its best commit is neither side of the run; one that the baseline does not know does not."""
    stored = {
        "a/old": entry_with(git_commit="1" * 40),
        "a/older": entry_with(1.02, git_commit="2" * 40),
        "a/reference": entry_with(1.02, git_commit=examples.REFERENCE.commit),
        "a/head": entry_with(git_commit=examples.HEAD.commit),
    }
    assert drifting(stored, examples.REFERENCE, examples.HEAD) == {
        "a/old": Drift("1" * 40, None),
        "a/older": Drift("2" * 40, pytest.approx(1.02)),
    }
    assert drifting({}, examples.REFERENCE, examples.HEAD) == {}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ([], {}),
        (["x", "y"], {}),
        (["a", "b", "c"], {"1" * 40: ["a", "b"], "2" * 40: ["c"]}),
        (["c", "x", "a", "b"], {"1" * 40: ["a", "b", "x"], "2" * 40: ["c"]}),
        (["c", "x"], {"2" * 40: ["c", "x"]}),
        (["a", "c", "e"], {"2" * 40: ["c", "e"], "1" * 40: ["a"]}),
    ],
)
def test_by_commit(names: list[str], groups: dict[str, list[str]]) -> None:
    """Cases are grouped by their best commit, that of most cases first, and those that have none go with the first."""
    entry = examples.first_entry()
    commits = {"a": "1" * 40, "b": "1" * 40, "c": "2" * 40, "d": "1" * 40, "e": "2" * 40}
    found = by_commit(names, {name: entry.model_copy(update={"git_commit": commit}) for name, commit in commits.items()})
    assert list(found.items()) == list(groups.items())


SMALL, WHOLE = reports.comparison(1.012), reports.comparison(1.041, pairs=20)
HELD = {
    "blamed": ((Outcome.UNCHANGED, "Why.", SMALL), WHOLE, True),
    "blamed though undecided": ((Outcome.INCONCLUSIVE, "Why.", SMALL), WHOLE, True),
    "blamed for little": ((Outcome.UNCHANGED, "Why.", reports.comparison(1.012, p_value=0.005)), WHOLE, True),
    "red already": ((Outcome.REGRESSED, "Why.", SMALL), WHOLE, False),
    "slower already": ((Outcome.SLOWER, "Why.", SMALL), WHOLE, False),
    "faster": ((Outcome.IMPROVED, "Why.", reports.comparison(0.9)), WHOLE, False),
    "new": ((Outcome.NEW, "Why.", None), WHOLE, False),
    "nothing known": ((Outcome.INCONCLUSIVE, "Why.", None), WHOLE, False),
    "no part in it": ((Outcome.UNCHANGED, "Why.", reports.comparison(0.999)), WHOLE, False),
    "perhaps no part": ((Outcome.UNCHANGED, "Why.", reports.comparison(1.012, p_value=0.01)), WHOLE, False),
    "inside the gate": ((Outcome.UNCHANGED, "Why.", SMALL), reports.comparison(1.029, pairs=20), False),
    "perhaps inside": ((Outcome.UNCHANGED, "Why.", SMALL), reports.comparison(1.041, pairs=20, p_value=0.01), False),
    "too few pairs": ((Outcome.UNCHANGED, "Why.", SMALL), reports.comparison(1.041, pairs=19), False),
}


@pytest.mark.parametrize("name", HELD)
def test_held_to_best(name: str) -> None:
    """What was not red turns red only if head is past the gate against the best commit, and this change has a part in it."""
    finding, best, blamed = HELD[name]
    found = held_to_best(finding, best, BEST, pair_examples.bar())
    if blamed:
        said = "Slower by 1.20 % here, which makes it 4.10 % slower than the best commit 1111111111: past the gate of 3 %."
        assert found == (Outcome.REGRESSED, said, finding[2])
    else:
        assert found is finding


# Merges one after another

BAR = pair_examples.bar(cases=8)


def is_blamed(rng: np.random.Generator, here: float, whole: float, known: float | None = None) -> bool:
    """Return whether a change slower by ``here`` is red where it makes its case slower by ``whole`` than the best commit."""
    drift = Drift(BEST.commit, known)
    own = measured(rng, here, drift)
    finding = (*decide(own, BAR), own)
    if finding[0] is Outcome.REGRESSED or not (is_significant_alone(own) and needs_best_comparison(own, drift, POLICY)):
        return finding[0] is Outcome.REGRESSED
    return held_to_best(finding, measured(rng, whole), BEST, BAR)[0] is Outcome.REGRESSED


def measured(rng: np.random.Generator, ratio: float, drift: Drift | None = None) -> Comparison:
    """Pairs of 0.3 % spread, looked at as a check does, of one of eight cases."""
    return pair_examples.looked_at(pair_examples.pairs(rng.normal(math.log(ratio), 0.003, 100)), BAR, drift=drift)


@pytest.mark.slow
@pytest.mark.no_cover
def test_slow_merges_are_caught() -> None:
    """Of 100 sequences of merges that cost 1 % each, 99 or more are stopped within ten merges, and none in the first two."""
    rng = np.random.default_rng(17)
    stopped = [next((merge for merge in range(1, 11) if is_blamed(rng, 1.01, 1.01**merge)), None) for _ in range(100)]
    caught = [merge for merge in stopped if merge is not None]
    assert len(caught) >= 99
    assert min(caught) >= 3
    assert sorted(caught)[50] <= 4


@pytest.mark.no_cover
@pytest.mark.parametrize("known", [None, 1.04])
@pytest.mark.parametrize("whole", [1.04, 1.2])
def test_who_slows_nothing_is_not_blamed(whole: float, known: float | None) -> None:
    """A change that slows nothing is hardly ever red, however much slower than the best commit the reference is.

    Once in two hundred checks a change that costs nothing looks as if it did.
    """
    rng = np.random.default_rng(18)
    assert sum(is_blamed(rng, 1.0, whole, known) for _ in range(150)) <= (0 if known is None else 4)
