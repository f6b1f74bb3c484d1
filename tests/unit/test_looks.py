"""When pairs are looked at, and what is worth more of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ratchet.core.judge.drift import Drift
from ratchet.core.judge.outcome import compared, decide
from ratchet.core.judge.rule import (
    PROCESSES,
    EveryPair,
    GateRule,
    Rule,
    is_decided,
    is_total_open,
    likely_changed,
    looks,
    looks_for_change,
    suspects,
    thresholds_of_run,
)
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CaseRun, Policy, WorkerSamples
from ratchet.core.records.verdict import Outcome, Total
from tests import examples, history_examples, pair_examples, reports

POLICY = Policy()
SAME = history_examples.STEADY
NOISE = (0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07)
BAR = pair_examples.bar()
FAR = Drift("1" * 40, 1.02)
"""Main is 2 % slower than the best commit."""
UNKNOWN = Drift("1" * 40, None)
GATE = GateRule(POLICY, 100, {})


@pytest.mark.parametrize(
    ("pairs", "at", "for_change"),
    [
        (1, (1,), 1),
        (3, (3,), 1),
        (6, (6,), 1),
        (7, (6, 7), 1),
        (8, (6, 8), 1),
        (12, (6, 8, 12), 1),
        (20, (6, 8, 12, 20), 1),
        (21, (6, 8, 12, 20, 21), 2),
        (26, (6, 8, 12, 20, 26), 2),
        (100, (6, 8, 12, 20, 26, 40, 64, 100), 5),
        (101, (6, 8, 12, 20, 26, 40, 64, 100, 101), 6),
        (200, (6, 8, 12, 20, 26, 40, 64, 100, 140, 196, 200), 8),
    ],
)
def test_looks(pairs: int, at: tuple[int, ...], for_change: int) -> None:
    """There are looks at 6, 8, 12, 20, 26, 40, 64 and 100 pairs, then at two fifths more each, and always at the last pair.

    A change may be believed from twenty pairs on.
    """
    assert looks(pairs) == at
    assert looks_for_change(pairs) == for_change


DECIDED = [
    # ratio, changes, pairs, drift, decided
    (1.001, {}, 6, None, True),
    (1.001, {}, 3, None, True),
    (0.97, {}, 6, None, True),
    (1.001, {"bound": 1.031}, 12, None, False),  # a slowdown is not ruled out with enough certainty
    (1.05, {}, 12, None, False),  # a change waits for twenty pairs
    (1.05, {}, 20, None, True),
    (0.9, {}, 12, None, False),  # it may be an improvement yet
    (0.9, {}, 20, None, True),
    (0.95, {}, 12, None, False),
    (0.951, {}, 6, None, True),
    (1.02, {"low": 1.0, "high": 1.04}, 64, None, False),  # across the gate
    (1.05, {"p_value": 0.01}, 64, None, False),  # slower without proof
    (1.05, {"sessions": (1.05,) * 4}, 64, None, False),
    (1.05, {"sessions_p_value": 0.01}, 64, None, False),
    (0.9, {"p_value": 0.01}, 64, None, False),
    (1.005, {"p_value": 0.2}, 12, FAR, False),  # it may be the part that makes it past the gate in all
    (1.005, {"p_value": 0.2}, 12, UNKNOWN, True),  # less than a quarter of the gate, and nothing known before it
    (1.008, {"p_value": 0.2}, 12, UNKNOWN, False),
    (1.005, {"p_value": 0.2}, 12, None, True),
    (1.005, {"p_value": 0.5}, 12, FAR, True),  # no sign of it
    (1.005, {"p_value": 0.2}, 40, FAR, True),  # enough pairs were spent on it
    (1.005, {"p_value": 0.005}, 12, FAR, True),  # a part for sure
    (1.003, {"p_value": 0.2}, 12, FAR, True),  # 2.3 % in all is not near the gate
]


@pytest.mark.parametrize(("ratio", "changes", "pairs", "drift", "decided"), DECIDED)
def test_is_decided(ratio: float, changes: dict[str, object], pairs: int, drift: Drift | None, *, decided: bool) -> None:
    """That nothing changed is believed at any look, a change from twenty pairs on, and what is neither takes more pairs."""
    seen = reports.comparison(ratio, pairs=pairs, **changes)
    assert is_decided(seen, BAR, drift) is decided


def test_undecided() -> None:
    """Cases that more pairs could decide are named; those without a reference, or decided, are not."""
    part = [1.012, *(1.004 + ratio - 1 for ratio in SAME[:11])]
    cases = [
        examples.compared(*SAME, name="a/same"),
        examples.compared(*NOISE, name="a/noise"),
        examples.compared(*(1.1 * ratio for ratio in SAME), name="a/slow"),
        examples.compared(*(1.1 * ratio for ratio in SAME[:12]), name="a/slow at twelve"),
        examples.compared(1.0, 1.0, name="a/two pairs"),
        examples.compared(*part[:6], name="a/part"),
        history_examples.new("a/new"),
        examples.compared(name="a/skipped", skipped="x"),
    ]
    assert GATE.undecided(cases) == {"a/noise", "a/slow at twelve", "a/two pairs"}
    drifts = {"a/part": FAR, "a/same": FAR, "a/slow": FAR}
    assert GateRule(POLICY, 100, drifts).undecided(cases) == {"a/noise", "a/slow at twelve", "a/two pairs", "a/part"}
    assert GATE.undecided([]) == set()


def test_noise_that_persists_keeps_cases_open() -> None:
    """Where the cases of a run show together that noise persists, a change waits for more than its own pairs prove."""
    wave = [1 + 0.02 * math.sin(pair / 3) for pair in range(20)]
    slow = [1.06 * ratio for ratio in SAME[:20]]
    cases = [examples.compared(*wave, name=f"a/{turn}") for turn in range(6)]
    assert GATE.undecided([examples.compared(*slow, name="b/slow")]) == set()
    assert "b/slow" in GATE.undecided([*cases, examples.compared(*slow, name="b/slow")])


# Beyond the budget


def suspect(name: str, percent: float, pairs: int = 8, noise: float = 1.0) -> CaseRun:
    return examples.compared(*((1 + percent / 100) * (1 + noise * (ratio - 1)) for ratio in SAME[:pairs]), name=name)


def test_urgent() -> None:
    """Three cases that look slowest, and three that look fastest, are measured on, the largest change for sure first."""
    cases = [
        suspect("a/slow", 10),
        suspect("a/slower", 20),
        suspect("a/slowest", 30),
        suspect("a/little", 4),
        suspect("a/wide", 40, noise=155),  # the slowest on average, but its interval begins lower
        suspect("a/unchanged", 0),
        suspect("a/below the gate", 2),
        suspect("a/faster", -20),
        suspect("a/little faster", -4),
        *(suspect(f"a/{percent} less", -percent) for percent in (30, 40, 50)),
    ]
    assert GATE.urgent(cases) == ["a/slowest", "a/slower", "a/slow", "a/50 less", "a/40 less", "a/30 less"]
    assert GATE.urgent(cases[3:8]) == ["a/wide", "a/little", "a/faster"]
    assert GATE.urgent(cases[5:7]) == []


@pytest.mark.parametrize(("pairs", "most", "names"), [(12, 100, ["a"]), (20, 100, []), (8, 8, []), (6, 8, ["a"])])
def test_urgent_cases_lack_pairs(pairs: int, most: int, names: list[str]) -> None:
    """A case with the pairs that a regression takes, or with all that may be taken, is not measured beyond the budget."""
    assert GateRule(POLICY, most, {}).urgent([suspect("a", 10, pairs)]) == names


def test_urgent_cases_lack_sessions() -> None:
    """Of eleven cases, each needs the pairs of seven sessions, which are looked at with 26 pairs."""
    others = [suspect(f"b/{number}", 0) for number in range(10)]
    for pairs, names in ((20, ["a"]), (26, [])):
        ratios = [1.1 * SAME[pair % 8] for pair in range(pairs)]
        assert GATE.urgent([examples.compared(*ratios, name="a"), *others]) == names


@pytest.mark.parametrize(
    ("percent", "pairs", "settled"), [(0, 6, True), (0, 5, False), (5, 6, False), (2.9, 6, False), (-5, 6, True)]
)
def test_kernels_that_are_known_not_to_be_slower(percent: float, pairs: int, settled: bool) -> None:
    """They are settled as a case is that is unchanged: with an interval below the gate. Other cases have no kernels to time."""
    case = examples.waiting(examples.compared(*SAME[:pairs], name="a/waits"), head=1.0, reference=1.0)
    head = 0.4 * (1 + percent / 100)
    timed = examples.with_kernels(case, head=lambda pair: head * (1 + 2e-3 * (pair % 2)), reference=lambda _: 0.4)
    cases = [timed, suspect("a/no kernels", 0)]
    assert GATE.kernels_settled(cases) == ({"a/waits"} if settled else set())


def test_no_case_without_an_interval_is_urgent() -> None:
    """A case that chance explains, that has two pairs or no reference asks for nothing."""
    wild = examples.compared(0.8, 1.4, 0.9, 1.5, 0.85, 1.2, name="a/wild")
    assert GATE.urgent([wild, suspect("a/two", 50, 2), history_examples.new("a/new")]) == []


def test_likely_changed() -> None:
    """Before there are pairs for a verdict, a case is worth a profile if interval and estimate are past a gate on one side."""
    cases = [
        suspect("a/slower", 10, 8),
        suspect("a/much faster", -40, 8),
        suspect("a/wide", 10, 8, noise=300),
        suspect("a/below the gate", 2, 8),
        suspect("a/unchanged", 0, 8),
        suspect("a/two", 50, 2),
        history_examples.new("a/new"),
    ]
    assert likely_changed(cases, POLICY) == ["a/much faster", "a/slower"]
    assert likely_changed([suspect("a/wide", -10, 8, noise=300), suspect("a/little faster", -2, 8)], POLICY) == []


def at_its_own_thresholds(case: CaseRun) -> Policy:
    """A policy whose gate, or whose threshold of an improvement, is exactly what the case changed by, typically or in all."""
    found = compared(case, 0.95)
    slower = max(found.ratio, found.total.ratio)
    return Policy(regression=slower - 1) if slower > 1 else Policy(improvement=1 - found.ratio)


@pytest.mark.parametrize(("percent", "looks_changed"), [(10, False), (-10, True)])
def test_exactly_at_a_threshold(percent: float, looks_changed: bool) -> None:
    """A slowdown of exactly the gate is worth a profile and no new hosts; an improvement of exactly its threshold is both."""
    case = suspect("a", percent)
    policy = at_its_own_thresholds(case)
    assert likely_changed([case], policy) == ["a"]
    assert GateRule(policy, 100, {}).changed([case]) == (["a"] if looks_changed else [])


# Slow now and then


def seen(name: str, slow: Sequence[float] = (), pairs: int = 8, light: int = 0) -> CaseRun:
    """A case of unchanged pairs and light ones, whose last processes on the head take these times as long in all calls."""
    of = pairs + light
    factors = [*([1.0] * (of - len(slow))), *slow]
    sides: dict[str, list[WorkerSamples]] = {"head": [], "reference": []}
    for pair, factor in enumerate(factors):
        ms = SAME[pair % 8]
        one = examples.blocks(pair, ms * factor, is_light=pair >= pairs)
        sides["head"].append(one)
        sides["reference"].append(examples.blocks(pair, 1.0, is_light=pair >= pairs))
    return examples.compared(name=name, **{side: tuple(workers) for side, workers in sides.items()})


@pytest.mark.parametrize(
    ("case", "opens"),
    [
        (seen("unchanged"), (True, False, False, False)),
        (seen("enough", light=52), (False, False, False, False)),
        (seen("one slow process in 59", [2.0], light=51), (True, True, True, False)),
        (seen("two", [2.0, 2.0], light=52), (False, True, True, False)),
        (seen("four of 120", [2.0] * 4, light=112), (False, False, True, True)),
        (seen("four of 180", [2.0] * 4, light=172), (False, False, False, True)),
        (seen("four of 240", [2.0] * 4, light=232), (False, False, False, False)),
        (seen("many", [2.0] * 16, light=52), (False, False, False, False)),  # slower already
        (suspect("slow", 10), (False, False, False, False)),
        (suspect("improved", -10, 20), (True, False, False, False)),
        (examples.compared(*NOISE, name="noise"), (False, False, False, False)),  # its pairs decide first
        (suspect("two pairs", 0, 2), (False, False, False, False)),
        (history_examples.new("new"), (False, False, False, False)),
    ],
    ids=lambda value: value.name if isinstance(value, CaseRun) else "",
)
def test_open_totals(case: CaseRun, opens: tuple[bool, ...]) -> None:
    """60 processes of every case that is not slower are looked at; 120, 180 and 240 of one that looks slow now and then."""
    assert PROCESSES == (60, 120, 180, 240)
    for look, is_open in enumerate(opens):
        assert GATE.totals([case], look) == ({case.name} if is_open else set())


def test_a_process_that_is_slow_keeps_a_total_open() -> None:
    """The head's slow processes keep a total open also where they make the mean longer by less than the gate."""
    one, other = (seen(name, [1.3], light=32) for name in ("head", "reference"))
    swapped = other.model_copy(update={"head": other.reference, "reference": other.head})
    assert GATE.totals([one, swapped], 1) == {"head"}


