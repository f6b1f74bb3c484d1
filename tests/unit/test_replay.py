"""Recorded pairs drawn again: how often a run of unchanged code is red, and how often a slowdown is caught."""

from __future__ import annotations

import math
import random

import pytest

from ratchet.core.judge.drift import Drift
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Outcome
from ratchet.trust.replay_rule import Rates, draw, simulate, slowed_by
from tests import pair_examples

POLICY = Policy()
QUIET = pair_examples.recorded_pairs(*pair_examples.QUIET)
SURE = {"a/x": pair_examples.pairs([0.0, 0.0004, -0.0004]), "a/y": pair_examples.pairs([0.0, 0.0005, -0.0005])}


def test_rates_of_what_is_sure() -> None:
    """Quiet pairs are never red and stop at six; a slowdown far past the gate is always caught, at 26 pairs of six sessions."""
    found = simulate(SURE, POLICY, pairs=100, runs=50)
    assert found == Rates(0.0, None, 0.0, 6.0, 50, {"a/x": 0.0, "a/y": 0.0})
    found = simulate(SURE, POLICY, pairs=100, runs=50, planted={"a/y": 1.1})
    assert found == Rates(0.0, 1.0, 0.0, 16.0, 50, {"a/x": 0.0, "a/y": 1.0})
    found = simulate(SURE, POLICY, pairs=100, runs=50, planted={"a/y": 0.8})
    assert (found.caught, found.any_red, found.pairs_mean) == (0.0, 0.0, 13.0)  # a gain takes four sessions
    both = simulate(SURE, POLICY, pairs=100, runs=10, planted={"a/x": 1.1, "a/y": 0.8})
    assert (both.caught, both.any_red) == (0.5, 0.0)
    found = simulate({"a/y": SURE["a/y"]}, POLICY, pairs=100, runs=50, planted={"a/y": 1.1})
    assert (found.caught, found.pairs_mean) == (1.0, 20.0)


def test_slower_without_proof_is_no_answer() -> None:
    """With fewer pairs than a regression takes nothing is red, and a slowdown is counted as without an answer."""
    found = simulate(SURE, POLICY, pairs=12, runs=50, planted={"a/y": 1.1})
    assert (found.caught, found.inconclusive, found.pairs_mean) == (0.0, 0.5, 9.0)


def test_rates_of_what_is_slower_in_the_pool() -> None:
    """Pairs recorded of slower code are red in every run, and only a planted case is not counted as a false alarm."""
    pools = SURE | {"a/y": pair_examples.pairs([0.1, 0.101, 0.099])}
    found = simulate(pools, POLICY, pairs=21, runs=20)
    assert (found.any_red, found.red) == (1.0, {"a/x": 0.0, "a/y": 1.0})
    assert simulate(pools, POLICY, pairs=21, runs=20, planted={"a/y": 1.0}).any_red == 0.0
    assert simulate(pools, POLICY, pairs=20, runs=20).any_red == 0.0  # that is one session too few


def test_no_answer_is_counted() -> None:
    """Pairs that differ by tens of percent hardly ever give an answer, however many are taken, and take them all."""
    wild = {"a/x": pair_examples.pairs([0.3, -0.3, 0.1, -0.1])}
    found = simulate(wild, POLICY, pairs=12, runs=100)
    assert (found.any_red, found.pairs_mean) == (0.0, 12.0)
    assert 0.85 <= found.inconclusive <= 1


