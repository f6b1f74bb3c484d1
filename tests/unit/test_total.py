"""What is slow now and then: the mean of everything that was timed, and what it takes to believe that it is slower."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from ratchet.core.judge.comparison import PairTotal, compare_totals, compare_workers, pairs_of, totals_of
from ratchet.core.judge.estimate import fisher_p
from ratchet.core.judge.evidence import CaseThresholds
from ratchet.core.judge.outcome import compared, decide, describe_total, judge_case
from ratchet.core.judge.rule import LOOKS
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import Block, CaseRun, Policy, WorkerSamples
from ratchet.core.records.verdict import Comparison, Outcome, Total
from tests import examples, pair_examples, reports

BAR = pair_examples.bar()
TOTAL_LEVEL = BAR.level / 9
"""A tenth of the false alarms is the total's, nine tenths are those of the typical time."""


def pair(head_ms: Sequence[float], reference_ms: Sequence[float], session: int = 0) -> PairTotal:
    return PairTotal(np.array(head_ms), np.array(reference_ms), session)


# The comparison


def test_by_hand() -> None:
    """The ratio is that of the sides' mean processes, its interval Student's t, its p-value exact."""
    found = compare_totals([pair([1, 3], [1]), pair([4], [1, 2, 3], 1), pair([9], [3], 1)], 0.95)
    assert found.ratio == 15 / 6
    away = np.array([2 - 2.5, 4 - 5, 9 - 7.5]) / 5
    half = stats.t.ppf(0.975, 2) * math.sqrt((away**2).sum() / 6)
    assert (found.low, found.high) == (pytest.approx(2.5 * math.exp(-half)), pytest.approx(2.5 * math.exp(half)))
    assert found.p_value == 1 / 8
    sessions = [math.log(2), (math.log(2) + math.log(3)) / 2]
    assert found.sessions_p_value == pytest.approx(stats.ttest_1samp(sessions, 0, alternative="greater").pvalue)
    assert (found.processes, found.calls) == (3, (4, 5))