@pytest.mark.parametrize(
    ("level", "opens"), [(0.51, "   "), (0.49, "2  "), (0.31, "2  "), (0.29, "23 "), (0.11, "23 "), (0.09, "234")]
)
def test_totals_are_open_up_to_a_level(level: float, opens: str) -> None:
    """A total that chance explains is not looked at again: half of them at the second number, nine in ten at the fourth."""
    total = Total(ratio=1.1, low=0.9, high=1.3, p_value=level, processes=39)
    case = reports.comparison(1.0).model_copy(update={"total": total})
    assert [is_total_open(case, BAR, look) for look in (1, 2, 3)] == [mark != " " for mark in opens]


@pytest.mark.parametrize(
    ("total", "bound", "is_open"),
    [
        ({"slow_processes": (4, 0), "process_factor": 1.5}, 1.02, True),
        ({"slow_processes": (4, 4), "process_factor": 1.5}, 1.02, True),  # those of the reference may be noise
        ({"slow_processes": (1, 0), "process_factor": 1.1}, 1.02, False),  # all of them add 1 % at most
        ({"slow_processes": (4, 0), "process_factor": 1.5}, 1.03, False),  # its pairs decide first
        ({"ratio": 1.03}, 1.02, False),
        ({"ratio": 1.0301}, 1.02, True),
        ({"ratio": 1.0301, "p_value": 0.5}, 1.02, True),
    ],
)
def test_what_keeps_a_total_open(total: dict[str, object], bound: float, is_open: bool) -> None:
    """More processes are looked at where the mean is past the gate, or slow ones of the head may bring it there."""
    mean = Total(**({"ratio": 1.01, "low": 0.9, "high": 1.3, "p_value": 0.05, "processes": 40} | total))
    case = reports.comparison(1.0, bound=bound).model_copy(update={"total": mean})
    assert is_total_open(case, BAR, 1) is is_open


