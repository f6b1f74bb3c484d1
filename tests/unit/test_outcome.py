"""One case → its outcome and reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.core import units
from ratchet.core.judge.outcome import (
    Judgement,
    compared,
    days_ms,
    decide,
    decide_apart,
    host_bound,
    judge_alone,
    judge_case,
    settles,
)
from ratchet.core.judge.rule import GateRule, Rule
from ratchet.core.judge.verdict import judge_run, judge_two
from ratchet.core.records.baseline import Baseline, BaselineEntry, Day
from ratchet.core.records.run import Block, CaseRun, Failure, Policy
from ratchet.core.records.verdict import Outcome
from tests import examples, history_examples, pair_examples, reports

POLICY = Policy()
SAME = history_examples.STEADY
STORED = examples.baseline().fingerprints[examples.FINGERPRINT.key].configs["attention/training_512"]
HEAD_BROKEN = Failure(side="head", stage="check", message="the result is wrong.")
REFERENCE_BROKEN = Failure(side="reference", stage="prepare", message="ValueError: no such\nlayout.")
OTHER_WORK = examples.WORKLOAD.model_copy(update={"flops": 1.0, "dtype": "float16"})


def judged(case: CaseRun, stored: BaselineEntry | None = None, policy: Policy = POLICY) -> Judgement:
    return judge_case(case, compared(case, policy.confidence), pair_examples.bar(policy), stored)


def slower(percent: float, pairs: int = 24, **changes: Any) -> CaseRun:
    """Pairs of a head that takes this much longer."""
    return examples.compared(*(ratio * (1 + percent / 100) for ratio in SAME[:pairs]), **changes)


ALIKE, UNLIKE = {"head": "a", "reference": "a"}, {"head": "a", "reference": "b"}
WRONG, UNTIMED, NO_SLOWER = (
    "Check: the result is wrong.",
    "Nothing was measured.",
    "Any slowdown is smaller than the gate of 3 %.",
)
DIFFERS = "The workload itself differs, so times do not compare (dtype: bfloat16 → float16; flops: 34360000000.0 → 1.0{})."
CASES = {
    "failed on both sides": (
        slower(0, failures=(HEAD_BROKEN, REFERENCE_BROKEN)),
        Outcome.FAILED,
        f"{WRONG} The reference fails, too.",
    ),
    "failed": (slower(0, failures=(HEAD_BROKEN,)), Outcome.FAILED, WRONG),
    "failed before skipped": (
        slower(0, failures=(HEAD_BROKEN,), skipped="needs x", unfit="Hot.", in_head=False),
        Outcome.FAILED,
        WRONG,
    ),
    "skipped": (
        examples.compared(skipped="needs triton, which is not installed", unfit="Hot.", in_head=False),
        Outcome.SKIPPED,
        "Needs triton, which is not installed.",
    ),
    "skipped with a full stop": (
        examples.compared(skipped="runs on cpu only, not on CUDA-X. "),
        Outcome.SKIPPED,
        "Runs on cpu only, not on CUDA-X.",
    ),
    "missing": (examples.compared(in_head=False, unfit="Hot."), Outcome.MISSING, "The head no longer has this case."),
    "unfit": (slower(0, unfit="The GPU was hot; let it cool."), Outcome.UNFIT, "The GPU was hot; let it cool."),
    "unfit before new": (slower(0, unfit="Hot", in_reference=False), Outcome.UNFIT, "Hot."),
    "nothing measured": (examples.compared(), Outcome.UNFIT, UNTIMED),
    "identical": (
        examples.compared(identity=ALIKE),
        Outcome.IDENTICAL,
        "The same machine code, launched in the same way on both sides; it was not timed.",
    ),
    "identical and timed": (slower(5, identity=ALIKE), Outcome.REGRESSED, "Slower by 5.00 %, past the gate of 3 %."),
    "other code and not timed": (examples.compared(identity=UNLIKE), Outcome.UNFIT, UNTIMED),
    "the same host code": (
        examples.compared(identity=UNLIKE, host_same=True),
        Outcome.IDENTICAL,
        "All that it runs and reads in the tree is the same on both sides; it was not timed.",
    ),
    "one digest only": (examples.compared(identity={"head": "a"}), Outcome.UNFIT, UNTIMED),
    "identical code of other work": (examples.compared(identity=ALIKE, workload=OTHER_WORK), Outcome.UNFIT, UNTIMED),
    "new": (
        slower(50, in_reference=False, reference=(), reference_workload=None),
        Outcome.NEW,
        "The reference has no such case; it is timed alone.",
    ),
    "changed": (slower(50, workload=OTHER_WORK), Outcome.CHANGED, DIFFERS.format("")),
    "changed in many ways": (
        slower(0, workload=OTHER_WORK.model_copy(update={"bytes": 2.0, "cache": "warm"})),
        Outcome.CHANGED,  # the first three are told
        DIFFERS.format("; bytes: 67100000.0 → 2.0"),
    ),
    "too few pairs": (
        examples.compared(1.0, 1.0),
        Outcome.INCONCLUSIVE,
        "Fewer than three pairs were measured, too few for an interval: raise --pairs.",
    ),
    "reference died early": (
        examples.compared(1.0, 1.0, failures=(REFERENCE_BROKEN,)),
        Outcome.INCONCLUSIVE,
        "Fewer than three pairs were measured (the reference: ValueError: no such layout), too few for an interval.",
    ),
    "regressed": (slower(5), Outcome.REGRESSED, "Slower by 5.00 %, past the gate of 3 %."),
    "slower in few pairs": (
        slower(5, 12),
        Outcome.SLOWER,
        "Slower, but not proven: +5.02 % [+4.93, +5.10]; pairs scatter by 0.1 %. "
        "A regression needs 20 pairs, and this case has 12: raise --budget, or --pairs if that was the limit.",
    ),
    "improved in few pairs": (slower(-10, 12), Outcome.UNCHANGED, NO_SLOWER),
    "improved": (slower(-10), Outcome.IMPROVED, "Takes 10.00 % less time, past the threshold of 5 %."),
    "unchanged": (slower(0), Outcome.UNCHANGED, NO_SLOWER),
    "a little faster": (slower(-4), Outcome.UNCHANGED, NO_SLOWER),
    "a little slower": (slower(2), Outcome.UNCHANGED, NO_SLOWER),
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
    decided = (Outcome.REGRESSED, Outcome.SLOWER, Outcome.IMPROVED, Outcome.UNCHANGED)
    assert (found[2] is not None) == (outcome in decided)


def test_noise_is_inconclusive() -> None:
    """An interval across the gate is neither red nor unchanged, and says how far it reaches and what would settle it."""
    ratios = (0.985, 1.025, 1.015, 0.975, 1.03, 1.015, 0.985, 0.965)
    outcome, reason, found = judged(examples.compared(*ratios, pair_s=1.5))
    assert outcome is Outcome.INCONCLUSIVE
    assert found.low < 1.03 < found.high
    reaches = f"The interval reaches from {units.change(found.low, 1)} to {units.change(found.high, 1)}, across the gate of 3 %. "
    assert reason.startswith(f"{reaches}About ")
    assert " more pairs would settle it and take " in reason
    assert reason.endswith(" s: raise --budget, or --pairs if that was the limit.")
    assert reason == f"{reaches}{settles(found, POLICY, 1.5)}"


def test_an_interval_that_touches_the_gate_takes_more_pairs() -> None:
    """An inconclusive case whose surest upper end is the gate itself is told what would settle it, too."""
    touching = reports.comparison(1.0, low=0.98, high=1.02, bound=1.03, pairs=12)
    outcome, reason, _ = judge_case(slower(0), touching, pair_examples.bar(), None)
    assert outcome is Outcome.INCONCLUSIVE
    assert " more pairs would settle it" in reason


@pytest.mark.parametrize(
    ("shares", "clock", "said"),
    [
        ({}, "event", ""),
        ({"head": 0.4, "reference": 0.4}, "event", ""),
        ({"head": 0.5}, "event", "50 % of the head's blocks"),
        ({"reference": 1.0, "head": 0.75}, "event", "100 % of the reference's and 75 % of the head's blocks"),
        ({"head": 1.0}, "graph", "100 % of the head's blocks"),
    ],
)
def test_a_host_bound_case(shares: dict[str, float], clock: str, said: str) -> None:
    """A case is host-bound if the GPU waited in half of a side's blocks; a graph is no advice where there is one already."""
    case = examples.waiting(examples.compared(*(1.0, 1.01, 0.99) * 4), **shares)
    case = case.model_copy(update={"workload": examples.WORKLOAD.model_copy(update={"clock": clock})})
    sentence = host_bound(case, 0.95)
    advice = "Fewer" if clock == "graph" else 'A CUDA graph (clock="graph"), fewer'
    waited = f"The GPU waited for the host in {said}, so these times include launch latency and the host's noise."
    assert sentence == (f"{waited} {advice} launches or a larger size would help." if said else "")


