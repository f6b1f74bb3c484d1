"""One case → its outcome and reason."""

from __future__ import annotations

import examples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.judge.outcome import decide, judge_alone, judge_case
from ratchet.records import CaseRun, Failure, Outcome, Policy

POLICY = Policy()
SAME = (1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999)
STORED = examples.baseline().fingerprints[examples.FINGERPRINT.key].configs["attention/training_512"]
HEAD_BROKEN = Failure(side="head", stage="check", message="the result is wrong.")
REFERENCE_BROKEN = Failure(side="reference", stage="prepare", message="ValueError: no such\nlayout.")
OTHER_WORK = examples.WORKLOAD.model_copy(update={"flops": 1.0, "dtype": "float16"})


def slower(percent: float) -> CaseRun:
    """Eight pairs of a head that takes this much longer."""
    return examples.compared(*(ratio * (1 + percent / 100) for ratio in SAME))


CASES = {
    "failed": (slower(0).model_copy(update={"failures": (HEAD_BROKEN,)}), Outcome.FAILED, "Check: the result is wrong."),
    "failed before skipped": (
        slower(0).model_copy(update={"failures": (HEAD_BROKEN,), "skipped": "needs x", "unfit": "Hot.", "in_head": False}),
        Outcome.FAILED,
        "Check: the result is wrong.",
    ),
    "skipped": (
        examples.compared(skipped="needs triton, which is not installed", unfit="Hot.", in_head=False),
        Outcome.SKIPPED,
        "Skipped: needs triton, which is not installed.",
    ),
    "skipped with a full stop": (
        examples.compared(skipped="It serves cpu only. "),
        Outcome.SKIPPED,
        "Skipped: It serves cpu only.",
    ),
    "missing": (examples.compared(in_head=False, unfit="Hot."), Outcome.MISSING, "The head no longer has this case."),
    "unfit": (
        slower(0).model_copy(update={"unfit": "The GPU was hot; let it cool."}),
        Outcome.UNFIT,
        "The GPU was hot; let it cool.",
    ),
    "unfit before new": (slower(0).model_copy(update={"unfit": "Hot", "in_reference": False}), Outcome.UNFIT, "Hot."),
    "nothing measured": (examples.compared(), Outcome.UNFIT, "Nothing was measured."),
    "new": (
        slower(50).model_copy(update={"in_reference": False, "reference": (), "reference_workload": None}),
        Outcome.NEW,
        "The reference has no such case; it is timed alone.",
    ),
    "changed": (
        slower(50).model_copy(update={"workload": OTHER_WORK}),
        Outcome.CHANGED,
        "The workload itself differs, so times do not compare (dtype: bfloat16 → float16; flops: 34360000000.0 → 1.0).",
    ),
    "too few pairs": (
        examples.compared(1.0, 1.0),
        Outcome.INCONCLUSIVE,
        "Fewer than three pairs were measured, too few for an interval.",
    ),
    "reference died early": (
        examples.compared(1.0, 1.0, failures=(REFERENCE_BROKEN,)),
        Outcome.INCONCLUSIVE,
        "Fewer than three pairs were measured (the reference: ValueError: no such layout), too few for an interval.",
    ),
    "regressed": (slower(5), Outcome.REGRESSED, "Slower by 5.00 %, past the gate of 3 %."),
    "improved": (slower(-10), Outcome.IMPROVED, "Takes 10.00 % less time, past the threshold of 5 %."),
    "unchanged": (slower(0), Outcome.UNCHANGED, "Any slowdown is smaller than the gate of 3 %."),
    "a little faster": (slower(-4), Outcome.UNCHANGED, "Any slowdown is smaller than the gate of 3 %."),
    "a little slower": (slower(2), Outcome.UNCHANGED, "Any slowdown is smaller than the gate of 3 %."),
}


@pytest.mark.parametrize("name", CASES)
def test_outcome(name: str) -> None:
    """Each way through the rule has its outcome, and a reason of one sentence with one full stop."""
    case, outcome, reason = CASES[name]
    found = judge_case(case, POLICY, None)
    assert found[:2] == (outcome, reason)
    assert reason.endswith(".")
    assert not reason.endswith("..")
    assert "\n" not in found[1]
    decided = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.UNCHANGED)
    assert (found[2] is not None) == (outcome in decided)


def test_noise_is_inconclusive() -> None:
    """An interval across the gate is neither red nor unchanged, and says how far it reaches."""
    outcome, reason, found = judge_case(examples.compared(0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07), POLICY, None)
    assert outcome is Outcome.INCONCLUSIVE
    assert found is not None
    assert found.high > 1.03
    assert reason.startswith("The interval reaches from −")
    assert reason.endswith("across the gate of 3 %: measure more pairs, or quieten the machine.")