@pytest.mark.parametrize(
    ("ratio", "chance", "decided"), [(1.0301, 0.05, False), (1.0301, 0.051, True), (1.03, 0.001, True), (1.5, 1e-12, True)]
)
def test_a_mean_keeps_a_case_open(ratio: float, chance: float, decided: bool) -> None:
    """An unchanged case takes more pairs while its mean is past the gate with a p-value of 5 %, and until it is red."""
    total = Total(ratio=ratio, low=1.01, high=1.6, p_value=chance, sessions_p_value=chance, processes=20)
    assert is_decided(reports.comparison(1.0).model_copy(update={"total": total}), BAR, None) is decided


def test_a_mean_that_the_clock_may_have_moved_keeps_a_case_open() -> None:
    """A mean that is past the gate by less than the step of the clock is unchanged so far, and more pairs may tell."""
    total = Total(ratio=1.035, low=1.01, high=1.06, p_value=0.05, processes=20)
    case = reports.comparison(1.0).model_copy(update={"total": total, "resolution": 0.01})
    assert decide(case, BAR)[0] is Outcome.UNCHANGED
    assert not is_decided(case, BAR, None)


# Hosts that are started anew


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (suspect("slower", 3.1), True),
        (suspect("at the gate", 2.9), False),
        (suspect("faster", -5.01), True),
        (suspect("a little faster", -4.9), False),
        (examples.compared(1.5, 1.0, 1.6, 0.9, name="perhaps"), True),  # an estimate is enough
        (suspect("two pairs", 50, 2), False),
        (seen("one process in eight", [1.4]), True),
        (seen("the mean of light ones", [2.0, 2.0], light=32), True),
        (history_examples.new("new"), False),
    ],
    ids=lambda value: value.name if isinstance(value, CaseRun) else "",
)
def test_look_changed(case: CaseRun, changed: bool) -> None:
    """A case looks changed if the estimate of its typical time, or its mean, is past a threshold; the mean counts if slower."""
    assert GATE.changed([case]) == ([case.name] if changed else [])