def test_slowed_blocks_make_no_case_host_bound() -> None:
    """Blocks that are left out of every figure do not count."""
    kept = Block(index=0, position=0, samples_ms=(1.0,))
    dropped = tuple(Block(index=index, position=index, samples_ms=(1.0,), throttled=True, exposed=True) for index in (1, 2, 3))
    assert host_bound(examples.compared(1.0, head=(examples.blocks(0, blocks=(kept, *dropped)),)), 0.95) == ""


NOISY_HOST = (0.7, 1.5, 1.2, 0.8, 1.6, 0.9, 1.3, 0.75) * 3


def _with_kernels(ratio: float, *calls: float) -> CaseRun:
    """A host-bound case whose calls take ``calls`` times those of the reference, and its kernels ``ratio`` times 0.4 ms."""
    case = examples.waiting(examples.compared(*calls), head=1.0, reference=1.0)
    sides = {"head": 0.4 * ratio, "reference": 0.4}
    return examples.with_kernels(case, **{side: lambda pair, ms=ms: ms * (1 + 1e-3 * (pair % 3)) for side, ms in sides.items()})


def test_slower_kernels_decide_where_the_host_hides_them() -> None:
    """With a host that scatters by a third, kernels that take 5 % longer are a regression; their times are what is shown."""
    outcome, reason, comparison = judged(_with_kernels(1.05, *NOISY_HOST))
    assert outcome is Outcome.REGRESSED
    assert (
        reason == "Its kernels are slower by 5.00 %, past the gate of 3 %; "
        "their own time decided, since host noise hides this in the time of the whole call."
    )
    assert comparison.source == "kernels"
    assert judged(_with_kernels(1.0, *NOISY_HOST))[0] is Outcome.INCONCLUSIVE
    assert judged(_with_kernels(0.8, *NOISY_HOST))[0] is Outcome.INCONCLUSIVE


