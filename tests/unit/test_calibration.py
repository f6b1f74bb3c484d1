"""Unchanged code against itself → the gate that a machine can hold."""

from __future__ import annotations

import math
import random

import pytest

from ratchet.common.auto_gate import smallest_gate
from ratchet.core.judge.comparison import Pair, pairs_of
from ratchet.core.judge.evidence import needed_change
from ratchet.core.records.run import CaseRun, Failure, Policy
from ratchet.trust.calibration_report import calibration_lines
from ratchet.trust.records import Calibration
from ratchet.trust.replay_rule import calibrate, simulate
from tests import examples, pair_examples

POLICY = Policy()
CHECKS = 300
"""Simulated checks, a tenth of what the command takes: none of these cases is close to an edge."""


def noisy(name: str, spread: float, pairs: int = 60, shift: float = 0.0) -> CaseRun:
    """A case of unchanged code whose pairs spread by this fraction."""
    rng = random.Random(name)
    return examples.compared(*(1 + shift + rng.gauss(0, spread) for _ in range(pairs)), name=name)


def calibration(*cases: CaseRun, pairs: int = 21) -> Calibration:
    """What a run of these cases says about checks of so many pairs."""
    run = examples.run_of(*cases)
    found = calibrate(run, run.plan.model_copy(update={"pairs": pairs}), POLICY, CHECKS)
    assert found is not None
    return found


def test_a_quiet_machine_holds_the_gate() -> None:
    """With pairs that spread by 0.3 % a gate of 3 % is held: nothing is red, everything a sixth beyond it is caught.

    Two cases take six sessions, and so 21 pairs.
    """
    found = calibration(noisy("a", 0.003), noisy("b", 0.001))
    assert found.holds
    assert found.any_red == 0
    assert [case.caught for case in found.cases] == [1.0, 1.0]
    assert [case.pairs for case in found.cases] == [60, 60]
    assert found.cases[0].spread == pytest.approx(0.003, rel=0.3)
    assert found.cases[0].detectable_most == found.cases[0].detectable_first
    assert 0.03 < (found.cases[1].detectable_most or 0) < (found.cases[0].detectable_most or 0) < 0.033
    assert found.cases[1].gate < found.cases[0].gate == found.gate < 0.02


@pytest.mark.slow
@pytest.mark.no_cover
def test_more_pairs_detect_less() -> None:
    """What all pairs can show is less than what the fewest can; with fewer pairs than a regression takes, nothing is."""
    (case,) = calibration(noisy("a", 0.02), pairs=40).cases
    assert (case.detectable_most or 1) < (case.detectable_first or 0)
    (few,) = calibration(noisy("a", 0.003), pairs=12).cases
    assert (few.detectable_first, few.detectable_most, few.holds, few.caught) == (None, None, False, 0.0)


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_noisy_case_is_not_blessed() -> None:
    """A case whose pairs spread by 5 % cannot hold a gate of 3 %, and the gate that it needs is named."""
    found = calibration(noisy("a", 0.003), noisy("b", 0.05))
    assert not found.holds
    assert [case.holds for case in found.cases] == [True, False]
    assert found.gate == found.cases[1].gate > 0.05


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_favoured_side_is_found() -> None:
    """A mean that is not zero beyond chance means that the two sides were not measured alike."""
    found = calibration(noisy("a", 0.003, shift=0.01), noisy("b", 0.003))
    assert found.biased == ("a",)
    assert not found.holds


@pytest.mark.parametrize(
    ("bias", "spread", "biased"), [(0.0031, 0.001, True), (-0.0031, 0.001, True), (0.0029, 0.001, False), (0.01, 0.1, False)]
)
def test_a_bias_takes_proof_and_a_tenth_of_the_gate(bias: float, spread: float, biased: bool) -> None:
    """A mean that chance explains, or that is less than 0.3 % for a gate of 3 %, favours nobody."""
    logs = [bias + spread * (-1) ** number for number in range(24)]
    run = examples.run_of(examples.compared(*map(math.exp, logs), name="a"))
    found = calibrate(run, run.plan, POLICY, 10)
    (case,) = found.cases
    assert case.bias == pytest.approx(bias, abs=1e-6)
    assert found.biased == (("a",) if biased else ())


@pytest.mark.parametrize(
    ("bias", "others", "biased"), [(0.005, 0, False), (0.006, 0, True), (0.006, 1, False), (0.0065, 1, True)]
)
def test_cases_share_the_doubt_about_a_bias(bias: float, others: int, biased: bool) -> None:
    """A mean of 2.4 standard errors is chance for one case, one of 2.9 is not, and beside another case it takes 3.1."""
    means = [bias, *[0.0] * others]
    cases = [
        examples.compared(*(math.exp(mean + 0.01 * (-1) ** number) for number in range(24)), name=f"a/{place}")
        for place, mean in enumerate(means)
    ]
    run = examples.run_of(*cases)
    found = calibrate(run, run.plan, POLICY, 10)
    assert found.biased == (("a/0",) if biased else ())


