"""What must hold for any samples at all."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet.core.judge.comparison import Pair, compare_pairs, compare_stored, compare_workers, performance
from ratchet.core.judge.estimate import estimate, estimate_apart
from ratchet.core.judge.evidence import CaseThresholds
from ratchet.core.judge.outcome import decide
from ratchet.core.judge.rule import thresholds_of_run
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import Block, CaseRun, Policy, WorkerSamples
from ratchet.core.records.verdict import Comparison, Outcome
from tests import examples, pair_examples, reports

pytestmark = pytest.mark.no_cover

STEADY = settings(deadline=None, derandomize=True, max_examples=80)
BAR = pair_examples.bar(cases=4)
POLICY = BAR.policy
NAMES = [f"c{index}" for index in range(8)]

SMALL = st.integers(-800, 800).map(lambda value: value * 1e-5)
"""A pair's own part: up to 0.8 %."""
ROGUE = st.sampled_from([0.47, -0.47, 3.0, -3.0])
LOGS = st.lists(SMALL, min_size=3, max_size=24)
MIXED = st.builds(list.__add__, st.lists(SMALL, min_size=3, max_size=24), st.lists(ROGUE, max_size=3))
ENOUGH = st.lists(SMALL, min_size=20, max_size=28)
"""As many as a change takes."""
ROUGH = st.builds(list.__add__, ENOUGH, st.lists(ROGUE, max_size=3)).flatmap(st.permutations)
MS = st.floats(min_value=1e-9, max_value=1e9, exclude_max=True)
"""Anything that a record takes."""
SHIFTS = st.integers(-9000, 9000).map(lambda value: value * 1e-5 + 3e-7)
SLOWER = st.integers(3100, 12000).map(lambda value: value * 1e-5 + 3e-7)


def of(found: Comparison | None) -> Comparison:
    assert found is not None
    return found


def seen(logs: list[float], shift: float = 0.0) -> Comparison:
    return of(compare_pairs(pair_examples.pairs(log + shift for log in logs), 0.95))


def is_red(logs: list[float], shift: float = 0.0, bar: CaseThresholds = BAR) -> bool:
    return decide(seen(logs, shift), bar)[0] is Outcome.REGRESSED


def is_red_again(logs: list[float], shift: float, times: int) -> bool:
    """Return whether the same pairs are red when they are seen several times, each time by hosts of their own."""
    once = pair_examples.pairs(log + shift for log in logs)
    taken = [replace(pair, session=pair.session + time * len(once)) for time in range(times) for pair in once]
    return decide(of(compare_pairs(taken, 0.95)), BAR)[0] is Outcome.REGRESSED


def worker(pair: int, *medians_ms: float) -> WorkerSamples:
    taken = tuple(Block(index=index, position=index, samples_ms=(median,)) for index, median in enumerate(medians_ms))
    return replace(examples.blocks(pair), blocks=taken)


def sides(times: list[tuple[float, float]], scale: float = 1.0) -> tuple[list[WorkerSamples], list[WorkerSamples]]:
    """Both sides of these times, each pair a little longer by an amount of its own, as a fine clock shows them."""
    fine = [scale * (1 + 1e-7 * math.sqrt(2 + pair)) for pair in range(len(times))]
    head = [worker(pair, fine[pair] * a) for pair, (a, _) in enumerate(times)]
    return head, [worker(pair, fine[pair] * b) for pair, (_, b) in enumerate(times)]


# The same, said otherwise


@STEADY
@given(MIXED, SHIFTS)
def test_swapping_sides_inverts(logs: list[float], shift: float) -> None:
    """With the sides swapped, ratio, interval and sessions are inverted, the effect changes its sign, nothing else changes."""
    there = of(compare_pairs([Pair(log + shift, math.exp(log + shift), 1.0) for log in logs], 0.95))
    back = of(compare_pairs([Pair(-log - shift, 1.0, math.exp(log + shift)) for log in logs], 0.95))
    assert (back.ratio, back.low, back.high) == pytest.approx((1 / there.ratio, 1 / there.high, 1 / there.low), rel=1e-9)
    assert back.sessions == pytest.approx([1 / session for session in there.sessions])
    assert back.cliffs_delta == -there.cliffs_delta
    for figure in ("p_value", "spread", "correlation", "pairs", "outliers", "confidence"):
        assert getattr(back, figure) == pytest.approx(getattr(there, figure), rel=1e-9, abs=1e-9)
    if there.ratio != 1 and there.sessions_p_value is not None:
        assert back.sessions_p_value == pytest.approx(there.sessions_p_value, rel=1e-6)