SLOW_HOST = (1.3, 1.5, 0.9, 1.2) * 6
"""Calls that are clearly slower, in pairs that scatter too much to prove it."""


def test_slower_kernels_prove_what_the_calls_cannot() -> None:
    """A case that is slower without proof by its calls is a regression if its kernels are one; else it stays as it is."""
    assert judged(_with_kernels(1.0, *SLOW_HOST))[0] is Outcome.SLOWER
    outcome, reason, comparison = judged(_with_kernels(1.05, *SLOW_HOST))
    assert outcome is Outcome.REGRESSED
    assert reason.startswith("Its kernels are slower by 5.00 %, past the gate of 3 %; ")
    assert comparison.source == "kernels"


def test_times_of_kernels_are_shown_where_they_decided() -> None:
    """The report shows 0.42 ms against 0.4 ms of kernels instead of whole calls, and no times where the record has no figures."""
    (found,) = judge_run(examples.run_of(_with_kernels(1.05, *NOISY_HOST)), Baseline()).cases
    assert found.head.median_ms == pytest.approx(0.4204, abs=1e-4)
    assert found.reference.median_ms == pytest.approx(0.4004, abs=1e-4)
    untold = _with_kernels(1.05, *NOISY_HOST).model_copy(update={"performance": None, "reference_performance": None})
    (found,) = judge_run(examples.run_of(untold), Baseline()).cases
    assert (found.outcome, found.head, found.reference) == (Outcome.REGRESSED, None, None)