@pytest.mark.parametrize(("percent", "changed"), [(3.1, True), (2.9, False), (-50, False)])
def test_kernels_that_look_slower_are_a_change(percent: float, changed: bool) -> None:
    """So does a host-bound case whose kernels are slower, whatever the host hides; faster kernels alone change no verdict."""
    case = examples.waiting(suspect("a/waits", 0), head=1.0, reference=1.0)
    timed = examples.with_kernels(case, head=lambda _: 0.4 * (1 + percent / 100), reference=lambda _: 0.4)
    assert GATE.changed([timed]) == (["a/waits"] if changed else [])


def test_what_is_slow_now_and_then_is_urgent() -> None:
    """A mean that is slower for sure is as urgent as a typical time, and worth a profile."""
    calls = tuple(
        replace(one, blocks=tuple(replace(block, samples_ms=(*block.samples_ms[:2], 9.0)) for block in one.blocks))
        for one in suspect("a", 0).head
    )
    case = suspect("a/calls", 0).model_copy(update={"head": calls})
    assert likely_changed([case], POLICY) == ["a/calls"]
    assert GATE.urgent([suspect("a/slow", 10), case, suspect("a/same", 0)]) == ["a/calls", "a/slow"]


# Held to the best commit


def test_suspects() -> None:
    """Cases whose own slowdown may make them too slow in all are to be measured against the best commit, each under its own."""
    cases = [
        *(history_examples.timed(1.012, f"a/{letter}") for letter in "abc"),
        history_examples.timed(1.0, "a/same"),
        history_examples.timed(1.1, "a/red"),
        history_examples.timed(0.9, "a/fast"),
        history_examples.timed(1.012, "a/best"),
        history_examples.timed(1.005, "a/small"),
        history_examples.timed(1.005, "a/small and far"),
        history_examples.new("a/new"),
    ]
    drifts = {case.name: UNKNOWN for case in cases if case.name != "a/best"}
    drifts |= {"a/b": Drift("2" * 40, 1.015), "a/small and far": FAR}
    assert suspects(cases, POLICY, 100, drifts) == {"1" * 40: ["a/a", "a/c", "a/small and far"], "2" * 40: ["a/b"]}
    assert suspects(cases, POLICY, 100, {}) == {}


