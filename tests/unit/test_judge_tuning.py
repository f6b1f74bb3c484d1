"""What a search found, judged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.judge.comparison import compare_pairs
from ratchet.core.judge.outcome import decide
from ratchet.core.records.run import SIDES, CaseRun, Config, Failure, Policy
from ratchet.core.records.verdict import Outcome
from ratchet.tune.judge import (
    Recommendation,
    best_so_far,
    compares_with_default,
    fastest_confirmed,
    ranked,
    recommend,
    thresholds_of_finals,
    variance_explained,
)
from ratchet.tune.records import Confirmation
from ratchet.tune.station import confirmation
from tests import examples, pair_examples
from tests import tuning_examples as sample

POLICY = Policy()
COSTS = st.lists(st.floats(0.1, 10), min_size=1, max_size=8)


def test_without_a_default() -> None:
    """Where the default gives no time, the fastest one is the measure."""
    evaluations = tuple(
        each.model_copy(update={"normalised": None}) for each in sample.evaluations() if each.configuration != sample.DEFAULT
    )
    record = sample.record(evaluations=evaluations)
    assert not compares_with_default(record)
    found = ranked(record)
    assert [round(each.cost, 3) for each in found][:2] == [1.0, 1.006]
    assert all(record.evaluations[each.number - 1] is each.evaluation for each in found)
    assert ranked(sample.record(evaluations=())) == ()


def test_evaluations_are_ranked_by_time_and_dropped_ones_last() -> None:
    """The fastest is first, at its time over the default's; one that was dropped is behind all that were timed in full."""
    dropped, failed = (sample.evaluation(sample.WINNER, 0, outcome) for outcome in ("dropped", "crash"))
    slow, fast = (sample.evaluation(sample.DEFAULT, 0, normalised=cost) for cost in (1.5, 0.8))
    found = ranked(sample.record(evaluations=(dropped, slow, failed, fast)))
    assert [(one.number, one.cost) for one in found] == [(4, 0.8), (2, 1.5), (1, pytest.approx(0.813))]
    assert [one.evaluation for one in found] == [fast, slow, dropped]


def test_the_best_so_far_only_falls() -> None:
    """Nothing before the first time; a slower, a dropped or a failed evaluation leaves the best as it is."""
    costs = [sample.evaluation(sample.DEFAULT, 0, normalised=cost) for cost in (1.2, 1.3, 0.9, 1.0)]
    failed, dropped = (sample.evaluation(sample.WINNER, 0, outcome) for outcome in ("wrong", "dropped"))
    record = sample.record(evaluations=(failed, dropped, *costs[:2], failed, *costs[2:]))
    assert best_so_far(record) == [None, None, 1.2, 1.2, 1.2, 0.9, 0.9]
    assert best_so_far(sample.record(evaluations=())) == []


def test_the_fastest_improvement_is_recommended() -> None:
    """Of several improvements the fastest is taken, and the sentence says by how much."""
    found = recommend([sample.confirmation(sample.SECOND, 0.85), sample.confirmation(sample.WINNER, 0.8)], POLICY)
    assert found.best == sample.WINNER
    assert found.verdict == "1.250 times as fast as the default (95 % interval 1.235 to 1.265, 12 pairs)."


@pytest.mark.parametrize(
    ("confirmations", "said"),
    [
        ((), "nothing faster than the default was confirmed"),
        (
            (Confirmation(configuration=sample.WINNER, config="c", reason="crashed"),),
            "nothing faster than the default was confirmed",
        ),
        ((sample.confirmation(sample.WINNER, 1.02),), "in interleaved pairs nothing was faster than the default"),
        ((sample.confirmation(sample.WINNER, 1.0),), "in interleaved pairs nothing was faster than the default"),
        (
            (sample.confirmation(sample.SECOND, 1.1), sample.confirmation(sample.WINNER, 0.97)),
            "the best takes 3.00 % less time in 12 pairs, under the 5 % that makes a change worth while",
        ),
        (
            (sample.confirmation(sample.WINNER, 0.95, p_value=0.051),),
            "the best takes 5.00 % less time in 12 pairs, which may be chance (interval −6.14 % to −3.86 %)",
        ),
        (
            (sample.confirmation(sample.WINNER, 0.90, half=0.15),),
            "the best takes 10.00 % less time in 12 pairs, which may be chance (interval −23.50 % to +3.50 %)",
        ),
    ],
)
def test_no_change_is_recommended(confirmations: tuple[Confirmation, ...], said: str) -> None:
    """Below the threshold, or without evidence, there is no recommendation, and the sentence says which of the two."""
    assert recommend(confirmations, POLICY) == Recommendation(None, f"No change recommended: {said}.")