def test_kernels_are_held_to_the_rule() -> None:
    """Kernels that were timed in 19 pairs, or that hosts do not agree about, prove nothing."""
    case = _with_kernels(1.05, *NOISY_HOST)
    few = tuple(dataclasses.replace(one, kernels_ms=one.kernels_ms if one.pair < 19 else ()) for one in case.head)
    assert judged(case.model_copy(update={"head": few}))[0] is Outcome.INCONCLUSIVE
    mixed = tuple(dataclasses.replace(one, kernels_ms=(one.kernels_ms[0] * (1 + one.session % 2),)) for one in case.head)
    assert judged(case.model_copy(update={"head": mixed}))[0] is Outcome.INCONCLUSIVE
    alone = {side: tuple(dataclasses.replace(one, session=0) for one in getattr(case, side)) for side in ("head", "reference")}
    assert judged(case.model_copy(update=alone))[0] is Outcome.INCONCLUSIVE


def test_kernels_do_not_overrule_a_call_whose_time_is_known() -> None:
    """Where the whole call is as fast as before, slower kernels hide behind the host, and nobody waits longer."""
    assert judged(_with_kernels(1.05, *(1.0, 1.002, 0.998) * 8))[0] is Outcome.UNCHANGED


def test_reports_tell_the_share_of_the_kernels() -> None:
    """A host-bound case of a check, of two runs, or held to the best commit says how its kernels changed."""
    then, now = (examples.run_of(_with_kernels(ratio, *(1.0, 1.002, 0.998) * 8)) for ratio in (1.0, 1.05))
    best = now.cases[0].model_copy(update={"reference_tree": examples.REFERENCE})
    held = now.model_copy(update={"best": (best,)})
    for report in (judge_run(now, Baseline()), judge_run(held, Baseline()), judge_two(then, now, Policy())):
        assert "Its kernels take 420.4 µs of 1.000 ms, and changed by +5.00 % [" in report.cases[0].host_bound


def test_a_host_that_varies_is_named() -> None:
    """An inconclusive case that is too noisy for more pairs is not told to stop other work where the host is what varies."""
    noisy = examples.compared(*(0.7, 1.5, 1.2, 0.8, 1.6, 0.9, 1.3, 0.75))
    assert judged(noisy)[1].endswith(": stop other work on this machine, then measure again.")
    assert judged(examples.waiting(noisy, head=1.0))[1].endswith(": make the case less host-bound, then measure again.")


def test_nothing_to_compare() -> None:
    """Without a reference, or with other work on it, there is no comparison, and else it is over the pairs of the case."""
    assert compared(slower(0, reference=()), 0.95) is None
    assert compared(slower(0, workload=OTHER_WORK), 0.95) is None
    found = compared(slower(5), 0.9)
    assert (found.ratio, found.pairs, found.confidence) == (pytest.approx(1.05, abs=1e-5), 24, 0.9)


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
    """Without a reference side nothing is proven while fewer than three days are known, but a clear slowdown is no pass."""
    case = without_reference(slower(50), *failures)
    outcome, reason, found = judged(case)
    assert (outcome, found) == (Outcome.INCONCLUSIVE, None)
    assert reason.startswith(f"{why}, and the baseline file has nothing for this machine: name a --base that works here, or ")

    for known, stored in enumerate((days(), days(0.053), days(0.053, 0.0531))):
        outcome, reason, found = judged(case, stored)
        assert outcome is Outcome.SLOWER
        assert (found.source, found.ratio > 20) == ("stored", True)
        assert reason.startswith(f"{why}; compared with the time stored on 2026-03-14 it changed by +")
        assert reason.endswith(
            f"but the history has {known} of the 3 days needed to know how much times vary from day to day on this machine."
        )

    outcome, reason, found = judged(case, days().model_copy(update={"pair_medians_ms": (0.053,)}))
    assert (outcome, found) == (Outcome.INCONCLUSIVE, None)
    assert reason == f"{why}, and too few medians are stored from 2026-03-14."

    outcome, reason, found = judged(case, days(1.0, 1.0, 1.0).model_copy(update={"workload": OTHER_WORK}))
    assert (outcome, found) == (Outcome.CHANGED, None)
    assert reason == f"{why}, and the stored workload differs from this one."


