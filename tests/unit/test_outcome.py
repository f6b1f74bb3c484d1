"""One case → its outcome and reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import examples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.judge.outcome import Finding, compared, days_ms, decide, decide_apart, judge_alone, judge_case
from ratchet.records import BaselineEntry, CaseRun, Failure, Outcome, Policy
from ratchet.records.chain import Day

POLICY = Policy()
SAME = (1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999)
STORED = examples.baseline().fingerprints[examples.FINGERPRINT.key].configs["attention/training_512"]
HEAD_BROKEN = Failure(side="head", stage="check", message="the result is wrong.")
REFERENCE_BROKEN = Failure(side="reference", stage="prepare", message="ValueError: no such\nlayout.")
OTHER_WORK = examples.WORKLOAD.model_copy(update={"flops": 1.0, "dtype": "float16"})


def judged(case: CaseRun, stored: BaselineEntry | None = None, policy: Policy = POLICY) -> Finding:
    return judge_case(case, compared(case, policy.confidence), policy, stored)


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
    "identical": (
        examples.compared(identity={"head": "a", "reference": "a"}),
        Outcome.IDENTICAL,
        "The same machine code, launched in the same way on both sides; it was not timed.",
    ),
    "identical and timed": (
        slower(5).model_copy(update={"identity": {"head": "a", "reference": "a"}}),
        Outcome.REGRESSED,
        "Slower by 5.00 %, past the gate of 3 %.",
    ),
    "other code and not timed": (
        examples.compared(identity={"head": "a", "reference": "b"}),
        Outcome.UNFIT,
        "Nothing was measured.",
    ),
    "one digest only": (examples.compared(identity={"head": "a"}), Outcome.UNFIT, "Nothing was measured."),
    "identical code of other work": (
        examples.compared(identity={"head": "a", "reference": "a"}, workload=OTHER_WORK),
        Outcome.UNFIT,
        "Nothing was measured.",
    ),
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
    found = judged(case)
    assert found[:2] == (outcome, reason)
    assert reason.endswith(".")
    assert not reason.endswith("..")
    assert "\n" not in found[1]
    decided = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.UNCHANGED)
    assert (found[2] is not None) == (outcome in decided)


def test_noise_is_inconclusive() -> None:
    """An interval across the gate is neither red nor unchanged, and says how far it reaches."""
    outcome, reason, found = judged(examples.compared(0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07))
    assert outcome is Outcome.INCONCLUSIVE
    assert found is not None
    assert found.high > 1.03
    assert reason.startswith("The interval reaches from −")
    assert reason.endswith(
        f"across the gate of 3 % (detectable here: {100 * found.detectable:.2f} %): raise the budget, or quieten the machine."
    )


def test_nothing_to_compare() -> None:
    """Without a reference, or with other work on it, there is no comparison, and else it is over the pairs of the case."""
    assert compared(slower(0).model_copy(update={"reference": ()}), 0.95) is None
    assert compared(slower(0).model_copy(update={"workload": OTHER_WORK}), 0.95) is None
    found = compared(slower(5), 0.9)
    assert found is not None
    assert (found.ratio, found.pairs, found.confidence) == (pytest.approx(1.05, abs=1e-5), 8, 0.9)


# Against what was measured another time


def without_reference(case: CaseRun, *failures: Failure) -> CaseRun:
    return case.model_copy(update={"reference": (), "reference_workload": None, "failures": failures})


def days(*medians_ms: float) -> BaselineEntry:
    """What is stored of the case, with one median for each day of April."""
    taken = tuple(Day(timestamp=datetime(2026, 4, 1 + day, tzinfo=UTC), median_ms=ms) for day, ms in enumerate(medians_ms))
    return STORED.model_copy(update={"days": taken})


@pytest.mark.parametrize(
    ("failures", "why"),
    [
        ((REFERENCE_BROKEN,), "The reference could not be measured (ValueError: no such layout)"),
        ((), "There was no reference to measure"),
    ],
)
def test_without_a_reference(failures: tuple[Failure, ...], why: str) -> None:
    """Without a reference side nothing is decided while fewer than three days are known: the baseline only informs."""
    case = without_reference(slower(50), *failures)
    outcome, reason, found = judged(case)
    assert (outcome, found) == (Outcome.INCONCLUSIVE, None)
    assert reason == f"{why}, and the baseline file has nothing for this machine."

    for known, stored in enumerate((days(), days(0.053), days(0.053, 0.0531))):
        outcome, reason, found = judged(case, stored)
        assert outcome is Outcome.INCONCLUSIVE
        assert found is not None
        assert (found.source, found.ratio > 20) == ("stored", True)
        assert reason.startswith(f"{why}; against the milliseconds stored on 2026-03-14 it is +")
        assert reason.endswith(f"but history holds {known} of the 3 days needed to know how far days differ on this machine.")

    outcome, reason, found = judged(case, days().model_copy(update={"pair_medians_ms": (0.053,)}))
    assert (outcome, found) == (Outcome.INCONCLUSIVE, None)
    assert reason == f"{why}, and too few medians are stored from 2026-03-14."

    outcome, reason, found = judged(case, days(1.0, 1.0, 1.0).model_copy(update={"workload": OTHER_WORK}))
    assert (outcome, found) == (Outcome.CHANGED, None)
    assert reason == f"{why}, and the stored workload differs from this one."


APRIL = (1.0, 1.012, 0.99, 1.008, 0.995, 0.988, 1.01, 1.002)
"""Milliseconds of unchanged code on eight days that differ by 1 %."""


@pytest.mark.parametrize(
    ("percent", "outcome", "said"),
    [
        (0, Outcome.UNCHANGED, "Any slowdown is smaller than the gate of 3 %."),
        (2, Outcome.INCONCLUSIVE, "across the gate of 3 %"),
        (5, Outcome.INCONCLUSIVE, "Slower, but not by more than separate times may differ"),
        (20, Outcome.REGRESSED, "Slower by 19.93 %, past the gate of 3 %."),
        (-20, Outcome.IMPROVED, "Takes 20.05 % less time, past the threshold of 5 %."),
    ],
)
def test_known_days_decide(percent: float, outcome: Outcome, said: str) -> None:
    """Where days are known to differ by 1 %, a head slower by 2 % is not red, and one slower by 20 % is."""
    found = judged(without_reference(slower(percent), REFERENCE_BROKEN), days(*APRIL))
    assert found[0] is outcome
    assert found[1].startswith("The reference could not be measured (ValueError: no such layout); against the milliseconds of 8 ")
    assert said in found[1]
    assert found[2] is not None
    assert found[2].source == "days"


@pytest.mark.parametrize("known", [8, 16, 30])
def test_more_days_do_not_hide_a_slowdown(known: int) -> None:
    """With every day that the baseline may hold, a head slower by 20 % is as red as with eight."""
    stored = days(*(APRIL * 4)[:known])
    assert judged(without_reference(slower(20)), stored)[0] is Outcome.REGRESSED
    assert judged(without_reference(slower(2)), stored)[0] is not Outcome.REGRESSED


def test_identical_days() -> None:
    """Days that agree to the last digit leave only today's own pairs to doubt, and a change within the gate is none."""
    stored = days(1.0, 1.0, 1.0)
    assert judged(without_reference(slower(0)), stored)[0] is Outcome.UNCHANGED
    assert judged(without_reference(slower(2)), stored)[0] is Outcome.UNCHANGED
    assert judged(without_reference(slower(20)), stored)[0] is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("hours", "medians", "by_day"),
    [
        ((), (), []),
        ((1, 2, 3), (1.0, 3.0, 1.5), [1.5]),
        ((1, 25, 26, 49), (1.0, 2.0, 4.0, 5.0), [1.0, 3.0, 5.0]),
    ],
)
def test_one_value_a_day(hours: Sequence[int], medians: Sequence[float], by_day: list[float]) -> None:
    """Measured several times on one date, a day still counts once, with its median."""
    taken = tuple(
        Day(timestamp=datetime(2026, 4, 1 + hour // 24, hour % 24, tzinfo=UTC), median_ms=ms)
        for hour, ms in zip(hours, medians, strict=True)
    )
    assert days_ms(STORED.model_copy(update={"days": taken})) == by_day


def test_two_times_are_held_to_more() -> None:
    """Between two times only a whole interval past the gate is red; what else the rule says stays."""
    near, past = examples.comparison(1.04, low=1.03, high=1.05), examples.comparison(1.04, low=1.031, high=1.05)
    assert decide(near, POLICY)[0] is Outcome.REGRESSED
    assert decide_apart(near, POLICY) == (
        Outcome.INCONCLUSIVE,
        "Slower, but not by more than separate times may differ: only taking turns can tell.",
    )
    assert decide_apart(past, POLICY) == decide(past, POLICY)
    for other in (examples.comparison(1.0), examples.comparison(0.9), examples.comparison(1.0, 0.2)):
        assert decide_apart(other, POLICY) == decide(other, POLICY)


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


@pytest.mark.parametrize(
    ("gate", "ratio", "spread", "outcome"),
    [
        (0.03, 1.08, 0.03, Outcome.REGRESSED),  # no more than 3 %: the p-value is enough
        (0.03, 1.08, 0.0301, Outcome.INCONCLUSIVE),  # beyond, three spreads are asked for
        (0.03, 1.1, 0.0301, Outcome.REGRESSED),
        (0.01, 1.05, 0.03, Outcome.REGRESSED),  # a small gate asks for no quieter pairs
        (0.01, 1.08, 0.0301, Outcome.INCONCLUSIVE),
        (0.1, 1.2, 0.1, Outcome.REGRESSED),  # nor does a large one forbid what lies inside it
        (0.1, 1.2, 0.101, Outcome.INCONCLUSIVE),
        (0.03, 0.8, 0.2, Outcome.UNCHANGED),  # an improvement is held to the same
        (0.03, 0.5, 0.2, Outcome.IMPROVED),
        (0.03, 0.94, 0.03, Outcome.IMPROVED),
        (0.5, 0.94, 0.04, Outcome.IMPROVED),  # whose threshold is 5 %, however much slower the gate lets a case be
        (0.5, 0.94, 0.06, Outcome.UNCHANGED),
    ],
)
def test_wild_pairs(gate: float, ratio: float, spread: float, outcome: Outcome) -> None:
    """Where single pairs differ by more than the gate and 3 %, a change must also be three times what they differ by."""
    found = examples.comparison(ratio, low=ratio - 0.02, high=ratio + 0.02, chance=1e-9).model_copy(update={"spread": spread})
    said, reason = decide(found, Policy(regression=gate))
    assert said is outcome
    if outcome is Outcome.INCONCLUSIVE and ratio - 0.02 > 1 + gate:
        assert "differ so much that chance is not ruled out" in reason


def test_levels_of_a_policy() -> None:
    """A share of the false alarms is that of one look at one case, and a part of a slowdown is a quarter of the gate."""
    assert Policy().shared(5, 4).false_alarm == pytest.approx(0.001 / 20)
    assert Policy().shared(0, 0) == Policy()
    assert Policy().at(0.5) == Policy(false_alarm=0.5)
    assert Policy(regression=0.02).part == 0.005