def test_the_other_way_is_the_mirror_image() -> None:
    """If the sides are exchanged, the ratio turns over, and the p-values ask for the other direction."""
    totals = [pair([1 + 0.01 * number], [1.2], number // 3) for number in range(6)]
    found, mirrored = (
        compare_totals(totals, 0.95),
        compare_totals([pair(one.reference_ms, one.head_ms, one.session) for one in totals], 0.95),
    )
    assert found.ratio * mirrored.ratio == pytest.approx(1)
    assert found.ratio < 1
    assert found.p_value == mirrored.p_value == 1 / 64
    assert found.sessions_p_value == pytest.approx(mirrored.sessions_p_value)


def test_means_that_are_equal_are_asked_whether_they_are_slower() -> None:
    """Where both sides have the same mean, the p-values are those of a slower head."""
    found = compare_totals([pair([1.0], [2.0]), pair([1.0], [2.0], 1), pair([4.0], [2.0], 2)], 0.95)
    assert found.ratio == 1
    assert found.p_value == 7 / 8
    sessions = [-math.log(2), -math.log(2), math.log(2)]
    assert found.sessions_p_value == pytest.approx(stats.ttest_1samp(sessions, 0, alternative="greater").pvalue)


def test_one_slow_process_in_the_sum_is_not_capped() -> None:
    """A process that takes far longer outweighs any number of pairs that are a little faster."""
    totals = [pair([0.999], [1.0])] * 12 + [pair([3.0], [1.0])]
    found = compare_totals(totals, 0.95)
    assert found.ratio > 1.1
    assert found.p_value == pytest.approx(1 / 2, abs=0.01)  # and its sign alone decides


def test_a_process_counts_once_however_many_calls_it_made() -> None:
    """A fast process of a hundred calls is worth no more than a slow one of one call."""
    assert compare_totals([pair([1.0] * 100, [1.0]), pair([3.0], [1.0]), pair([1.0], [1.0])], 0.95).ratio == pytest.approx(5 / 3)


@pytest.mark.parametrize(
    ("heads", "slow", "factor"),
    [
        ([1.0] * 9 + [1.11], (1, 0), 1.11),
        ([1.0] * 9 + [1.1], (0, 0), 1.0),  # 10 % is not past 10 %
        ([1.0] * 8 + [1.5, 2.5], (2, 0), math.sqrt(1.5 * 2.5)),
        ([1.0, 1.05, 0.95, 1.08, 0.92] * 4 + [1.3], (0, 0), 1.0),  # where all differ, it takes five spreads
        ([1.0, 1.05, 0.95, 1.08, 0.92] * 4 + [1.4], (0, 0), 1.0),
        ([1.0, 1.05, 0.95, 1.08, 0.92] * 4 + [1.6], (1, 0), 1.6),
        ([2.0] * 10, (0, 0), 1.0),  # slower than the reference, but all alike
    ],
)
def test_slow_processes(heads: list[float], slow: tuple[int, int], factor: float) -> None:
    """A process is slow against the median one of its own side, if it takes 10 % more and lies five spreads away."""
    noise = [1.0, 1.05, 0.95, 1.08, 0.92] if len(set(heads)) > 3 else [1.0]
    totals = [pair([head], [noise[number % len(noise)]]) for number, head in enumerate(heads)]
    found = compare_totals(totals, 0.95)
    assert found.slow_processes == slow
    assert found.process_factor == pytest.approx(factor)


def test_slow_processes_of_the_reference() -> None:
    """Those of the reference are counted in the same way, but the factor is the head's."""
    found = compare_totals([*[pair([1.0], [1.0])] * 8, pair([1.0], [2.0])], 0.95)
    assert (found.slow_processes, found.process_factor) == ((0, 1), 1.0)
    assert compare_totals([*[pair([1.0], [1.0])] * 8, pair([1.0], [1.1])], 0.95).slow_processes == (0, 0)


@pytest.mark.parametrize(
    ("calls", "slow"), [([1.0] * 9 + [1.6], 1), ([1.0] * 9 + [1.4], 0), ([1.0] * 9 + [50.0], 1), ([9.0] * 10, 0), ([1.0, 2.0], 0)]
)
def test_slow_calls(calls: list[float], slow: int) -> None:
    """A call is slow against the median one of its own process, if it takes half as much again."""
    found = compare_totals([pair(calls, [1.0] * len(calls)), pair([1.0], [1.0]), pair([1.0], [1.0])], 0.95)
    assert found.slow_calls == (slow, 0)
    assert found.calls == (len(calls) + 2, len(calls) + 2)
    assert found.call_factor == pytest.approx(max(calls) if slow else 1.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "of"), [(0, 0, 20), (5, 0, 40), (5, 5, 40), (1, 0, 6), (20, 1, 20), (3, 7, 20), (40, 40, 40)]
)
def test_fishers_exact_test(ours: int, theirs: int, of: int) -> None:
    """It is that of SciPy."""
    expected = stats.fisher_exact([[ours, of - ours], [theirs, of - theirs]], alternative="greater").pvalue
    assert fisher_p(ours, theirs, of) == pytest.approx(expected)


# All that was timed


def worker(
    number: int, *blocks_ms: Sequence[float], throttled: Sequence[int] = (), is_light: bool = False, first: int = 0
) -> WorkerSamples:
    blocks = tuple(
        Block(index=first + index, position=index, samples_ms=tuple(samples), throttled=index in throttled)
        for index, samples in enumerate(blocks_ms)
    )
    return examples.blocks(number, blocks=blocks, is_light=is_light)


def test_every_kept_call_counts() -> None:
    """All calls of the blocks that both sides kept count, in the order of pairs; a block that one side lost does not."""
    head = [worker(9, [5.0, 6.0]), worker(2, [1.0, 2.0], [3.0], throttled=[0])]
    reference = [worker(2, [1.0], [2.0, 2.5]), worker(9, [4.0]), worker(3, [1.0])]
    first, second = totals_of(head, reference)
    assert (first.head_ms.tolist(), first.reference_ms.tolist(), first.session) == ([3.0], [2.0, 2.5], 0)
    assert (second.head_ms.tolist(), second.reference_ms.tolist(), second.session) == ([5.0, 6.0], [4.0], 1)


def test_pairs_without_a_common_block_are_left_out() -> None:
    """Where the sides kept no block of the same place, nothing can be compared."""
    assert totals_of([worker(0, [1.0], throttled=[0])], [worker(0, [1.0])]) == []
    assert totals_of([worker(0, [1.0], first=1)], [worker(0, [1.0])]) == []


def test_light_pairs_count_for_the_total_alone() -> None:
    """A process that was looked at for one block is no pair of the typical time, and one of the processes of the total."""
    ratios = [1.0, 1.001, 0.999] * 4
    head = [*examples.compared(*ratios).head, *(worker(12 + each, [3.0], is_light=True) for each in range(4))]
    reference = [*examples.compared(*ratios).reference, *(worker(12 + each, [1.0], is_light=True) for each in range(4))]
    assert len(pairs_of(head, reference)) == 12
    found = compare_workers(head, reference, 0.95)
    assert (found.pairs, found.ratio, found.total.processes) == (12, pytest.approx(1, abs=1e-3), 16)
    assert found.total.slow_processes == (4, 0)
    assert found.total.ratio == pytest.approx(1.5, abs=0.01)


# The rule


def slow_now_and_then(ratio: float = 1.2, **changes: object) -> Comparison:
    """A typical time that is unchanged, with a mean that is proven to be slower, unless ``changes`` say otherwise."""
    usual = {"low": 1.05, "high": 1.4, "p_value": 1e-9, "sessions_p_value": 1e-9, "processes": 40}
    own = {name: changes.pop(name) for name in [*changes] if name not in Total.model_fields}
    total = Total(ratio=ratio, **(usual | changes))
    return reports.comparison(1.0).model_copy(update={**own, "total": total})


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, Outcome.REGRESSED),
        ({"ratio": 1.0301}, Outcome.REGRESSED),
        ({"ratio": 1.03}, Outcome.UNCHANGED),  # exactly the gate is not past it
        ({"ratio": 1.05, "resolution": 0.019}, Outcome.REGRESSED),
        ({"ratio": 1.05, "resolution": 0.02}, Outcome.UNCHANGED),  # that may be the clock
        ({"low": 1.0}, Outcome.SLOWER),  # the interval must exclude no change
        ({"low": 1.0001}, Outcome.REGRESSED),
        ({"p_value": TOTAL_LEVEL * 0.999, "sessions_p_value": TOTAL_LEVEL * 0.999}, Outcome.REGRESSED),
        ({"p_value": TOTAL_LEVEL * 1.001}, Outcome.SLOWER),
        ({"sessions_p_value": TOTAL_LEVEL * 1.001}, Outcome.SLOWER),
        ({"sessions_p_value": None}, Outcome.SLOWER),
        ({"pairs": 19}, Outcome.SLOWER),
        ({"spread": 0.02, "effective_pairs": 19.9, "decile_bounds": (1.0, 1.2)}, Outcome.SLOWER),  # pairs of noise that stays
        ({"spread": 0.02, "effective_pairs": 20.0, "decile_bounds": (1.0, 1.2)}, Outcome.REGRESSED),
        ({"spread": 0.06, "correlation": 0.5}, Outcome.SLOWER),  # three spreads past the gate are 23 %
        ({"spread": 0.04, "correlation": 0.5}, Outcome.REGRESSED),
        ({"sessions": (1.0,) * 4}, Outcome.SLOWER),
        ({"p_value": BAR.level * 4.99}, Outcome.SLOWER),
        ({"p_value": BAR.level * 5.01}, Outcome.INCONCLUSIVE),
        ({"p_value": 0.05}, Outcome.INCONCLUSIVE),
        ({"p_value": 0.0501}, Outcome.UNCHANGED),
        ({"ratio": 0.5, "low": 0.4, "high": 0.6}, Outcome.UNCHANGED),  # faster now and then is no improvement
    ],
)
def test_what_it_takes_to_believe_a_mean(changes: dict[str, object], outcome: Outcome) -> None:
    """A mean past the gate is red with all of its evidence, slower without, inconclusive at 5 %, and else nothing."""
    found, reason = decide(slow_now_and_then(**changes), BAR)
    assert found is outcome
    if outcome is Outcome.SLOWER:
        assert reason.startswith("Slower now and then, but not proven: The mean of all calls is +")
    if outcome is Outcome.INCONCLUSIVE:
        assert reason.startswith("The mean of all calls is +20 % [+5, +40]. That may be chance. The typical call: Any ")