def test_a_reference_that_breaks_before_there_is_an_interval_has_the_stored_times_in_its_place() -> None:
    """A slowdown is no pass, whether the reference breaks in the first pair or in the third."""
    case, stored = slower(50), days(1.0).model_copy(update={"pair_medians_ms": SAME})
    for pairs in (0, 2):
        broken = case.model_copy(update={"reference": case.reference[:pairs], "failures": (REFERENCE_BROKEN,)})
        assert judged(broken, stored)[0] is Outcome.SLOWER


@pytest.mark.parametrize(("percent", "outcome"), [(0, Outcome.INCONCLUSIVE), (20, Outcome.SLOWER), (-20, Outcome.INCONCLUSIVE)])
def test_one_earlier_day_proves_nothing(percent: float, outcome: Outcome) -> None:
    """Against what was stored on one day, only an interval past the gate is no pass, and never more than slower."""
    stored = days(1.0).model_copy(update={"pair_medians_ms": SAME})
    found, _, comparison = judged(without_reference(slower(percent)), stored)
    assert found is outcome
    assert comparison is not None
    if comparison.low > 1:  # an interval that begins at the gate itself is not past it
        at_the_gate = Policy(regression=comparison.low - 1)
        assert judged(without_reference(slower(percent)), stored, at_the_gate)[0] is Outcome.INCONCLUSIVE


APRIL = (1.0, 1.012, 0.99, 1.008, 0.995, 0.988, 1.01, 1.002)
"""Milliseconds of unchanged code on eight days that differ by 1 %."""


@pytest.mark.parametrize(
    ("percent", "outcome", "said"),
    [
        (-1, Outcome.UNCHANGED, "Any slowdown is smaller than the gate of 3 %."),
        (0, Outcome.INCONCLUSIVE, "at 99.3 % certainty to +3.6 %, across the gate of 3 %."),
        (2, Outcome.INCONCLUSIVE, "across the gate of 3 %"),
        (6, Outcome.SLOWER, "`ratchet check` compares them side by side."),
        (20, Outcome.REGRESSED, "Slower by 19.9 %, past the gate of 3 %."),
        (-20, Outcome.IMPROVED, "Takes 20.0 % less time, past the threshold of 5 %."),
    ],
)
def test_known_days_decide(percent: float, outcome: Outcome, said: str) -> None:
    """Where days are known to differ by 1 %, a head slower by 2 % is not red, and one slower by 20 % is."""
    found = judged(without_reference(slower(percent), REFERENCE_BROKEN), days(*APRIL))
    assert found[0] is outcome
    assert found[1].startswith("The reference could not be measured (ValueError: no such layout); compared with the times of 8 ")
    assert said in found[1]
    assert found[2].source == "days"


@pytest.mark.parametrize("known", [8, 16, 30])
def test_more_days_do_not_hide_a_slowdown(known: int) -> None:
    """With every day that the baseline may hold, a head slower by 20 % is as red as with eight."""
    stored = days(*(APRIL * 4)[:known])
    assert judged(without_reference(slower(20)), stored)[0] is Outcome.REGRESSED
    assert judged(without_reference(slower(2)), stored)[0] is not Outcome.REGRESSED