@pytest.mark.slow
def test_a_calibration_can_be_repeated() -> None:
    """Its shares are those of simulations whose seeds are that of the run, and the next one for slowed code."""
    case = noisy("a", 0.01, shift=0.01)
    run = examples.run_of(case, plan=examples.PLAN.model_copy(update={"seed": 7}))
    policy = POLICY.model_copy(update={"false_alarm": 0.9, "regression": 0.005})
    plan, pools = run.plan.model_copy(update={"pairs": 21}), {"a": pairs_of(case.head, case.reference)}
    found = calibrate(run, plan, policy, 80)
    unchanged = simulate(pools, policy, pairs=21, runs=80, seed=run.plan.seed)
    planted = {"a": 1 + 0.005 * 7 / 6}
    slowed = simulate(pools, policy, pairs=21, runs=8, seed=run.plan.seed + 1, planted=planted)
    assert 0 < found.any_red == found.cases[0].red == unchanged.any_red < 1
    assert 0 < found.cases[0].caught == slowed.red["a"] < 1


def test_too_few_pairs_bless_nothing() -> None:
    """A case with fewer than twelve pairs is named as unmeasured; with none that has more, there is nothing to say.

    The pairs of a case that failed or was unfit do not count.
    """
    skipped = noisy("c", 0.003).model_copy(update={"skipped": "needs x"})
    found = calibration(noisy("a", 0.003), noisy("b", 0.003, pairs=11), skipped)
    assert (found.unmeasured, found.holds) == (("b",), False)
    failures = (Failure(side="head", stage="check", message="wrong result"),)
    for broken in ({"failures": failures}, {"unfit": "Hot."}):
        found = calibration(noisy("a", 0.003), noisy("b", 0.003).model_copy(update=broken))
        assert (found.unmeasured, found.holds) == (("b",), False)
    run = examples.run_of(noisy("b", 0.003, pairs=11))
    assert calibrate(run, run.plan, POLICY, CHECKS) is None


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("spread", [0.001, 0.004, 0.012])
def test_the_suggested_gate_holds(spread: float) -> None:
    """At the gate it suggests, a slowdown a sixth beyond it is caught about 95 times in 100, and unchanged code is not red."""
    rng = random.Random(7)
    pool = [Pair(rng.gauss(0, spread), 1.0, 1.0) for _ in range(4000)]
    gate = smallest_gate(spread, 20, pair_examples.bar(most=20))
    policy = POLICY.model_copy(update={"regression": gate})
    slowed = simulate({"a": pool}, policy, pairs=20, runs=300, planted={"a": 1 + gate * 7 / 6})
    assert slowed.caught is not None
    assert slowed.caught >= 0.92
    assert simulate({"a": pool}, policy, pairs=20, runs=300).any_red == 0


@pytest.mark.parametrize("spread", [0.001, 0.004, 0.02])
def test_the_suggested_gate_is_the_smallest_tenth_of_a_percent(spread: float) -> None:
    """A slowdown a sixth beyond it is caught, and one a sixth beyond a gate 0.1 % lower is not; no gate is above 100 %."""
    thresholds = pair_examples.bar(most=20)
    gate = smallest_gate(spread, 20, thresholds)
    assert gate == pytest.approx(round(gate, 3))
    caught = [
        needed_change(math.log1p(each), spread, thresholds, 20, 0.95) <= math.log1p(each * 7 / 6) for each in (gate, gate - 0.001)
    ]
    assert caught == [True, False]
    assert smallest_gate(10.0, 20, thresholds) == 1.0


@pytest.mark.slow
def test_it_ends_with_the_verdict() -> None:
    """The last line says whether the machine holds the gate, and names the smallest one that it does."""
    lines = calibration_lines(calibration(noisy("a", 0.003), noisy("b", 0.001)))
    assert lines[0].split() == ["Case", "Pairs", "Spread", "Bias", "MDE", "first", "MDE", "most", "Red", "Caught", "Gate"]
    assert lines[1].startswith("a  ")  # the noisiest first
    assert lines[-1].startswith("This machine holds the gate of 3 %; the smallest gate that every case holds is ")


@pytest.mark.slow
def test_it_says_what_to_do() -> None:
    """A gate that is not held comes with the cases that do not hold it, and with what to do; hostile names stay names."""
    cases = [noisy(examples.HOSTILE, 0.05), noisy("few", 0.003, pairs=5), noisy("one-sided", 0.003, shift=0.02)]
    lines = calibration_lines(calibration(*cases))
    text = "\n".join(lines)
    assert "cannot be held for" in text
    assert "stop other work on this machine" in text
    assert "few: too few pairs" in text
    assert "one-sided: one side is favoured" in text
    assert lines[-1].startswith("This machine does not hold the gate of 3 %")
    assert all(character.isprintable() for line in lines for character in line)