def test_a_mean_that_may_be_chance_is_told_no_pairs() -> None:
    """Where only the mean leaves a case open, its reason ends with that of the typical time, and says nothing of more pairs."""
    outcome, reason, _ = judge_case(samples_of(8), slow_now_and_then(p_value=0.03), BAR, None)
    assert outcome is Outcome.INCONCLUSIVE
    assert reason.endswith(" The typical call: Any slowdown is smaller than the gate of 3 %.")


def test_evidence_at_its_limit_suffices_for_a_mean() -> None:
    """A p-value that is the level itself, and a distance from the gate that is the margin itself, are enough."""
    found = slow_now_and_then(ratio=1.03 * 1.25, p_value=0.0001, sessions_p_value=0.0001)
    bar = dataclasses.replace(BAR, level=0.0009)
    assert bar.allows_total(found, found.total)
    margin = math.log(found.total.ratio / 1.03)
    assert dataclasses.replace(bar, persistent=margin / 3).margin(found) == margin
    assert dataclasses.replace(bar, persistent=margin / 3).allows_total(found, found.total)
    assert not dataclasses.replace(bar, persistent=margin / 2.999).allows_total(found, found.total)


@pytest.mark.parametrize(("ratio", "outcome"), [(1.1, Outcome.REGRESSED), (0.9, Outcome.IMPROVED)])
def test_a_mean_speaks_for_itself(ratio: float, outcome: Outcome) -> None:
    """What is proven of the typical time stays, if the mean is past the gate by chance; a proven mean is red in any case."""
    typical = reports.comparison(ratio)
    for chance, expected in (
        (0.06, outcome),
        (0.04, Outcome.REGRESSED if ratio > 1 else Outcome.INCONCLUSIVE),
        (5e-4, Outcome.REGRESSED if ratio > 1 else Outcome.SLOWER),
        (1e-9, Outcome.REGRESSED),
    ):
        mean = slow_now_and_then(p_value=chance).total
        assert decide(typical.model_copy(update={"total": mean}), BAR)[0] is expected


