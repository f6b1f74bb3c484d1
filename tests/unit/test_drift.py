"""Many small slowdowns, held to the best commit."""

from __future__ import annotations

import math

import examples
import numpy as np
import pytest

from ratchet.judge.drift import adds_up, by_commit, drifting, held_to_best
from ratchet.judge.looks import looks_for_change
from ratchet.judge.outcome import decide
from ratchet.records import Comparison, Outcome, Policy, Tree

POLICY = Policy()
BEST = Tree(commit="1" * 40)


@pytest.mark.parametrize(
    ("ratio", "chance", "part"),
    [
        (1.0075, 0.0, True),  # a quarter of the gate is a part
        (1.0074, 0.0, False),
        (0.9, 0.0, False),
        (1.01, 0.001, True),
        (1.01, 0.0011, None),  # it may be one
        (1.01, 0.05, None),
        (1.01, 0.051, False),  # no sign of it
    ],
)
def test_adds_up(ratio: float, chance: float, part: bool | None) -> None:
    """A change has a part in a slowdown if it is a quarter of the gate or more and not chance; a doubt is worth more pairs."""
    assert adds_up(examples.comparison(ratio, chance=chance), POLICY) is part


def test_drifting() -> None:
    """A case drifts where its best commit is neither side of the run; one that the baseline does not know does not."""
    entry = examples.first_entry()
    stored = {
        "a/old": entry.model_copy(update={"git_commit": "1" * 40}),
        "a/older": entry.model_copy(update={"git_commit": "2" * 40}),
        "a/reference": entry.model_copy(update={"git_commit": examples.REFERENCE.commit}),
        "a/head": entry.model_copy(update={"git_commit": examples.HEAD.commit}),
    }
    assert drifting(stored, examples.REFERENCE, examples.HEAD) == {"a/old": "1" * 40, "a/older": "2" * 40}
    assert drifting({}, examples.REFERENCE, examples.HEAD) == {}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ([], {}),
        (["x", "y"], {}),
        (["a", "b", "c"], {"1" * 40: ["a", "b"], "2" * 40: ["c"]}),
        (["c", "x", "a", "b"], {"1" * 40: ["a", "b", "x"], "2" * 40: ["c"]}),
        (["c", "x"], {"2" * 40: ["c", "x"]}),
    ],
)
def test_by_commit(names: list[str], groups: dict[str, list[str]]) -> None:
    """Cases are grouped by their best commit, that of most cases first, and those that have none go with the first."""
    entry = examples.first_entry()
    commits = {"a": "1" * 40, "b": "1" * 40, "c": "2" * 40, "d": "1" * 40}
    found = by_commit(names, {name: entry.model_copy(update={"git_commit": commit}) for name, commit in commits.items()})
    assert list(found.items()) == list(groups.items())


SMALL, WHOLE = examples.comparison(1.012), examples.comparison(1.041)
HELD = {
    "blamed": ((Outcome.UNCHANGED, "Why.", SMALL), WHOLE, True),
    "blamed though undecided": ((Outcome.INCONCLUSIVE, "Why.", SMALL), WHOLE, True),
    "red already": ((Outcome.REGRESSED, "Why.", SMALL), WHOLE, False),
    "faster": ((Outcome.IMPROVED, "Why.", examples.comparison(0.9)), WHOLE, False),
    "new": ((Outcome.NEW, "Why.", None), WHOLE, False),
    "nothing known": ((Outcome.INCONCLUSIVE, "Why.", None), WHOLE, False),
    "no part in it": ((Outcome.UNCHANGED, "Why.", examples.comparison(1.007)), WHOLE, False),
    "perhaps no part": ((Outcome.UNCHANGED, "Why.", examples.comparison(1.012, chance=0.01)), WHOLE, False),
    "inside the gate": ((Outcome.UNCHANGED, "Why.", SMALL), examples.comparison(1.029), False),
    "perhaps inside": ((Outcome.UNCHANGED, "Why.", SMALL), examples.comparison(1.041, chance=0.01), False),
}


@pytest.mark.parametrize("name", HELD)
def test_held_to_best(name: str) -> None:
    """What was not red turns red only if head is past the gate against the best commit, and this change has a part in it."""
    finding, best, blamed = HELD[name]
    found = held_to_best(finding, best, BEST, POLICY)
    if blamed:
        said = "Slower by 1.20 % here, which makes it 4.10 % slower than the best commit 1111111111: past the gate of 3 %."
        assert found == (Outcome.REGRESSED, said, SMALL)
    else:
        assert found is finding


# Merges one after another


def measured(rng: np.random.Generator, ratio: float, *, drifts: bool) -> Comparison:
    """Pairs of 0.3 % spread, looked at as a check does, of one of eight cases."""
    level = POLICY.shared(8, looks_for_change(20))
    taken = examples.pairs(rng.normal(math.log(ratio), 0.003, 20).tolist())
    return examples.looked_at(taken, level, drifts=drifts)


def is_blamed(rng: np.random.Generator, here: float, whole: float) -> bool:
    """Whether a change slower by ``here`` is red where it makes its case slower by ``whole`` than the best commit."""
    level = POLICY.shared(8, looks_for_change(20))
    own = measured(rng, here, drifts=True)
    finding = (*decide(own, level), own)
    if not adds_up(own, level):
        return finding[0] is Outcome.REGRESSED
    return held_to_best(finding, measured(rng, whole, drifts=False), BEST, level)[0] is Outcome.REGRESSED


def test_slow_merges_are_caught() -> None:
    """Of 100 sequences of merges that cost 1 % each, 99 or more are stopped within ten merges, and none in the first two."""
    rng = np.random.default_rng(17)
    stopped = [next((merge for merge in range(1, 11) if is_blamed(rng, 1.01, 1.01**merge)), None) for _ in range(100)]
    caught = [merge for merge in stopped if merge is not None]
    assert len(caught) >= 99
    assert min(caught) >= 3
    assert sorted(caught)[50] <= 4


@pytest.mark.parametrize("whole", [1.04, 1.2])
def test_who_slows_nothing_is_not_blamed(whole: float) -> None:
    """A change that slows nothing is not red in any of 300 checks, however much slower than the best commit the reference is."""
    rng = np.random.default_rng(18)
    assert not any(is_blamed(rng, 1.0, whole) for _ in range(300))


def test_a_faster_change_is_not_blamed() -> None:
    """A change that makes a case faster is not red though the case stays past the gate against the best commit."""
    rng = np.random.default_rng(19)
    assert not any(is_blamed(rng, 0.98, 1.05) for _ in range(100))