@STEADY
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=3, max_size=12),
    st.sampled_from([2.0**-10, 0.5, 4.0, 2.0**16]),
)
def test_scale_changes_nothing(times: list[tuple[float, float]], scale: float) -> None:
    """Both sides slower by the same factor are the same comparison, to the last digit where the factor is a power of two."""
    assert compare_workers(*sides(times, scale), 0.95) == compare_workers(*sides(times), 0.95)


@STEADY
@given(st.one_of(MIXED, st.lists(st.floats(-40, 40), min_size=3, max_size=20)), st.randoms(use_true_random=False))
def test_order_does_not_matter(logs: list[float], shuffler: random.Random) -> None:
    """The same pairs in any order are the same comparison, but for what their order says; so are values of sides and days."""
    mixed = logs[:]
    shuffler.shuffle(mixed)
    of_order = {"sessions": (), "sessions_p_value": None, "correlation": 0.0, "effective_pairs": 0.0}
    widened_by_it = {"low": 1.0, "high": 1.0, "bound": 1.0}
    one, other = (seen(each).model_copy(update={**of_order, **widened_by_it}) for each in (logs, mixed))
    assert one == other
    assert estimate_apart(logs, mixed, 0.95) == estimate_apart(mixed, logs, 0.95)
    assert estimate_apart(logs, mixed, 0.95, are_days=True) == estimate_apart(mixed, logs, 0.95, are_days=True)


@STEADY
@given(st.permutations(range(6)), st.permutations(range(6)))
def test_order_of_workers_does_not_matter(first: list[int], second: list[int]) -> None:
    """The workers of either side may be listed in any order."""
    head, reference = sides([(1.03 + 0.001 * pair, 1.0 + 0.0007 * pair**2) for pair in range(6)])
    found = compare_workers([head[pair] for pair in first], [reference[pair] for pair in second], 0.95)
    assert found == compare_workers(head, reference, 0.95)


# More evidence


@STEADY
@given(ROUGH, SLOWER, SLOWER)
def test_slower_is_never_less_red(logs: list[float], one: float, other: float) -> None:
    """A head slowed further stays red if it was red."""
    if is_red(logs, min(one, other)):
        assert is_red(logs, max(one, other))


@STEADY
@given(ROUGH, SLOWER, st.integers(2, 4))
def test_seeing_rogues_again_hides_nothing(logs: list[float], shift: float, times: int) -> None:
    """Nor do rogue pairs hide it when all pairs, they among them, are seen several times."""
    if is_red(logs, shift):
        assert is_red_again(logs, shift, times)