def test_a_slower_typical_time_is_told_first() -> None:
    """Where the typical time is slower without proof, and the mean is not proven either, the reason is the typical one's."""
    typical = reports.comparison(1.1, pairs=19).model_copy(update={"total": slow_now_and_then(p_value=1e-4).total})
    outcome, reason = decide(typical, BAR)
    assert outcome is Outcome.SLOWER
    assert reason.startswith("Slower, but not proven: +10.00 %")
    assert judge_case(samples_of(8), typical, BAR, None) == (outcome, reason, typical)  # whose figures are shown as well


def test_who_asks_for_one_session_does_so_for_the_mean() -> None:
    """A bar of a single session holds the mean to its pairs and its test alone."""
    bar = CaseThresholds(Policy(), BAR.level, fewest=6)
    mean = {"sessions": (1.0,), "pairs": 6, "sessions_p_value": None}
    assert decide(slow_now_and_then(**mean), bar)[0] is Outcome.REGRESSED
    assert decide(slow_now_and_then(**(mean | {"pairs": 5})), bar)[0] is Outcome.SLOWER


# From samples on


def samples_of(pairs: int, slow: float = 1.0, every_call: int = 0, every_process: int = 0) -> CaseRun:
    """A case whose head is ``slow`` times as long in one call, or process, out of so many; pairs differ by a little."""
    rng = np.random.default_rng(7)

    def side(factor: float) -> tuple[WorkerSamples, ...]:
        taken = []
        for number in range(pairs):
            ms = np.exp(rng.normal(0, 0.002, (4, 10)))
            if every_call:
                ms[:, ::every_call] *= factor
            if every_process and number % every_process == 0:
                ms *= factor
            taken.append(worker(number, *ms.tolist()))
        return tuple(taken)

    return examples.compared(head=side(slow), reference=side(1.0))


def judged(case: CaseRun) -> tuple[Outcome, str, Comparison | None]:
    return judge_case(case, compared(case, 0.95), BAR, None)


def test_one_slow_call_in_ten() -> None:
    """A call that takes 50 times as long in one of ten is a regression, which the median of calls does not show."""
    outcome, reason, shown = judged(samples_of(20, 50.0, every_call=10))
    assert outcome is Outcome.REGRESSED
    assert reason.startswith("The mean of all calls is +489.77 % [")
    assert "]: one call in 10 takes 50×. The typical call: Any slowdown is smaller than the gate of 3 %." in reason
    assert (shown.source, shown.bound, shown.is_paired) == ("total", None, True)
    assert shown.ratio == pytest.approx(5.9, abs=0.1)
    assert shown.low < shown.ratio < shown.high
    assert shown.total is not None
    mean = shown.total
    assert (shown.ratio, shown.low, shown.high, shown.p_value) == (mean.ratio, mean.low, mean.high, mean.p_value)


def test_means_are_shown_where_they_decided() -> None:
    """The report shows the mean of each side, with rates and shares that go with it."""
    of = {
        name: examples.performance(1.0).model_copy(update={"mean_time_ms": mean})
        for name, mean in (("performance", 11.8), ("reference_performance", 2.0))
    }
    (found,) = judge_run(examples.run_of(samples_of(20, 50.0, every_call=10).model_copy(update=of)), Baseline()).cases
    assert found.comparison.source == "total"
    assert found.head.median_ms / found.reference.median_ms == pytest.approx(found.comparison.ratio)
    assert found.head.median_ms * found.reference.median_ms == pytest.approx(23.6)


