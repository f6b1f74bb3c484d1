"""The level of each case of a run."""

from __future__ import annotations

import examples
import pytest

from ratchet.judge.levels import shared
from ratchet.judge.outcome import decide
from ratchet.records import Comparison, Outcome, Policy

POLICY = Policy()
LEVEL = 0.001 / 4
"""Of one of the four looks at up to 20 pairs."""


def at(ratio: float, chance: float) -> Comparison:
    return examples.comparison(ratio, chance=chance)


def levels(found: dict[str, Comparison | None], pairs: int = 20) -> dict[str, float]:
    return {name: policy.false_alarm for name, policy in shared(found, POLICY, pairs).items()}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, {}),
        ({"a": at(1.1, 0.5)}, {"a": LEVEL}),
        ({"a": at(1.1, 1e-9), "b": at(1.1, 1e-8), "c": at(1.1, 0.5)}, {"a": LEVEL / 3, "b": LEVEL / 2, "c": LEVEL}),
        ({"a": at(1.1, 0.4), "b": at(1.1, 0.5), "c": at(1.1, 0.3)}, {"a": LEVEL / 3, "b": LEVEL / 3, "c": LEVEL / 3}),
        ({"a": at(1.1, 1e-9), "b": None}, {"a": LEVEL, "b": LEVEL / 2}),
        ({"a": None, "b": None}, {"a": LEVEL / 2, "b": LEVEL / 2}),
    ],
)
def test_holm_over_the_looks_share(found: dict[str, Comparison | None], expected: dict[str, float]) -> None:
    """The level of one look is shared by Holm's method; what was not compared has an equal share and takes none."""
    assert levels(found) == pytest.approx(expected)


def test_slower_and_faster_are_two_families() -> None:
    """Proof that one case is faster gives no room to one that may be slower, and the other way round."""
    found = {"fast": at(0.8, 1e-9), "faster": at(0.7, 1e-9), "slow": at(1.1, 1e-9), "maybe": at(1.1, 0.01)}
    assert levels(found) == pytest.approx({"fast": LEVEL / 4, "faster": LEVEL / 3, "slow": LEVEL / 4, "maybe": LEVEL / 3})


def test_exactly_equal_sides() -> None:
    """A case with a ratio of one, whose odds are even, takes its place in both families."""
    assert levels({"a": at(1.0, 0.5), "b": at(1.1, 1e-9), "c": at(0.9, 1e-9)}) == pytest.approx(
        {"a": LEVEL / 2, "b": LEVEL / 3, "c": LEVEL / 3}
    )


@pytest.mark.parametrize(("pairs", "looks"), [(3, 1), (8, 1), (12, 2), (20, 4), (28, 5)])
def test_looks_share_equally(pairs: int, looks: int) -> None:
    """The more often a run may look for a change, the stricter each look is."""
    assert levels({"a": at(1.1, 0.5)}, pairs) == pytest.approx({"a": 0.001 / looks})


def test_only_the_level_differs() -> None:
    """The other thresholds of a policy are those of the run."""
    rule = Policy(regression=0.01, improvement=0.2, confidence=0.9, on_inconclusive="fail")
    (own,) = shared({"a": at(1.1, 0.5)}, rule, 20).values()
    assert own == rule.at(LEVEL)


@pytest.mark.parametrize("certain", [0, 1, 7])
def test_certain_cases_leave_room(certain: int) -> None:
    """A case with faint evidence is red beside many that are surely slower, and not beside as many that are unchanged."""
    faint, beside = at(1.1, LEVEL / 2), {f"b{index}": at(1.2, 1e-12) for index in range(certain)}
    unchanged = {f"c{index}": at(1.0, 0.5) for index in range(7 - certain)}
    found = {"a": faint, **beside, **unchanged}
    red = decide(faint, shared(found, POLICY, 20)["a"])[0] is Outcome.REGRESSED
    assert red is (certain == 7)
