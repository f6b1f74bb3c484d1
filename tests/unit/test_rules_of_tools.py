"""When tools stop measuring: experiments, micro-benchmarks, and the finals of a search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ratchet.core.judge.rule import Rule
from ratchet.core.records.run import CaseRun, Policy
from ratchet.lab.records.experiment import WHOLE
from ratchet.lab.rules import ExperimentRule, MicroRule, changes_of
from ratchet.tune.judge import FINAL_PAIRS, USUAL, FinalsRule
from tests import examples


def case(name: str, ratio: float, pairs: int, noise: float = 0.001) -> CaseRun:
    """A case whose head takes this times as long, with so much noise in every other pair."""
    return examples.compared(*(ratio * (1 + noise * (-1) ** pair) for pair in range(pairs)), name=name)


@pytest.mark.parametrize(
    ("rule", "ratio", "noise", "is_open"),
    [
        (ExperimentRule(20, WHOLE), 0.5, 0.001, False),
        (ExperimentRule(20, WHOLE), 1.0, 0.3, True),
        (MicroRule((8, 20)), 0.3, 0.001, False),
        (MicroRule((8, 20)), 1.0, 0.5, True),
    ],
)
def test_tools_stop_once_it_is_clear(rule: Rule, ratio: float, noise: float, is_open: bool) -> None:
    """A change and a micro-benchmark take more pairs while noise hides what they do, or while there are too few."""
    assert bool(rule.undecided([case("a/x", ratio, 12, noise)])) == is_open
    assert rule.undecided([case("a/x", ratio, 2)]) == ["a/x"]


def test_a_change_of_which_a_stage_gains_little_is_measured_again() -> None:
    """A whole call that looks the same and a stage that gained ask for more pairs; a clear gain of the whole call does not."""
    rule = ExperimentRule(20, "scores")
    before = case("a/x", 1.0, 12)
    heads = tuple(replace(worker, stages_ms={"scores": (0.0155 + 1e-5 * worker.pair,)}) for worker in before.head)
    references = tuple(replace(worker, stages_ms={"scores": (0.031 + 1e-5 * worker.pair,)}) for worker in before.reference)
    masked = before.model_copy(update={"head": heads, "reference": references})
    assert list(changes_of(masked)) == [WHOLE, "scores"]
    assert rule.reruns(masked) > 0
    assert rule.reruns(case("a/x", 0.5, 12)) == 0


def test_finals_go_on_with_what_may_still_be_the_best() -> None:
    """All of them up to the fewest pairs; then those that overlap with the best one, until it has won with as many as usual."""
    rule = FinalsRule(Policy(), 30)
    few = [case("0", 0.9, FINAL_PAIRS - 1), case("1", 1.2, FINAL_PAIRS - 1)]
    assert rule.looks == tuple(range(1, 31))
    assert set(rule.undecided(few)) == {"0", "1"}
    assert rule.undecided([case("0", 0.9, FINAL_PAIRS), case("1", 1.2, FINAL_PAIRS)]) == ["0"]
    assert set(rule.undecided([case("0", 0.9, FINAL_PAIRS, 0.05), case("1", 0.92, FINAL_PAIRS, 0.05)])) == {"0", "1"}
    assert rule.undecided([case("0", 0.9, USUAL), case("1", 1.2, USUAL)]) == []
    assert rule.undecided([case("0", 1.3, FINAL_PAIRS)]) == []
    assert rule.undecided([case("0", 0.98, FINAL_PAIRS)]) == []  # proven, and not worth a change
    assert rule.undecided([case("0", 1.01, FINAL_PAIRS)]) == []