def test_one_slow_process_in_five() -> None:
    """If one process in five takes half as much again, that is never a pass, and in eighty pairs it is no chance."""
    outcome, reason, _ = judged(samples_of(20, 1.5, every_process=5))
    assert outcome is Outcome.INCONCLUSIVE
    assert ", and with the outliers (4 of 20 pairs) at 99.3 % certainty to +" in reason
    assert "Pairs scatter by 0.1 %, and 4 of 20 lie far off: stop other work" in reason

    outcome, reason, shown = judged(samples_of(40, 1.5, every_process=5))
    assert outcome is Outcome.INCONCLUSIVE
    assert reason.startswith("The mean of all calls is +10 % [")
    assert (
        "8 of 40 processes take 1.5×, of the reference 0 (Fisher's exact test: p = 0.0027). That may be chance. The typ" in reason
    )
    assert shown.source == "paired"

    outcome, reason, shown = judged(samples_of(80, 1.5, every_process=5))
    assert outcome is Outcome.SLOWER
    assert reason.startswith("Slower now and then, but not proven: The mean of all calls is +10.0 % [")
    assert shown.source == "total"


def test_slow_processes_on_top_of_a_small_slowdown_are_proven() -> None:
    """Where all processes are a little slower and one in five is far slower, hosts agree, and the mean is a regression."""
    case = samples_of(max(LOOKS), 1.5, every_process=5)
    slow = tuple(
        dataclasses.replace(
            one,
            blocks=tuple(
                dataclasses.replace(block, samples_ms=tuple(ms * 1.02 for ms in block.samples_ms)) for block in one.blocks
            ),
        )
        for one in case.head
    )
    outcome, reason, shown = judged(case.model_copy(update={"head": slow}))
    assert outcome is Outcome.REGRESSED
    assert "20 of 100 processes take 1.5×" in reason
    assert shown.source == "total"


def test_slower_kernels_decide_where_the_mean_does_not() -> None:
    """A case that is slower by its mean without proof is a regression if its kernels are one."""
    case = samples_of(40, 1.5, every_process=5)
    sides = {"head": lambda pair: 0.42 * (1 + 1e-3 * (pair % 3)), "reference": lambda pair: 0.4 * (1 + 1e-3 * (pair % 3))}
    outcome, reason, shown = judged(examples.with_kernels(case, **sides))
    assert outcome is Outcome.REGRESSED
    assert reason.startswith("Its kernels are slower by 5.0")
    assert shown.source == "kernels"


# In words


def total(**changes: object) -> Total:
    usual = {"ratio": 1.1, "low": 1.02, "high": 1.2, "p_value": 0.001, "processes": 40, "calls": (1000, 1000)}
    return Total(**(usual | changes))


MEAN = "The mean of all calls is +10 % [+2, +20]"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"{MEAN}."),
        ({"slow_calls": (100, 0), "call_factor": 50.0}, f"{MEAN}: one call in 10 takes 50×."),
        ({"slow_calls": (100, 50), "call_factor": 50.0}, f"{MEAN}."),  # both have them
        (
            {"calls": (500, 2000), "slow_calls": (500, 900), "call_factor": 50.0},  # all of the head's, and less than half
            f"{MEAN}: one call in 1 takes 50×.",
        ),
        ({"calls": (2000, 500), "slow_calls": (500, 100)}, f"{MEAN}."),
        ({"calls": (0, 0)}, f"{MEAN}."),  # of a report that counted none
        ({"slow_calls": (101, 50), "call_factor": 2.0}, f"{MEAN}: one call in 10 takes 2.0×."),
        (
            {"slow_processes": (8, 1), "process_factor": 1.5},
            f"{MEAN}: 8 of 40 processes take 1.5×, of the reference 1 (Fisher's exact test: p = 0.014).",
        ),
        ({"slow_processes": (1, 1), "process_factor": 1.5}, f"{MEAN}."),
        (
            {"slow_calls": (100, 0), "call_factor": 50.0, "slow_processes": (8, 0), "process_factor": 2.0},
            f"{MEAN}: one call in 10 takes 50×, and 8 of 40 processes take 2.0×, "
            "of the reference 0 (Fisher's exact test: p = 0.0027).",
        ),
    ],
)
def test_what_is_said_of_a_mean(changes: dict[str, object], said: str) -> None:
    """The sentence has the mean with its interval, and what is slow more often than on the reference, if anything is."""
    assert describe_total(total(**changes), Policy()) == said