def test_the_same_seed_draws_the_same() -> None:
    """A replay can be repeated, and another seed draws other pairs."""
    pool = {"a/x": pair_examples.pairs([0.03, -0.03, 0.01, -0.01])}
    first, again, other = (simulate(pool, POLICY, pairs=20, runs=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert simulate(pool, POLICY, pairs=20, runs=50) == simulate(pool, POLICY, pairs=20, runs=50, seed=0)


@pytest.mark.parametrize("pairs", [3, 6, 8, 20, 24])
def test_it_judges_as_a_check_does(pairs: int) -> None:
    """One run over pools of equal pairs gives each case the outcome that a check of these pairs has."""
    logs = {f"a/{index}": [log] for index, log in enumerate((0.0, 0.029, 0.031, 0.1, -0.1))}
    found = simulate({name: pair_examples.pairs(log) for name, log in logs.items()}, POLICY, pairs=pairs, runs=1)
    checked = pair_examples.outcomes({name: pair_examples.pairs(log * pairs) for name, log in logs.items()}, POLICY, pairs)
    assert found.red == {name: float(outcome is Outcome.REGRESSED) for name, outcome in checked.items()}
    assert sum(found.red.values()) == (2 if pairs == 24 else 0)
    assert found.inconclusive == (0 if pairs == 24 else 2 / 5)


def test_a_drifting_case_takes_more_pairs() -> None:
    """A draw looks longer at a small slowdown of a case that drifts, and at no other."""
    part = pair_examples.pairs([0.004, 0.003, 0.009, -0.003])
    taken = {}
    for drifts in ({}, {"a/x": Drift("1" * 40, 1.028)}):
        rng = random.Random(2)
        answers = [draw({"a/x": part, "a/y": part}, POLICY, 100, rng, drifts) for _ in range(20)]
        assert {outcome for each in answers for outcome, _ in each.values()} == {Outcome.UNCHANGED}
        taken[bool(drifts)] = [sum(each[name][1].pairs for each in answers) for name in ("a/x", "a/y")]
    assert taken[True][0] > 1.5 * taken[False][0]
    assert taken[True][1] == taken[False][1]


def test_slowed_by() -> None:
    """A head that takes twice as long has twice the time, and a reference as before."""
    (pair,) = slowed_by(2.0, pair_examples.pairs([0.0]))
    assert (pair.log_ratio, pair.head_ms, pair.reference_ms) == (math.log(2), 2.0, 1.0)


def test_planting_slows_the_head_only() -> None:
    """A planted factor is one on the ratio: pairs already faster by it are then unchanged."""
    pool = {"a/x": pair_examples.pairs([math.log(0.9), math.log(0.9) + 1e-3])}
    assert simulate(pool, POLICY, pairs=8, runs=5, planted={"a/x": 1 / 0.9}).red == {"a/x": 0.0}


def test_too_few_pairs() -> None:
    """A replay of too few pairs is refused with what is wrong."""
    with pytest.raises(ValueError, match="2 pairs are too few to compare: take 3 or more"):
        simulate(SURE, POLICY, pairs=2, runs=1)


# The pairs recorded on an H200


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(("gate", "seed"), [(0.03, 0), (0.01, 1)])
def test_unchanged_code_is_not_red(gate: float, seed: int) -> None:
    """Of 300 runs over the pairs of eight cases that did not change, none is red, at about the fewest pairs there are."""
    found = simulate(QUIET, Policy(regression=gate), pairs=100, runs=300, seed=seed)
    assert found.any_red == 0
    assert found.inconclusive == 0
    assert found.pairs_mean <= (6.5 if gate == 0.03 else 9)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(("gate", "planted", "caught"), [(0.03, 1.035, 0.99), (0.03, 1.05, 0.999), (0.01, 1.015, 0.99)])
def test_slower_code_is_caught(gate: float, planted: float, caught: float) -> None:
    """A slowdown a sixth or half beyond the gate is caught in 99 of 100 cases, and one of 5 % in 999 of 1,000."""
    found = simulate(QUIET, Policy(regression=gate), pairs=100, runs=130, seed=2, planted=dict.fromkeys(QUIET, planted))
    assert found.caught is not None
    assert found.caught >= caught
    assert min(found.red.values()) >= 0.95
    assert found.pairs_mean <= 27


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("case", pair_examples.QUIET)
def test_one_slower_case_among_seven(case: str) -> None:
    """A single slower case is caught beside seven that did not change, and they stay as they were."""
    found = simulate(QUIET, POLICY, pairs=100, runs=40, seed=3, planted={case: 1.035})
    assert found.red[case] >= 0.95
    assert found.any_red == 0
    assert found.pairs_mean <= 9.5


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_launch_bound_case_is_hardly_ever_red() -> None:
    """A case whose pairs differ by up to 45 %, for neither side, makes at most one of 300 runs red, and no quiet neighbour."""
    recorded = [pair.log_ratio for pair in pair_examples.recorded_pairs("warm:attn_512")["warm:attn_512"]]
    either = pair_examples.pairs([way * log for log in recorded for way in (1, -1)])
    found = simulate({"launch": either, "copy": QUIET["copy"]}, POLICY, pairs=40, runs=300, seed=4)
    assert found.any_red <= 1 / 300
    assert found.red["copy"] == 0
