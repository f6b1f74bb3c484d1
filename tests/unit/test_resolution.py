"""How finely times are known: what a coarse clock, or a file of few digits, leaves open is never a pass nor a change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ratchet.core.judge.comparison import compare_pairs, resolution_of
from ratchet.core.judge.evidence import pairs_to_settle
from ratchet.core.judge.outcome import compared, decide, judge_case
from ratchet.core.records.run import Block, Policy, WorkerSamples
from ratchet.core.records.verdict import Outcome
from tests import examples, pair_examples, reports

BAR = pair_examples.bar()


def worker(number: int, *blocks_ms: Sequence[float], throttled: bool = False) -> WorkerSamples:
    blocks = tuple(Block(index, index, tuple(samples), throttled=throttled) for index, samples in enumerate(blocks_ms))
    return examples.blocks(number, blocks=blocks)


def half_step(step: float, median: float) -> float:
    return -math.log1p(-step / 2 / median)


@pytest.mark.parametrize(
    ("samples", "step"),
    [
        ((2.0, 3.0, 4.0), 1.0),
        ((0.155, 0.2, 0.21), 0.001),  # of the sample with most digits
        ((0.15, 0.2, 0.21), 0.01),
        ((200.0, 300.0, 500.0), 100.0),
        ((1e-6, 2e-6, 2e-6), 1e-6),
        ((12.0, 12.0, 12.0, 12.0), 1.0),
        ((10.0, 10.0, 10.0, 10.0), 10.0),  # nobody knows of the second digit
        ((10.0, 10.0, 11.0, 10.0), 1.0),
        ((1.25, 1.5, 1.5, 1.25, 1.75, 1.5), 0.25),  # they repeat, so the clock counts in quarters
        ((1.25, 1.5, 1.51, 1.75), 0.01),  # they do not
        ((0.3 * (1 + 2e-13), 0.3, 0.3, 0.3), 0.1),  # after twelve digits comes what arithmetic left
        ((0.300000000001, 0.3, 0.4), 0.0),  # the twelfth counts
        ((1e-6, 1.0), 0.0),  # a millionth of a sample is too fine to matter
        ((0.1 + 0.2, 0.3, 0.3, 0.3), 0.1),  # the last digits of a binary fraction are none
        ((1 / 3, 2 / 3, 3 / 7), 0.0),
        ((1.00000012, 1.5, 1.25), 0.0),  # too fine to matter
    ],
)
def test_the_step_of_samples(samples: tuple[float, ...], step: float) -> None:
    """It is one unit of the last digit that any sample has, or, where they repeat, the distance of the two nearest."""
    median = float(np.median(samples))
    assert resolution_of([worker(0, samples)]) == pytest.approx(half_step(step, median))
    assert resolution_of([worker(0, samples[:1]), worker(1, samples[1:])]) == pytest.approx(half_step(step, median))


def test_finer_times_are_asked_for_where_they_would_decide() -> None:
    """At most as far from the gate as times are known, it takes finer times; where these are known exactly, it never does."""
    for distance, coarse in ((1.0, True), (1.001, False)):
        found = reports.comparison(1.02, low=1.01, high=1.05, resolution=-math.log(1.02 / 1.03) / distance)
        outcome, reason = decide(found, BAR)
        assert outcome is Outcome.INCONCLUSIVE
        assert reason.endswith("at best: time longer calls, or store more digits.") is coarse
    assert "Times are known" not in decide(reports.comparison(1.03, low=1.02, high=1.04), BAR)[1]


def test_blocks_that_do_not_count_tell_nothing() -> None:
    """A block that was slowed shows no digits, and without a sample there is no step."""
    assert resolution_of([worker(0, (2.0, 3.0)), worker(1, (2.001, 3.001), throttled=True)]) == half_step(1.0, 2.5)
    assert resolution_of([]) == 0
    assert resolution_of([worker(0, (2.0, 3.0), throttled=True)]) == 0


def test_a_time_below_its_step() -> None:
    """Of a sample that may be next to nothing only a twentieth is certain."""
    assert resolution_of([worker(0, (0.4, 0.0001, 0.0001, 0.0001))]) == pytest.approx(-math.log1p(-0.95))


def side(*samples_ms: float, pairs: int = 24) -> tuple[WorkerSamples, ...]:
    return tuple(worker(number, samples_ms, samples_ms) for number in range(pairs))


NS = 1e-6


@pytest.mark.parametrize(
    ("head", "reference", "outcome"),
    [
        (2, 2, Outcome.INCONCLUSIVE),  # 2.4 ns and 1.6 ns are written alike
        (9, 9, Outcome.INCONCLUSIVE),  # ± 6 % on each side
        (1, 1, Outcome.INCONCLUSIVE),
        (3, 2, Outcome.INCONCLUSIVE),  # both may be 2.5 ns
        (9, 8, Outcome.INCONCLUSIVE),
        (2, 3, Outcome.INCONCLUSIVE),
        (4, 2, Outcome.REGRESSED),  # 3.5 ns and 2.5 ns at least
        (2, 4, Outcome.IMPROVED),
        (13, 11, Outcome.REGRESSED),
    ],
)
def test_nanoseconds(head: int, reference: int, outcome: Outcome) -> None:
    """Samples of a few whole nanoseconds prove a change only where no rounding could have made it."""
    case = examples.compared(head=side(head * NS), reference=side(reference * NS))
    found, reason, comparison = judge_case(case, compared(case, 0.95), BAR, None)
    assert found is outcome
    assert comparison.resolution == pytest.approx(half_step(1, head) + half_step(1, reference))
    if outcome is Outcome.INCONCLUSIVE:
        assert reason.endswith(f"{100 * comparison.resolution:.1f} % at best: time longer calls, or store more digits.")


def test_rates_are_no_times_of_few_digits() -> None:
    """Times that were made of rates, 1 / GB/s, have many digits, but they repeat in steps that are seen."""
    rates = np.random.default_rng(5).choice([400.0, 401.0, 402.0, 403.0], (24, 4))
    taken = tuple(worker(number, (1e3 / row).tolist()) for number, row in enumerate(rates))
    nearest = 1e3 / 402 - 1e3 / 403
    assert resolution_of(taken) == pytest.approx(half_step(nearest, float(np.median(1e3 / rates))))


def test_clocks_of_ratchet_are_fine_enough() -> None:
    """A clock of 32 ns that times calls of 20 µs or more in turns moves no interval by as much as a gate.

    CUDA events count in steps of 32 ns or 0.5 µs, Python's clock in nanoseconds.
    """
    rng = np.random.default_rng(6)
    for call_ms, step_ms in ((0.02, 32e-6), (1.0, 500e-6), (0.001, 1e-6)):
        times = np.round(call_ms * np.exp(rng.normal(0, 0.01, (24, 4))) / step_ms) * step_ms
        resolution = resolution_of([worker(number, row) for number, row in enumerate(times.tolist())])
        assert resolution <= 0.51 * step_ms / call_ms
        assert resolution < 1e-3


def test_resolution_widens_the_interval_and_its_bound() -> None:
    """What is unknown of both sides is added at each end, and the estimate stays."""
    logs = [0.001, -0.002, 0.0015, 0.0, 0.001, -0.001] * 4
    fine, coarse = compare_pairs(pair_examples.pairs(logs), 0.95), compare_pairs(pair_examples.pairs(logs), 0.95, (), 0.02)
    assert (coarse.ratio, coarse.p_value, coarse.resolution) == (fine.ratio, fine.p_value, 0.02)
    assert math.log(fine.low / coarse.low) == pytest.approx(0.02)
    assert math.log(coarse.high / fine.high) == pytest.approx(0.02)
    assert math.log(coarse.upper_bound / fine.upper_bound) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("ratio", "resolution", "outcome"),
    [
        (1.05, 0.019, Outcome.REGRESSED),  # 1.05 / exp(0.019) is past 1.03
        (1.05, 0.02, Outcome.INCONCLUSIVE),
        (0.93, 0.021, Outcome.IMPROVED),
        (0.93, 0.022, Outcome.UNCHANGED),
    ],
)
def test_a_change_must_be_past_its_threshold_by_what_is_unknown(ratio: float, resolution: float, outcome: Outcome) -> None:
    """An estimate counts as far as no rounding could have made it."""
    seen = reports.comparison(ratio, 0.025, resolution=resolution, p_value=1e-9)
    assert decide(seen, BAR)[0] is outcome


@pytest.mark.parametrize(
    ("ratio", "high", "resolution", "said"),
    [
        (1.0, 1.04, 0.011, True),  # below the gate without what is unknown
        (1.0, 1.04, 0.009, False),
        (1.045, 1.2, 0.015, True),  # on neither side of the gate, however many pairs
        (1.045, 1.2, 0.014, False),
        (1.0, 1.04, 0.0, False),
    ],
)
def test_a_coarse_clock_is_named(ratio: float, high: float, resolution: float, said: bool) -> None:
    """Where finer times would decide, that is the advice, and not more pairs."""
    _, reason = decide(reports.comparison(ratio, low=0.99, high=high, resolution=resolution), BAR)
    assert (
        reason.endswith(f"Times are known to {100 * resolution:.1f} % at best: time longer calls, or store more digits.") is said
    )


def test_more_pairs_do_not_make_times_finer() -> None:
    """The pairs that would settle a case narrow what pairs can narrow: the rest of the way to the gate is shorter."""
    seen = reports.comparison(1.0, low=0.97, high=1.05, pairs=12)
    coarse = seen.model_copy(update={"high": 1.05 * math.exp(0.01), "resolution": 0.01})
    few, more = pairs_to_settle(seen, Policy()), pairs_to_settle(coarse, Policy())
    away = math.log(1.03)
    assert few == math.ceil(1.3 * 12 * (math.log(1.05) / away) ** 2)
    assert more == math.ceil(1.3 * 12 * (math.log(1.05) / (away - 0.01)) ** 2)
    assert pairs_to_settle(coarse.model_copy(update={"resolution": 0.03}), Policy()) is None