@pytest.mark.slow
@STEADY
@given(ENOUGH, SLOWER, st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_more_of_it_stays_red(logs: list[float], shift: float, more: list[float]) -> None:
    """Pairs at or above the mean, within the present spread, keep a proven slowdown proven."""
    if not is_red(logs, shift):
        return
    taken = [log + shift for log in logs]
    for share in more:
        now = estimate(taken, 0.95)
        taken.append(now.centre + share * now.spread)
        assert is_red(taken)


@STEADY
@given(LOGS, SHIFTS, st.floats(0.5, 0.999), st.floats(0.5, 0.999))
def test_more_confidence_is_wider(logs: list[float], shift: float, one: float, other: float) -> None:
    """An interval of more confidence holds one of less, and the estimate and its p-value do not depend on it."""
    found = [
        of(compare_pairs(pair_examples.pairs(log + shift for log in logs), confidence))
        for confidence in (min(one, other), max(one, other))
    ]
    assert found[1].low <= found[0].low <= found[0].ratio <= found[0].high <= found[1].high
    assert (found[0].ratio, found[0].p_value) == (found[1].ratio, found[1].p_value)


@STEADY
@given(st.one_of(LOGS, ENOUGH), SHIFTS, st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_a_larger_gate_is_never_stricter(logs: list[float], shift: float, one: float, other: float) -> None:
    """What is red at a gate is red at every smaller one, and what is unchanged at one is so at every larger one or improved."""
    gates = (pair_examples.bar(Policy(regression=gate), cases=4) for gate in sorted((one, other)))
    low, high = (decide(seen(logs, shift), bar)[0] for bar in gates)
    assert high is not Outcome.REGRESSED or low is Outcome.REGRESSED
    assert high is not Outcome.SLOWER or low in (Outcome.SLOWER, Outcome.REGRESSED)
    assert low is not Outcome.UNCHANGED or high is Outcome.UNCHANGED
    assert (low is Outcome.IMPROVED) == (high is Outcome.IMPROVED)


WIDE = st.lists(st.one_of(SMALL, ROGUE, st.floats(-6, 6)), min_size=3, max_size=24)


@STEADY
@given(st.one_of(LOGS, MIXED, WIDE), SHIFTS, st.sampled_from([0.0, 0.004, 0.3, 3.0]), st.sampled_from([0.001, 0.03, 0.9]))
def test_unchanged_has_its_whole_interval_below_the_gate(logs: list[float], shift: float, step: float, gate: float) -> None:
    """However skewed the pairs, and however coarse the clock: −22 % [−100, +28] is inconclusive at any gate up to 28 %."""
    found = of(compare_pairs(pair_examples.pairs(log + shift for log in logs), 0.95, resolution=step))
    if decide(found, pair_examples.bar(Policy(regression=gate), cases=4))[0] is Outcome.UNCHANGED:
        assert found.high <= found.upper_bound < 1 + gate


# More cases

CHANCES = st.one_of(st.just(0.0), st.floats(0, 0.5), st.floats(1e-9, 1e-3))
FOUND = st.builds(
    lambda ratio, chance, width: reports.comparison(ratio, ratio * width, p_value=chance, pairs=20),
    st.sampled_from([0.8, 0.94, 0.99, 1.0, 1.01, 1.031, 1.05, 1.3]),
    CHANCES,
    st.sampled_from([0.001, 0.02, 0.2]),
)


@STEADY
@given(st.lists(FOUND, min_size=1, max_size=6), st.lists(st.one_of(st.none(), FOUND), min_size=1, max_size=6))
def test_more_cases_make_none_red(cases: list[Comparison], more: list[Comparison | None]) -> None:
    """No case becomes red or improved because other cases are in the run too, and none keeps more of the false alarms."""
    few: dict[str, Comparison | None] = dict(zip(NAMES, cases, strict=False))
    many = few | {f"more{index}": each for index, each in enumerate(more)}
    alone, together = thresholds_of_run(few, Policy(), 100), thresholds_of_run(many, Policy(), 100)
    assert together.level <= alone.level
    for each in few.values():
        assert each is not None
        before, after = decide(each, alone)[0], decide(each, together)[0]
        assert after is before or after in (Outcome.INCONCLUSIVE, Outcome.UNCHANGED, Outcome.SLOWER)
        assert before is not Outcome.SLOWER or after is Outcome.SLOWER


# Anything at all


@STEADY
@given(st.lists(st.tuples(st.tuples(MS, MS), st.tuples(MS, MS)), max_size=9))
def test_any_samples_have_an_outcome(times: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    """Whatever a record takes, from a picosecond to eleven days, mixed in any way, is compared, or said to be too little."""
    head = [worker(pair, *own) for pair, (own, _) in enumerate(times)]
    reference = [worker(pair, *other) for pair, (_, other) in enumerate(times)]
    found = compare_workers(head, reference, 0.95)
    assert (found is None) == (len(times) < 3)
    if found is not None:
        assert 0 < found.low <= found.ratio <= found.high < math.inf
        assert 0 <= found.p_value <= 1
        assert found.high <= (found.bound or 0)
        assert -1 <= found.cliffs_delta <= 1
        silent = found.low > 1 + POLICY.regression and decide(found, BAR)[0] not in (Outcome.REGRESSED, Outcome.SLOWER)
        assert not silent
    case = examples.compared(head=tuple(head), reference=tuple(reference))
    report = judge_run(examples.run_of(case), Baseline())
    assert report.exit_code in (0, 1, 3)
    assert report.model_validate_json(report.model_dump_json()) == report
    done = performance(head, examples.WORKLOAD, 0.95)
    assert (done is None) == (not times)
    assert done is None or 0 < done.ci_95_low <= done.median_time_ms <= done.ci_95_high


@STEADY
@given(st.lists(MS, max_size=6), st.lists(MS, max_size=6), st.lists(MS, max_size=6))
def test_any_stored_times_have_an_outcome(head: list[float], stored: list[float], days: list[float]) -> None:
    """The same for medians of another time and of other days."""
    found = compare_stored(head, stored, 0.95, days)
    enough = len(head) >= 3 and (len(days) >= 3 or len(stored) >= 3)
    assert (found is not None) == enough
    assert found is None or 0 < found.low <= found.ratio <= found.high < math.inf


@pytest.mark.parametrize(
    ("head", "reference", "outcome"),
    [
        (9e8, 1e-9, Outcome.REGRESSED),
        (1e-9, 9e8, Outcome.IMPROVED),
        (9e8, 9e8, Outcome.UNCHANGED),
        (1e-9, 1e-9, Outcome.UNCHANGED),
    ],
)
@pytest.mark.parametrize("pairs", [20, 1])
def test_enormous_and_equal_times(head: float, reference: float, outcome: Outcome, pairs: int) -> None:
    """The longest time over the shortest is as slow as can be, equal ones are unchanged, and one pair is too little."""
    found = judge_run(examples.run_of(case_of([(head, reference)] * pairs)), Baseline()).cases[0]
    assert found.outcome is (outcome if pairs == 20 else Outcome.INCONCLUSIVE)


def case_of(times: list[tuple[float, float]]) -> CaseRun:
    head, reference = sides(times)
    return examples.compared(head=tuple(head), reference=tuple(reference))


def test_all_over_the_place() -> None:
    """Pairs that differ by everything that a float can hold prove nothing."""
    times = [(1e-9, 9e8), (9e8, 1e-9), (1.0, 1.0), (9e8, 1.0), (1.0, 9e8), (1e-9, 1.0), (3.0, 2.0), (1.0, 1e-9)]
    found = judge_run(examples.run_of(case_of(times)), Baseline()).cases[0]
    assert found.outcome is Outcome.INCONCLUSIVE


BAD = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e9, 9e-10]


@pytest.mark.parametrize("bad", BAD)
def test_records_refuse_what_is_no_time(bad: float) -> None:
    """A sample that is NaN, infinite, zero, negative, below a picosecond or above eleven days is refused, alone and mixed."""
    for samples in ((bad,), (1.0, bad), (bad, bad)):
        with pytest.raises(ValidationError, match="samples_ms"):
            Block(index=0, position=0, samples_ms=samples)
        with pytest.raises(ValidationError, match="stages_ms"):
            replace(examples.blocks(0, 1.0), stages_ms={"a": samples})


def test_records_refuse_an_empty_block() -> None:
    """A block without samples is refused."""
    with pytest.raises(ValidationError, match="samples_ms"):
        Block(index=0, position=0, samples_ms=())


@pytest.mark.parametrize("field", ["ratio", "low", "high", "p_value", "spread", "detectable", "confidence"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_records_refuse_what_is_no_figure(field: str, bad: float) -> None:
    """A comparison holds no NaN, no infinity and nothing negative."""
    with pytest.raises(ValidationError, match=field):
        Comparison(**{**reports.comparison(1.0).model_dump(), field: bad})