@pytest.mark.parametrize(
    ("failures", "why"),
    [
        ((REFERENCE_BROKEN,), "The reference could not be measured (ValueError: no such layout)"),
        ((), "There was no reference to measure"),
    ],
)
def test_without_a_reference(failures: tuple[Failure, ...], why: str) -> None:
    """Without a reference side nothing is decided: the stored baseline informs where it can, and never convicts."""
    case = slower(50).model_copy(update={"reference": (), "reference_workload": None, "failures": failures})
    outcome, reason, found = judge_case(case, POLICY, None)
    assert (outcome, found) == (Outcome.INCONCLUSIVE, None)
    assert reason == f"{why}, and the baseline file has nothing for this machine."

    outcome, reason, found = judge_case(case, POLICY, STORED)
    assert outcome is Outcome.INCONCLUSIVE
    assert found is not None
    assert (found.source, found.ratio > 20) == ("stored", True)
    assert reason.startswith(f"{why}; against the milliseconds stored on 2026-03-14 it is +")
    assert reason.endswith("but how far days differ on this machine is not known.")

    outcome, reason, found = judge_case(case, POLICY, STORED.model_copy(update={"pair_medians_ms": (0.053,)}))
    assert (outcome, found) == (Outcome.INCONCLUSIVE, None)
    assert reason == f"{why}, and too few medians are stored from 2026-03-14."

    outcome, reason, found = judge_case(case, POLICY, STORED.model_copy(update={"workload": OTHER_WORK}))
    assert (outcome, found) == (Outcome.CHANGED, None)
    assert reason == f"{why}, and the stored workload differs from this one."


def test_alone() -> None:
    """A case of `ratchet run` is measured, failed, skipped or unfit, and never compared."""
    assert judge_alone(slower(50)) == (Outcome.MEASURED, "Timed alone.", None)
    assert judge_alone(examples.compared(skipped="needs x"))[0] is Outcome.SKIPPED
    assert judge_alone(slower(0).model_copy(update={"failures": (HEAD_BROKEN,)}))[0] is Outcome.FAILED
    assert judge_alone(slower(0).model_copy(update={"unfit": "Hot."}))[0] is Outcome.UNFIT


@pytest.mark.parametrize(
    ("ratio", "low", "high", "outcome"),
    [
        (1.03, 1.02, 1.04, Outcome.INCONCLUSIVE),  # exactly the gate is not past it
        (1.0301, 1.02, 1.04, Outcome.REGRESSED),
        (1.0301, 1.0, 1.06, Outcome.INCONCLUSIVE),  # the interval must exclude no change
        (1.0301, 1.0001, 1.06, Outcome.REGRESSED),
        (1.02, 1.01, 1.03, Outcome.INCONCLUSIVE),  # and must end below the gate to prove its absence
        (1.02, 1.01, 1.0299, Outcome.UNCHANGED),
        (0.95, 0.94, 0.96, Outcome.IMPROVED),  # exactly the threshold is an improvement
        (0.9501, 0.94, 0.96, Outcome.UNCHANGED),
        (0.95, 0.9, 1.0, Outcome.UNCHANGED),
        (0.95, 0.8, 1.05, Outcome.INCONCLUSIVE),
        (0.5, 0.4, 0.9999, Outcome.IMPROVED),
    ],
)
def test_edges(ratio: float, low: float, high: float, outcome: Outcome) -> None:
    """At the thresholds themselves the rule is exact."""
    assert decide(examples.comparison(ratio, low=low, high=high), POLICY)[0] is outcome


@settings(deadline=None)
@given(
    st.tuples(st.floats(0.3, 3), st.floats(0.3, 3), st.floats(0.3, 3)).map(sorted),
    st.floats(0.001, 0.5),
    st.floats(0.001, 0.5),
)
def test_a_change_needs_both(bounds: list[float], gate: float, goal: float) -> None:
    """Regressed and improved need interval and threshold; unchanged needs a whole interval under the gate."""
    low, ratio, high = bounds
    outcome, reason = decide(examples.comparison(ratio, low=low, high=high), Policy(regression=gate, improvement=goal))
    if outcome is Outcome.REGRESSED:
        assert low > 1
        assert ratio > 1 + gate
    elif outcome is Outcome.IMPROVED:
        assert high < 1
        assert ratio <= 1 - goal
    elif outcome is Outcome.UNCHANGED:
        assert high < 1 + gate
    else:
        assert outcome is Outcome.INCONCLUSIVE
        assert high >= 1 + gate
    assert reason.endswith(".")
    assert not reason.endswith("..")


def test_the_gate_in_words() -> None:
    """A gate is shown as it was chosen."""
    assert decide(examples.comparison(1.2), Policy(regression=0.0005))[1] == "Slower by 20.00 %, past the gate of 0.05 %."


def test_chance_that_is_not_ruled_out_is_not_red() -> None:
    """However far off the estimate, pairs that chance could have produced give no regression, and the reason says so."""
    outcome, reason = decide(examples.comparison(1.2, low=1.05, high=1.3, chance=0.0011), Policy())
    assert outcome is Outcome.INCONCLUSIVE
    assert "chance is not ruled out" in reason
    assert decide(examples.comparison(1.2, low=1.05, high=1.3, chance=0.0009), Policy())[0] is Outcome.REGRESSED


def test_cases_share_the_false_alarms_of_a_run() -> None:
    """With fifty cases, each may be red by chance fifty times less often."""
    assert Policy().shared(50).false_alarm == pytest.approx(0.001 / 50)
    assert Policy().shared(0) == Policy()
    found = examples.comparison(1.2, low=1.05, high=1.3, chance=0.0005)
    assert decide(found, Policy().shared(1))[0] is Outcome.REGRESSED
    assert decide(found, Policy().shared(50))[0] is Outcome.INCONCLUSIVE
