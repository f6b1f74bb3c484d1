"""What it takes to believe a change, what is missing where it is not believed, and the smallest slowdown that would be red."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ratchet.core.judge.comparison import compare_pairs
from ratchet.core.judge.estimate import randomisation_p
from ratchet.core.judge.evidence import (
    EFFICIENCY,
    MEDIAN_OF_SESSION,
    CaseThresholds,
    needed_change,
    pairs_to_settle,
    session_of,
    sessions_needed,
    sessions_of,
    smallest_slowdown,
    thresholds_for,
    with_persistence,
    with_smallest_slowdown,
)
from ratchet.core.judge.outcome import decide, settles
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Comparison, Outcome
from tests import pair_examples, reports

POLICY = Policy()
BAR = pair_examples.bar()


def seen(ratio: float = 1.1, **changes: object) -> Comparison:
    """A comparison of twenty pairs in five sessions that agree, with a narrow interval and the smallest p-values."""
    usual = {"p_value": 2**-20, "sessions_p_value": 1e-6}
    spread = {"spread": changes.pop("spread", 0.003)}
    return reports.comparison(ratio, **(usual | changes)).model_copy(update=spread)


# The evidence


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, ""),
        ({"pairs": 19}, "A regression needs 20 pairs, and this case has 19: raise --budget, or --pairs if that was the limit."),
        (
            {"sessions": (1.1,) * 4},
            "A regression needs hosts that were started 5 times, and these were 4 times: "
            "raise --budget, or --pairs if that was the limit.",
        ),
        (
            {"sessions": (1.1,), "sessions_p_value": None},
            "A regression needs hosts that were started 5 times, and these were 1 time: "
            "raise --budget, or --pairs if that was the limit.",
        ),
        ({"sessions_p_value": 0.00018}, ""),
        (
            {"sessions": (1.2, 1.03, 1.1, 1.1, 1.1), "sessions_p_value": 0.00019},
            "Hosts that were started anew do not agree: they show +3.0 % to +20.0 %. Measure again.",
        ),
        ({"sessions": (1.01, 1.2, 1.1, 1.1, 1.1)}, ""),  # one host may differ, if all of them together are sure
        ({"p_value": 0.00018}, ""),
        (
            {"p_value": 0.00019},
            "The randomisation test has p = 0.00019, and a regression needs 0.00018 or less: raise --budget, or --pairs.",
        ),
        (
            {"correlation": 0.5, "spread": 0.05},
            "The noise of this machine persists from pair to pair, so only a change of more than 16 % past the gate would be "
            "proven: stop other work, then measure again.",
        ),
    ],
)
def test_each_piece_of_evidence_is_needed(changes: dict[str, object], missing: str) -> None:
    """Without pairs, sessions that agree, the test, or distance in noise that persists, slower is not proven, and says why."""
    outcome, reason = decide(seen(**changes), BAR)
    if not missing:
        assert outcome is Outcome.REGRESSED
        return
    assert outcome is Outcome.SLOWER
    assert reason.startswith("Slower, but not proven: +10.00 % [+9.82, +10.18]; pairs scatter by ")
    assert reason.endswith(f". {missing}")


def test_a_p_value_just_above_the_level_is_told_apart_from_it() -> None:
    """As many digits are shown as it takes to see that the p-value is above the level; at the level itself it suffices."""
    bar = replace(BAR, level=0.001)
    assert " has p = 0.0010001, and a regression needs 0.001 or less" in decide(seen(p_value=0.0010001), bar)[1]
    smallest = math.nextafter(0.001, 1)
    assert f" has p = {smallest:.17g}, and a regression needs 0.001 or less" in decide(seen(p_value=smallest), bar)[1]
    assert "Hosts that were started anew do not agree" in decide(seen(p_value=0.001, sessions_p_value=0.5), bar)[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"pairs": 19},
        {"sessions": (0.9,) * 3},
        {"sessions_p_value": 0.00019},
        {"sessions_p_value": None},
        {"p_value": 0.00019},
        {"correlation": 0.6},
    ],
)
def test_an_improvement_takes_the_same(changes: dict[str, object]) -> None:
    """An improvement is held to the mirror image of the rule, past its own threshold of 5 %.

    Of sessions it takes four, however many cases there are: nobody is blamed for a gain.
    """
    assert decide(seen(0.9, sessions=(0.9,) * 4), pair_examples.bar(cases=100))[0] is Outcome.IMPROVED
    assert decide(seen(0.9, spread=0.05), BAR)[0] is Outcome.IMPROVED
    assert decide(seen(0.9, **({"spread": 0.05} | changes)), BAR)[0] is Outcome.UNCHANGED


def test_a_few_pairs_may_suffice_for_who_asks_for_less() -> None:
    """A bar may ask for fewer pairs, and for one session only: then hosts need not agree with others."""
    bar = CaseThresholds(POLICY, 0.05, fewest=6)
    assert decide(seen(pairs=6, sessions=(1.1,), sessions_p_value=None), bar)[0] is Outcome.REGRESSED
    assert decide(seen(pairs=5, sessions=(1.1,), sessions_p_value=None), bar)[0] is Outcome.SLOWER
    assert decide(seen(pairs=6, sessions=(1.1,), sessions_p_value=None), replace(bar, sessions=2))[0] is Outcome.SLOWER


def test_cases_and_looks_share_the_false_alarms() -> None:
    """Each of fifty cases may be red fifty times less often by chance, and at each of five looks a fifth of that.

    A tenth of the false alarms is kept for the total.
    """
    assert thresholds_for(POLICY, 1, 1).level == pytest.approx(0.0009)
    assert thresholds_for(POLICY, 50, 5).level == pytest.approx(0.0009 / 250)
    assert thresholds_for(POLICY, 0, 0) == thresholds_for(POLICY, 1, 1)
    found = seen(p_value=0.0005)
    assert decide(found, thresholds_for(POLICY, 1, 1))[0] is Outcome.REGRESSED
    assert decide(found, replace(thresholds_for(POLICY, 3, 1), sessions=5))[0] is Outcome.SLOWER
    assert decide(found, thresholds_for(POLICY, 1, 3))[0] is Outcome.SLOWER


def test_twenty_pairs_can_prove_a_change_of_a_hundred_and_eighty_cases() -> None:
    """Twenty pairs that all agree pass the level of 180 cases at every look; more sessions than they have are needed, too."""
    assert pair_examples.bar(cases=180).level > 2**-20
    assert sessions_needed(POLICY, 180) > sessions_of(20)


@pytest.mark.parametrize(
    ("cases", "false_alarm", "sessions"),
    [(0, 0.001, 5), (1, 0.001, 5), (2, 0.001, 6), (4, 0.001, 6), (5, 0.001, 7), (11, 0.001, 7), (200, 0.001, 9), (1, 0.2, 4)],
)
def test_sessions_that_are_needed(cases: int, false_alarm: float, sessions: int) -> None:
    """Hosts that run in one of two modes all agree by chance no more often than the policy allows, over all cases."""
    policy = Policy(false_alarm=false_alarm)
    assert sessions_needed(policy, cases) == thresholds_for(policy, cases, 5).sessions == sessions
    assert sessions >= 4
    assert cases * 4.0**-sessions <= false_alarm


def test_sessions_of_a_check() -> None:
    """The first hosts give eight pairs, each later pair of hosts three: twenty pairs come from five sessions."""
    assert [session_of(pair) for pair in range(15)] == [0] * 8 + [1] * 3 + [2] * 3 + [3]
    assert [sessions_of(pairs) for pairs in (1, 8, 9, 11, 12, 20, 28, 40, 100)] == [1, 1, 2, 2, 3, 5, 8, 12, 32]


@pytest.mark.parametrize(("sessions", "pairs"), [(1, 20), (4, 20), (5, 20), (6, 21), (7, 24), (8, 27)])
def test_pairs_that_are_needed(sessions: int, pairs: int) -> None:
    """A change takes twenty pairs, and as many as come from so many sessions."""
    assert replace(BAR, sessions=sessions).pairs_needed == pairs
    assert sessions_of(pairs) >= sessions
    assert pairs == 20 or sessions_of(pairs - 1) < sessions


def test_other_times_are_not_held_to_pairs() -> None:
    """What was not measured in pairs has neither sessions nor an order: its p-value decides."""
    apart = {"source": "stored", "pairs": 6, "sessions": (), "sessions_p_value": None}
    assert decide(seen(**apart), BAR)[0] is Outcome.REGRESSED
    assert decide(seen(p_value=0.01, **apart), BAR)[0] is Outcome.SLOWER


# Noise that persists from pair to pair


@pytest.mark.parametrize(
    ("changes", "is_red"),
    [
        ({"effective_pairs": 19.9, "decile_bounds": (1.02, 1.2)}, False),
        ({"effective_pairs": 20.0, "decile_bounds": (1.02, 1.2)}, True),
        ({"effective_pairs": 5.0, "decile_bounds": (1.031, 1.2)}, True),  # nine pairs in ten are past the gate
        ({"effective_pairs": 5.0, "decile_bounds": (1.03, 1.2)}, False),  # the gate itself is not past it
        ({"effective_pairs": 1.4, "decile_bounds": (1.02, 1.2)}, False),
        ({"effective_pairs": 5.0, "decile_bounds": None}, True),  # of a report that was written without it
        ({"effective_pairs": 5.0, "decile_bounds": (1.02, 1.2), "spread": 0.01}, True),  # quiet pairs do no harm
        (
            {"effective_pairs": 5.0, "decile_bounds": (1.02, 1.2), "spread": 0.01, "outliers": 1},
            False,
        ),  # a mode may look like outliers
        ({"effective_pairs": 5.0, "decile_bounds": (1.031, 1.2), "pairs": 19}, False),
    ],
)
def test_in_noise_pairs_count_as_far_as_they_are_independent(changes: dict[str, object], is_red: bool) -> None:
    """Twenty noisy pairs prove a change if they count as twenty, or if nine in ten are past the gate; else it is not proven."""
    outcome, reason = decide(seen(**({"spread": 0.02} | changes)), BAR)
    assert outcome is (Outcome.REGRESSED if is_red else Outcome.SLOWER)
    if not is_red and changes.get("pairs") != 19:
        count = f"{changes['effective_pairs']:.0f}"
        assert reason.endswith(
            f"20 pairs count as only {count} independent ones, and a regression needs 20: "
            "raise --budget, or --pairs if that was the limit."
        )


@pytest.mark.parametrize(
    ("nearly_all", "outcome"),
    [((0.8, 0.96), Outcome.UNCHANGED), ((0.8, 0.95), Outcome.UNCHANGED), ((0.8, 0.94), Outcome.IMPROVED)],
)
def test_an_improvement_in_noise_takes_the_same(nearly_all: tuple[float, float], outcome: Outcome) -> None:
    """Pairs that count as five prove an improvement of more than 5 % only if nine in ten show it."""
    assert decide(seen(0.9, spread=0.02, effective_pairs=5.0, decile_bounds=nearly_all), BAR)[0] is outcome


@pytest.mark.parametrize(
    ("changes", "spreads"),
    [
        ({"correlation": 0.44}, 0),  # two standard errors of 1/√20 are 0.447
        ({"correlation": 0.46}, 3),
        ({"correlation": 0.5, "pairs": 16}, 0),  # exactly two standard errors
        ({"correlation": 0.46, "spread": 0.01}, 0),  # quiet pairs do no harm
        ({"correlation": 0.46, "outliers": 4}, 0),  # of the sixteen that were kept
        ({"correlation": 0.29, "pairs": 100}, 3),
        ({"correlation": -0.9}, 0),
    ],
)
def test_persistence(changes: dict[str, float], spreads: float) -> None:
    """Where noise of more than 1 % carries over from pair to pair, a change must be past the gate by three spreads as well."""
    found = seen(**({"spread": 0.02} | changes))
    assert BAR.margin(found) == pytest.approx(spreads * found.spread)


@pytest.mark.parametrize(("ratio", "outcome"), [(1.093, Outcome.SLOWER), (1.095, Outcome.REGRESSED)])
def test_a_change_past_what_persists_is_believed(ratio: float, outcome: Outcome) -> None:
    """Three spreads of 2 % past a gate of 3 % are 9.4 %."""
    assert decide(seen(ratio, spread=0.02, correlation=0.5), BAR)[0] is outcome


def test_what_is_missing_at_the_margin() -> None:
    """Just as far past the gate as noise that persists demands, a case lacks something else: its independent pairs."""
    bar = replace(BAR, persistent=math.log(1.1 / 1.03) / 3)
    found = seen(spread=0.02, effective_pairs=0.3, decile_bounds=(1.0, 1.2))
    assert bar.margin(found) == math.log(1.1 / 1.03)
    assert " count as only 1 independent ones" in decide(found, bar)[1]
    assert " persists from pair to pair" in decide(found, replace(bar, persistent=bar.persistent * 1.01))[1]


def test_persistence_of_a_run() -> None:
    """Correlations too small to tell in one case tell in ten together, and then raise the bar of every case."""
    faint = [seen(1.0, correlation=0.2, spread=0.02)] * 10
    assert BAR.margin(faint[0]) == 0
    raised = with_persistence(BAR, faint)
    assert raised.persistent == pytest.approx(0.02)
    assert raised.margin(seen()) == pytest.approx(0.06)
    for quiet, persistent in ((0.004, 0.02), (0.005, 0.02), (0.006, math.sqrt((10 * 0.02**2 + 0.006**2) / 11))):
        found = with_persistence(BAR, [*faint, seen(1.0, correlation=0.2, spread=quiet)])
        assert found.persistent == pytest.approx(persistent)  # cases that spread by 0.5 % or less have no say
    assert decide(seen(1.09), BAR)[0] is Outcome.REGRESSED
    assert decide(seen(1.09), raised)[0] is Outcome.SLOWER


@pytest.mark.parametrize(
    ("cases", "raised"),
    [
        ([seen(1.0, correlation=0.141, spread=0.02)] * 10, False),  # two standard errors of 1/√200 are 0.1414
        ([seen(1.0, correlation=0.142, spread=0.02)] * 10, True),
        ([seen(1.0, correlation=0.157, spread=0.02, outliers=4)] * 10, False),  # of the 160 pairs that were kept
        ([seen(1.0, correlation=0.159, spread=0.02, outliers=4)] * 10, True),
        ([seen(1.0, correlation=0.3, spread=0.02, pairs=100), seen(1.0, correlation=0.0, spread=0.02)], True),
        ([seen(1.0, correlation=0.3, spread=0.02), seen(1.0, correlation=0.0, spread=0.02, pairs=100)], False),
        ([seen(1.0, correlation=0.3, spread=0.005), *[seen(1.0, correlation=0.2, spread=0.02)] * 9], True),
    ],
)
def test_persistence_of_a_run_is_more_than_chance(cases: list[Comparison], raised: bool) -> None:
    """The correlation over all pairs of noisy cases must be two standard errors, each case as sure as it has pairs."""
    assert (with_persistence(BAR, cases).persistent > 0) is raised


@pytest.mark.parametrize(
    "cases",
    [
        [],
        [None, None],
        [seen(1.0, correlation=0.2, spread=0.02)],
        [seen(1.0, correlation=0.5, spread=0.02), seen(1.0)],  # alone it is judged by itself, and says nothing of others
        [seen(1.0, correlation=0.2, spread=0.02), None],
        [seen(1.0, correlation=0.0, spread=0.02)] * 50,
        [seen(1.0, correlation=0.2, spread=0.004)] * 50,  # too quiet to matter
        [seen(1.0, correlation=0.2, spread=0.009)] * 50,
        [seen(1.0, correlation=0.5, spread=0.01)] * 2,
        [seen(1.0, correlation=0.2, spread=0.02, source="stored")] * 50,  # these have no order
    ],
)
def test_runs_whose_noise_does_not_persist(cases: list[Comparison | None]) -> None:
    """One case, quiet cases and cases whose pairs are independent leave the bar as it is."""
    assert with_persistence(BAR, cases) is BAR


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(("rho", "share"), [(0.0, 0.05), (0.5, 0.75)])
def test_persistence_is_noticed(rho: float, share: float) -> None:
    """Of runs of eleven cases, hardly one with independent pairs counts as persistent, and most with a memory of half."""
    rng = np.random.default_rng(4)
    raised = 0
    for _ in range(60):
        draws = rng.normal(0, 0.02, (11, 20))
        for pair in range(1, 20):
            draws[:, pair] = rho * draws[:, pair - 1] + math.sqrt(1 - rho**2) * draws[:, pair]
        cases = [pair_examples.looked_at(pair_examples.pairs(draw), BAR, 20) for draw in draws.tolist()]
        raised += with_persistence(BAR, cases).persistent > 0
    assert raised <= share * 60 if rho == 0 else raised >= share * 60


# The smallest slowdown that would be red


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("spread", "pairs", "cases"),
    [(0.003, 20, 1), (0.003, 40, 50), (0.02, 40, 1), (0.05, 20, 1), (0.05, 40, 11), (0.3, 28, 1), (0.3, 100, 50)],
)
def test_about_four_in_five_of_the_smallest_slowdowns_are_red(spread: float, pairs: int, cases: int) -> None:
    """Of slowdowns as large as the MDE, 68 to 92 of 100 are red once all pairs are taken, whatever part of the rule binds."""
    bar = pair_examples.bar(cases=cases, most=pairs)
    smallest = smallest_slowdown(spread, bar, pairs)
    assert smallest is not None
    draws = np.random.default_rng(12).normal(math.log1p(smallest), spread, (400, pairs))
    found = [compare_pairs(pair_examples.pairs(draw), 0.95) for draw in draws.tolist()]
    red = sum(decide(each, bar)[0] is Outcome.REGRESSED for each in found if each) / len(draws)
    assert 0.68 <= red <= 0.92


def test_smallest_slowdown_by_hand() -> None:
    """Where one of the four parts of the rule binds, it is what that part needs."""
    surely = stats.norm.ppf(math.sqrt(0.8))
    one = CaseThresholds(POLICY, 0.001)
    by_estimate = math.log(1.03) + surely * 0.005 / 10
    assert smallest_slowdown(0.005, one, 100) == pytest.approx(math.expm1(by_estimate))
    by_test = (stats.t.ppf(1 - 1e-9, 19) + surely) * 0.1 / math.sqrt(EFFICIENCY * 20)
    small_gate = CaseThresholds(Policy(regression=0.001), 1e-9, fewest_effective_pairs=0)
    assert smallest_slowdown(0.1, small_gate, 20) == pytest.approx(math.expm1(by_test))
    scatter = math.sqrt(stats.chi2.isf(0.2, 4) / 4)  # of the five sessions of 20 pairs, four times in five no more than that
    by_sessions = stats.t.ppf(1 - 1e-4, 4) * scatter * MEDIAN_OF_SESSION * 0.05 / math.sqrt(5)
    assert smallest_slowdown(0.05, CaseThresholds(POLICY, 1e-4, sessions=5), 20) == pytest.approx(math.expm1(by_sessions))
    all_agree = CaseThresholds(Policy(regression=0.001), 0.05, fewest_effective_pairs=0, sessions=5)  # so that the test binds
    by_test = (stats.t.ppf(0.95, 99) + surely) * 0.1 / math.sqrt(90)  # which uses nine tenths of the pairs
    assert smallest_slowdown(0.1, all_agree, 100) == pytest.approx(math.expm1(by_test))
    # Noisy pairs: 40 independent ones count as 20 where their autocorrelation is at most 1/3 − 1.8/√40, else 36 must be past.
    enough = stats.norm.cdf(math.sqrt(40) / 3 - 1.8)
    smallest = smallest_slowdown(0.02, replace(one, level=0.05), 40)
    assert smallest == smallest_slowdown(0.02, replace(one, level=0.05, sessions=4), 40)
    assert smallest is not None
    below = stats.norm.cdf((math.log(1.03) - math.log1p(smallest)) / 0.02)
    assert enough + (1 - enough) * stats.binom.cdf(4, 40, below) == pytest.approx(math.sqrt(0.8))
    quiet = math.log(1.03) + surely * 0.01 / math.sqrt(40)  # pairs that spread by 1 % all count
    assert smallest_slowdown(0.01, replace(one, level=0.05), 40) == pytest.approx(math.expm1(quiet))


@pytest.mark.no_cover
def test_what_the_test_needs_proves_as_often_as_it_is_meant_to() -> None:
    """Where the randomisation test binds, it proves the needed change in 89 of 100 runs: the root of four in five."""
    bar = CaseThresholds(Policy(regression=0.001), 1e-4, fewest_effective_pairs=0)
    change = needed_change(0.001, 0.1, bar, 40, 0.8)
    draws = np.random.default_rng(8).normal(change, 0.1, (1500, 40))
    assert 0.86 <= np.mean([randomisation_p(each, slower=True) <= bar.level for each in draws]) <= 0.91


def test_the_median_of_three_pairs_scatters_less() -> None:
    """Medians of three normal values have a standard deviation of 0.67."""
    medians = np.median(np.random.default_rng(3).normal(0, 1, (100_000, 3)), axis=1)
    assert medians.std() == pytest.approx(MEDIAN_OF_SESSION, abs=0.005)


def test_smallest_slowdown_grows_and_shrinks() -> None:
    """Never below the gate and finite, it grows with spread, cases, sessions, persistence and resolution, shrinks with pairs."""
    bar = pair_examples.bar()
    assert smallest_slowdown(0.0, bar, 100) == pytest.approx(0.03, rel=1e-3)
    by_spread = [smallest_slowdown(spread, bar, 100) or 0 for spread in (0.0, 0.003, 0.02, 0.1, 5.0, 500.0)]
    assert by_spread == sorted(by_spread)
    assert by_spread[-1] == math.expm1(60)
    by_pairs = [smallest_slowdown(0.02, bar, pairs) or 0 for pairs in (20, 28, 40, 100)]
    assert by_pairs == sorted(by_pairs, reverse=True)
    assert (smallest_slowdown(0.3, pair_examples.bar(cases=200), 40) or 0) > (smallest_slowdown(0.3, bar, 40) or 0)
    assert smallest_slowdown(0.0, bar, 100, resolution=0.1) == pytest.approx(1.03 * math.exp(0.1) - 1, rel=1e-3)
    margin = smallest_slowdown(0.02, bar, 100, margin=0.06) or 0
    assert margin == pytest.approx((1 + (smallest_slowdown(0.02, bar, 100) or 0)) * math.exp(0.06) - 1)
    one = CaseThresholds(Policy(regression=0.001), 0.001)
    assert (smallest_slowdown(0.01, replace(one, sessions=2), 20) or 0) > (smallest_slowdown(0.01, one, 20) or 0)


def test_few_pairs_can_prove_no_slowdown() -> None:
    """Where fewer pairs may be taken than a regression takes, or pairs of fewer sessions, there is no smallest slowdown."""
    assert smallest_slowdown(0.003, pair_examples.bar(most=19), 19) is None
    assert smallest_slowdown(0.003, pair_examples.bar(cases=2), 20) is None  # which need six sessions
    assert smallest_slowdown(0.003, pair_examples.bar(cases=2), 21) is not None
    assert with_smallest_slowdown(seen(detectable=None), BAR, 12).detectable is None


def test_a_comparison_has_its_smallest_slowdown() -> None:
    """It is of the pairs that a check may take, with noise that persists and a coarse clock, and only of pairs."""
    found = seen(1.0, spread=0.02, correlation=0.5, detectable=None)
    assert with_smallest_slowdown(found, BAR, 100).detectable == smallest_slowdown(0.02, BAR, 100, 0.06)
    coarse = seen(1.0, spread=0.02, resolution=0.1, detectable=None)
    assert with_smallest_slowdown(coarse, BAR, 100).detectable == smallest_slowdown(0.02, BAR, 100, resolution=0.1)
    apart = seen(1.0, source="stored", detectable=None)
    assert with_smallest_slowdown(apart, BAR, 100) is apart


# What would settle it


@pytest.mark.parametrize(
    ("changes", "pair_s", "said"),
    [
        (
            {"bound": 1.04},
            2.0,
            "About 16 more pairs would settle it and take 32 s: raise --budget, or --pairs if that was the limit.",
        ),
        ({"high": 1.031}, 0.0, "About 5 more pairs would settle it: raise --budget, or --pairs if that was the limit."),
        (
            {"high": 1.12},
            60.0,
            "About 218 more pairs would settle it and take 218 min 00 s: raise --budget, or --pairs if that was the limit.",
        ),
        ({"ratio": 1.06, "low": 1.02}, 1.0, "About 17 more pairs would settle it and take 17 s: raise --budget"),
        ({"ratio": 1.2, "low": 1.02}, 1.0, "About 8 more pairs would settle it and take 8.0 s: raise --budget"),  # what red takes
        (
            {"low": 0.85, "high": 1.25, "spread": 0.2},
            1.0,
            "Pairs scatter by 22.1 %: stop other work on this machine, then measure again.",
        ),
        (
            {"ratio": 1.03, "low": 1.0, "high": 1.06},
            1.0,
            "Pairs scatter by 0.3 %: stop other work on this machine, then measure again.",
        ),
        ({"bound": 1.3}, 1.0, "Pairs scatter by 0.3 %: stop other work on this machine, then measure again."),
        ({"source": "stored"}, 1.0, "Pairs scatter by 0.3 %: stop other work on this machine, then measure again."),
    ],
)
def test_what_would_settle_it(changes: dict[str, object], pair_s: float, said: str) -> None:
    """An inconclusive case says how many pairs and seconds would decide it, or that only a quieter machine would."""
    found = seen(**({"ratio": 1.0, "low": 0.98, "high": 1.08, "pairs": 12} | changes))
    assert settles(found, POLICY, pair_s).startswith(said)


def test_pairs_that_are_worth_suggesting() -> None:
    """At least two more pairs are suggested, and at most 400 in all; none if the clock leaves the side of the gate open."""
    half = Policy(regression=0.5)
    assert pairs_to_settle(seen(1.0, bound=1.5, pairs=3), half) == 5
    assert pairs_to_settle(seen(1.0, bound=1.5, pairs=20), half, reserve=20) == 400
    assert pairs_to_settle(seen(1.0, bound=1.5, pairs=20), half, reserve=20.01) is None
    near = math.log1p(0.03) - math.log(1.02)
    assert pairs_to_settle(seen(1.02, bound=1.04), POLICY) is not None
    assert pairs_to_settle(seen(1.02, bound=1.04, resolution=near), POLICY) is None
    assert pairs_to_settle(seen(1.02, bound=1.04, resolution=2 * near), POLICY) is None


@pytest.mark.no_cover
def test_so_many_pairs_do_settle_it() -> None:
    """Of unchanged cases that are inconclusive after six pairs, five in six have an answer after as many as they are told."""
    rng = np.random.default_rng(15)
    decided = []
    for _ in range(150):
        pairs = pair_examples.pairs(rng.normal(0, 0.03, 400))
        few = compare_pairs(pairs[:6], 0.95)
        assert few is not None
        said = settles(few, POLICY, 0.0)
        if decide(few, BAR)[0] is Outcome.INCONCLUSIVE and said.startswith("About "):
            then = compare_pairs(pairs[: 6 + int(said.split()[1])], 0.95)
            assert then is not None
            decided.append(decide(then, BAR)[0] is not Outcome.INCONCLUSIVE)
    assert len(decided) > 80
    assert sum(decided) >= 5 / 6 * len(decided)