def test_noisy_pairs_of_finalists_count_in_full() -> None:
    """Pairs that are like the pair before them prove a suggestion as well, however few independent ones they are worth."""
    noisy = sample.confirmation(sample.WINNER, 0.8, spread=0.05, effective_pairs=0.5, decile_bounds=(0.7, 1.1))
    assert recommend([noisy], POLICY).best == sample.WINNER


def test_finalists_share_the_false_alarms() -> None:
    """The more finalists, the more evidence each needs: one of many chosen ones looks fast by luck."""
    one = sample.confirmation(sample.WINNER, 0.9, p_value=0.03)
    other = sample.confirmation(sample.SECOND, 1.0)
    assert recommend([one], POLICY).best == sample.WINNER
    assert recommend([one, other], POLICY).best is None


@pytest.mark.parametrize(("finalists", "fewest"), [(1, 6), (2, 6), (3, 6), (4, 7), (7, 8)])
def test_the_fewest_pairs_of_a_suggestion_can_prove_it(finalists: int, fewest: int) -> None:
    """With the fewest pairs that a suggestion takes, pairs that all agree pass the level shared among the finalists."""
    rule = thresholds_of_finals(POLICY, finalists)
    found = compare_pairs(pair_examples.pairs([-0.3] * fewest), 0.95)
    assert found is not None
    assert rule.fewest == fewest
    assert decide(found, rule)[0] is Outcome.IMPROVED


def test_fastest_confirmed() -> None:
    """What was compared in pairs and came out fastest, whether or not it is recommended."""
    assert fastest_confirmed(sample.record()) == sample.WINNER
    several = tuple(sample.confirmation(each, ratio) for each, ratio in ((sample.SECOND, 0.9), (sample.WINNER, 0.8)))
    for confirmations in (several, several[::-1]):
        assert fastest_confirmed(sample.record(confirmations=confirmations)) == sample.WINNER
    alike = tuple(sample.confirmation(each, 0.9) for each in (sample.SECOND, sample.WINNER))
    assert fastest_confirmed(sample.record(confirmations=alike)) == sample.SECOND
    unconfirmed = Confirmation(configuration=sample.WINNER, config="training_512", reason="crashed")
    assert fastest_confirmed(sample.record(best=None, confirmations=(unconfirmed,))) is None


@given(st.dictionaries(st.integers(0, 5), COSTS, max_size=5))
def test_a_share_is_a_share(costs: dict[int, list[float]]) -> None:
    """What a parameter explains lies between nothing and everything."""
    share = variance_explained(dict(costs))
    assert share is None or 0 <= share <= 1


@pytest.mark.parametrize(
    ("costs", "share"),
    [
        ({0: [1.0, 1.0], 1: [2.0, 2.0]}, 1.0),  # without overlap
        ({0: [1.0, 2.0], 1: [1.0, 2.0]}, 0.0),
        ({0: [1.0, 1.0], 1: [1.0, 1.0]}, 0.0),
        # Logs 0 and 2 beside 4 and 6: squares of 20 in all and of 4 within, so 1 − 4 / 2 × 3 / 20 is explained.
        ({0: [1.0, math.exp(2)], 1: [math.exp(4), math.exp(6)]}, pytest.approx(0.7)),
    ],
)
def test_a_share_is_kelley_s(costs: dict[int, list[float]], share: float) -> None:
    """Two values without overlap explain everything, two of the same times nothing."""
    assert variance_explained(costs) == share


@pytest.mark.parametrize("costs", [{}, {0: [1.0, 2.0]}, {0: [1.0], 1: [2.0]}])
def test_one_value_or_one_time_of_each_explains_nothing(costs: dict[int, list[float]]) -> None:
    """A share takes two values, one of them with two times."""
    assert variance_explained(costs) is None
    assert variance_explained({**costs, 8: [1.0, 3.0], 9: [2.0]}) is not None


@pytest.mark.parametrize(("message", "is_compared"), [("gave no answer within 3 s", True), ("wrong result: it is off", False)])
def test_only_a_cut_off_pair_is_no_failure(message: str, is_compared: bool) -> None:
    """A finalist with a wrong result in its last pair is not recommended, though the time was over when the finals ended."""
    workers = {side: tuple(examples.worker(pair, 1.0) for pair in range(8)) for side in SIDES}
    failure = Failure(side="head", stage="check", message=message)
    measured = CaseRun(name="0", benchmark="b", config=Config(name="x"), failures=(failure,), **workers)
    assert (confirmation({"BLOCK": 8}, measured, 0.95, late=True).comparison is not None) == is_compared