@pytest.mark.parametrize(
    ("hours", "medians", "by_day"),
    [((), (), []), ((1, 2, 3), (1.0, 3.0, 1.5), [1.5]), ((1, 25, 26, 49), (1.0, 2.0, 4.0, 5.0), [1.0, 3.0, 5.0])],
)
def test_one_value_a_day(hours: Sequence[int], medians: Sequence[float], by_day: list[float]) -> None:
    """Measured several times on one date, a day still counts once, with its median."""
    taken = tuple(
        Day(timestamp=datetime(2026, 4, 1 + hour // 24, hour % 24, tzinfo=UTC), median_ms=ms)
        for hour, ms in zip(hours, medians, strict=True)
    )
    assert days_ms(STORED.model_copy(update={"days": taken})) == by_day


def test_two_times_are_held_to_more() -> None:
    """Only a whole interval past the gate is red, of however few values, unless chance could give it; what else is said stays."""
    bar = pair_examples.bar()
    apart = {"source": "stored", "pairs": 6}
    near, past = (reports.comparison(1.04, low=low, high=1.05, **apart) for low in (1.03, 1.031))
    assert decide(near, bar)[0] is Outcome.REGRESSED
    assert decide_apart(near, bar) == (
        Outcome.INCONCLUSIVE,
        "Slower, but times that were not taken in turn may differ by this much; `ratchet check` takes them in turn.",
    )
    assert decide_apart(past, bar) == decide(past, bar) == (Outcome.REGRESSED, "Slower by 4.0 %, past the gate of 3 %.")
    for other in (reports.comparison(1.0), reports.comparison(0.9), reports.comparison(1.0, 0.2)):
        assert decide_apart(other, bar) == decide(other, bar)
    by_chance = reports.comparison(1.2, low=1.05, high=1.3, p_value=0.02, source="stored")
    outcome, reason = decide_apart(by_chance, bar)
    assert outcome is Outcome.SLOWER
    assert reason.endswith("The two sides were measured at different times: `ratchet check` compares them side by side.")


def test_alone() -> None:
    """A case of `ratchet run` is measured, failed, skipped or unfit, and never compared."""
    assert judge_alone(slower(50), POLICY) == (Outcome.MEASURED, "Timed alone.", None)
    assert judge_alone(examples.compared(skipped="needs x"), POLICY)[0] is Outcome.SKIPPED
    assert judge_alone(slower(0, failures=(HEAD_BROKEN,)), POLICY)[0] is Outcome.FAILED
    assert judge_alone(slower(0, unfit="Hot."), POLICY)[0] is Outcome.UNFIT


# At the thresholds


ACROSS = "The interval reaches from −1.0 % to +{} %, across the gate of 3 %."


@pytest.mark.parametrize(
    ("ratio", "low", "high", "more", "outcome", "said"),
    [
        (1.03, 1.02, 1.04, {}, Outcome.INCONCLUSIVE, ""),  # exactly the gate is not past it
        (1.0301, 1.02, 1.04, {}, Outcome.REGRESSED, ""),
        (1.0301, 1.0, 1.06, {}, Outcome.INCONCLUSIVE, ""),  # the interval must exclude no change
        (1.0301, 1.0001, 1.06, {}, Outcome.REGRESSED, ""),
        (1.02, 1.01, 1.03, {}, Outcome.INCONCLUSIVE, ""),  # and must end below the gate to prove its absence
        (1.02, 1.01, 1.0299, {}, Outcome.UNCHANGED, ""),
        (0.95, 0.94, 0.96, {}, Outcome.IMPROVED, ""),  # exactly the threshold is an improvement
        (0.9501, 0.94, 0.96, {}, Outcome.UNCHANGED, ""),
        (0.95, 0.9, 1.0, {}, Outcome.UNCHANGED, ""),
        (0.95, 0.8, 1.05, {}, Outcome.INCONCLUSIVE, ""),
        (0.5, 0.4, 0.9999, {}, Outcome.IMPROVED, ""),
        # pairs too few for a regression are slower without proof exactly where the whole interval is past the gate
        (1.05, 1.0301, 1.2, {"pairs": 19}, Outcome.SLOWER, ""),
        (1.05, 1.03, 1.2, {"pairs": 19}, Outcome.INCONCLUSIVE, ""),
        (1.05, 0.99, 1.2, {"pairs": 19}, Outcome.INCONCLUSIVE, ""),
        # no slowdown is shown by the surer upper end, which reports lacked once, and which is told where it alone is across
        (1.0, 0.99, 1.02, {"bound": 1.0299}, Outcome.UNCHANGED, ""),
        (1.0, 0.99, 1.02, {"bound": 1.03}, Outcome.INCONCLUSIVE, ACROSS.format("2.0 %, and at 99.3 % certainty to +3.0")),
        (1.0, 0.99, 1.02, {}, Outcome.UNCHANGED, ""),
        (1.0, 0.99, 1.03, {}, Outcome.INCONCLUSIVE, ""),
        (1.0, 0.99, 1.03, {"bound": 1.04}, Outcome.INCONCLUSIVE, ACROSS.format("3.0")),
    ],
)
def test_edges(ratio: float, low: float, high: float, more: dict[str, Any], outcome: Outcome, said: str) -> None:
    """At the thresholds themselves the rule is exact."""
    found = decide(reports.comparison(ratio, low=low, high=high, **more), pair_examples.bar())
    assert found[0] is outcome
    assert said in ("", found[1])


BOUNDS = st.lists(st.floats(0.3, 3), min_size=4, max_size=4).map(sorted)
THRESHOLDS = st.floats(0.001, 0.5)


@settings(deadline=None)
@given(
    BOUNDS,
    THRESHOLDS,
    THRESHOLDS,
    st.sampled_from([19, 20, 40]),
    st.sampled_from([0.0, 0.0, 0.5]),
    st.sampled_from([1, 4, 5, 12, 12]),
    st.sampled_from([0.0, 0.0, 0.5]),
)
def test_what_each_outcome_takes(
    bounds: list[float], gate: float, goal: float, pairs: int, chance: float, sessions: int, sessions_p_value: float
) -> None:
    """A change needs interval, threshold, pairs, sessions and both p-values; past the gate without these is slower, no pass."""
    low, ratio, high, bound = bounds
    evidence = {"pairs": pairs, "p_value": chance, "sessions": (ratio,) * sessions, "sessions_p_value": sessions_p_value}
    seen = reports.comparison(ratio, low=low, high=high, bound=bound, **evidence)
    outcome, reason = decide(seen, pair_examples.bar(Policy(regression=gate, improvement=goal)))
    proof = pairs >= 20 and chance == 0 and sessions >= (5 if ratio > 1 else 4) and sessions_p_value == 0
    expected = (
        Outcome.REGRESSED
        if proof and low > 1 and ratio > 1 + gate
        else Outcome.IMPROVED
        if proof and high < 1 and ratio <= 1 - goal
        else Outcome.SLOWER
        if low > 1 + gate
        else Outcome.UNCHANGED
        if bound < 1 + gate
        else Outcome.INCONCLUSIVE
    )
    assert outcome is expected
    assert reason.endswith(".")
    assert not reason.endswith("..")


def test_the_gate_in_words() -> None:
    """A gate is shown as it was chosen."""
    found = reports.comparison(1.2, pairs=20)
    assert decide(found, pair_examples.bar(Policy(regression=0.0005)))[1] == "Slower by 20.00 %, past the gate of 0.05 %."


@pytest.mark.parametrize(
    ("own", "general", "fails"),
    [(None, None, False), (100, None, True), (None, 100, True), (10**12, 100, False), (1024, None, False), (1023, None, True)],
)
def test_more_memory_than_allowed_fails(own: int | None, general: int | None, fails: bool) -> None:
    """The workload's own limit wins over that of the settings, compared or alone; without either, any amount passes."""
    case, policy = slower(0, memory_limit_bytes=own), Policy(memory_limit_bytes=general)
    peak, other = (max(one.peak_memory_bytes for one in side) for side in (case.head, case.reference))
    for outcome, reason, _ in (judged(case, policy=policy), judge_alone(case, policy)):
        assert (outcome is Outcome.FAILED) == fails
        sentence = (
            f"Memory: a call takes {units.size(peak)}, more than its limit of {units.size(own or general or 0)}; "
            f"the reference takes {units.size(other)}."
        )
        assert (reason == sentence) == fails


def test_memory_of_a_case_that_is_new() -> None:
    """A head without a reference is held to its limit as well, and nothing is said of a reference."""
    new = without_reference(slower(0)).model_copy(update={"in_reference": False, "memory_limit_bytes": 1023})
    assert judged(new) == (Outcome.FAILED, "Memory: a call takes 1.00 KiB, more than its limit of 1023 B.", None)


def test_memory_is_judged_before_anything_is_timed() -> None:
    """A call that held more than its limit when it was checked has failed: it is not timed, and the rule says so."""
    beyond = slower(0, head=(), reference=(), memory_before={"head": 2048, "reference": 512})
    policy = Policy(memory_limit_bytes=1024)
    sentence = "Memory: a call takes 2.00 KiB, more than its limit of 1.00 KiB; the reference takes 512 B."
    assert judged(beyond, policy=policy) == (Outcome.FAILED, sentence, None)
    assert judge_alone(beyond, policy) == (Outcome.FAILED, sentence, None)
    for rule in (GateRule(policy, 8, {}), Rule((8,), policy)):
        assert rule.is_known(beyond)
    assert not GateRule(Policy(), 8, {}).is_known(beyond)
    assert not Rule((8,)).is_known(beyond)