def test_a_head_without_times_makes_no_other_case_a_suspect() -> None:
    """A case that is red among those that were timed is none, however many heads could not be timed."""
    red, broken = suspect("a/red", 10, 20), suspect("a/broken", 0, 20).model_copy(update={"head": ()})
    assert suspects([red], POLICY, 100, {"a/red": FAR}) == {}
    assert suspects([red, broken], POLICY, 100, {"a/red": FAR}) == {}
    assert suspects([red, suspect("a/same", 0, 20)], POLICY, 100, {"a/red": FAR}) == {FAR.best: ["a/red"]}  # takes six sessions


def taken(case: CaseRun, pairs: int) -> CaseRun:
    return case.model_copy(update={"head": case.head[:pairs], "reference": case.reference[:pairs]})


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(12))
def test_what_stopped_a_case_is_its_verdict(seed: int) -> None:
    """A case that an early look decided has in the whole run, with the pairs of the other cases, the outcome seen then."""
    rng = np.random.default_rng(seed)
    shifts, most = rng.choice([1.0, 1.0, 1.01, 1.03, 1.04, 1.1, 0.96, 0.94, 0.85], 10), 40
    spreads = rng.choice([0.001, 0.004, 0.012, 0.03], 10)
    cases = [
        examples.compared(*(shift * np.exp(rng.normal(0, spread, most))), name=f"a/{index}")
        for index, (shift, spread) in enumerate(zip(shifts.tolist(), spreads.tolist(), strict=True))
    ]
    drifts = dict.fromkeys(("a/0", "a/1", "a/2", "a/3"), UNKNOWN)
    stopped, going, so_far = {}, {case.name for case in cases}, cases
    for count in looks(most):
        so_far = [taken(full, count) if full.name in going else now for full, now in zip(cases, so_far, strict=True)]
        still = GateRule(POLICY, most, drifts).undecided(so_far)
        seen = {case.name: compared(case, 0.95) for case in so_far}
        bar = thresholds_of_run(seen, POLICY, most)
        stopped |= {name: (seen[name], decide(seen[name], bar)[0]) for name in going - still}
        going &= still
    run = examples.run_of(*so_far, plan=examples.PLAN.model_copy(update={"pairs": most}))
    found = {case.name: case for case in judge_run(run, Baseline()).cases}
    assert len(stopped) >= 5
    for name, (comparison, outcome) in stopped.items():
        shown = found[name].comparison
        derived = {"detectable": None, "digits": comparison.digits}  # from the policy of the run
        assert shown.model_copy(update=derived) == comparison
        assert found[name].outcome is outcome
    assert not {found[name].outcome for name in going} & {Outcome.REGRESSED, Outcome.IMPROVED}
    listed = suspects(so_far, POLICY, most, drifts).get("1" * 40, [])
    assert all(found[name].outcome is not Outcome.REGRESSED for name in listed)


def test_a_rule_without_reasons_stops_at_its_first_look() -> None:
    """A plain rule times every case and goes on with none; `EveryPair` goes on with all that have a reference."""
    alone, compared_case = examples.compared(1.0, reference=(), name="a/alone"), examples.compared(1.0, name="a/x")
    cases = (alone, compared_case)
    plain, every = Rule((3, 9)), EveryPair((3, 9))
    assert plain.looks == every.looks == (3, 9)
    for rule in (plain, every):
        assert [*rule.urgent(cases), *rule.changed(cases), *rule.kernels_settled(cases), *rule.totals(cases, 0)] == []
        assert not any(rule.is_known(case) for case in cases)
    assert list(plain.undecided(cases)) == []
    assert list(every.undecided(cases)) == ["a/x"]
