"""When pairs are looked at, and what is worth more of them."""

from __future__ import annotations

import examples
import numpy as np
import pytest

from ratchet.judge.drift import adds_up
from ratchet.judge.looks import is_decided, looks, looks_for_change, suspects, undecided
from ratchet.judge.outcome import compared, decide
from ratchet.judge.verdict import judge_run
from ratchet.records import Baseline, CaseRun, Outcome, Policy

POLICY = Policy()
SAME = examples.STEADY
NOISE = (0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07)


@pytest.mark.parametrize(
    ("pairs", "at", "for_change"),
    [
        (1, (1,), 1),
        (3, (3,), 1),
        (6, (6,), 1),
        (7, (6, 7), 1),
        (8, (6, 8), 1),
        (10, (6, 8, 10), 2),
        (12, (6, 8, 12), 2),
        (20, (6, 8, 12, 16, 20), 4),
        (21, (6, 8, 12, 16, 20, 21), 5),
        (28, (6, 8, 12, 16, 20, 28), 5),
        (100, (6, 8, 12, 16, 20, 28, 40, 56, 78, 100), 9),
    ],
)
def test_looks(pairs: int, at: tuple[int, ...], for_change: int) -> None:
    """There are looks at 6, 8, 12, 16 and 20 pairs, then at two fifths more each, and always at the last pair."""
    assert looks(pairs) == at
    assert looks_for_change(pairs) == for_change


def test_looks_grow() -> None:
    """Looks grow, end at the last pair, and are even before it, so that each side began equally often."""
    for pairs in range(1, 300):
        numbers = looks(pairs)
        assert list(numbers) == sorted(set(numbers))
        assert numbers[-1] == pairs
        assert all(number % 2 == 0 for number in numbers[:-1])
        assert 1 <= looks_for_change(pairs) <= len(numbers)


DECIDED = [
    # ratio, changes, pairs, drifts, decided
    (1.001, {}, 6, False, True),
    (1.001, {}, 3, False, True),
    (0.97, {}, 6, False, True),
    (1.05, {}, 6, False, False),  # a change waits for eight pairs
    (1.05, {}, 8, False, True),
    (0.9, {}, 6, False, False),
    (0.9, {}, 8, False, True),
    (1.02, {"low": 1.0, "high": 1.04}, 20, False, False),  # across the gate
    (1.05, {"chance": 0.01}, 8, False, False),  # chance is not ruled out
    (0.9, {"chance": 0.01}, 8, False, False),  # it may be an improvement yet
    (0.94, {"chance": 0.01}, 20, False, False),
    (1.01, {"chance": 0.01}, 8, True, False),  # it may be a part of something larger
    (1.01, {"chance": 0.01}, 8, False, True),
    (1.01, {"chance": 0.06}, 8, True, True),  # no sign of it
    (1.007, {"chance": 0.01}, 8, True, True),  # less than a quarter of the gate
    (1.01, {"chance": 0.0}, 8, True, True),  # a part for sure
    (1.01, {"chance": 0.0}, 6, True, False),  # but that is a change too, and waits for eight pairs
]


@pytest.mark.parametrize(("ratio", "changes", "pairs", "drifts", "decided"), DECIDED)
def test_is_decided(ratio: float, changes: dict[str, float], pairs: int, *, drifts: bool, decided: bool) -> None:
    """That nothing changed is believed at any look, a change from eight pairs on, and what is neither takes more pairs."""
    seen = examples.comparison(ratio, pairs=pairs, **changes)
    assert is_decided(seen, POLICY.shared(1, 4), 20, drifts=drifts) is decided


@pytest.mark.parametrize("ratio", [1.05, 0.9])
def test_a_plan_of_few_pairs_decides_at_the_last(ratio: float) -> None:
    """Where fewer than eight pairs are planned, a change is believed when all of them are there."""
    assert not is_decided(examples.comparison(ratio, pairs=4), POLICY, 5)
    assert is_decided(examples.comparison(ratio, pairs=5), POLICY, 5)
    assert is_decided(examples.comparison(1.01, pairs=5), POLICY, 5, drifts=True)


def test_undecided() -> None:
    """Cases that more pairs could decide are named; those without a reference, or decided, are not."""
    cases = [
        examples.compared(*SAME, name="a/same"),
        examples.compared(*NOISE, name="a/noise"),
        examples.compared(*(1.1 * ratio for ratio in SAME), name="a/slow"),
        examples.compared(*(1.1 * ratio for ratio in SAME[:6]), name="a/slow at six"),
        examples.compared(1.0, 1.0, name="a/two pairs"),
        examples.compared(*(1.012 + ratio - 1 for ratio in (1.008, 0.992, 1.0) * 2 + (1.0, 1.0)), name="a/part"),
        examples.new("a/new"),
        examples.compared(name="a/skipped", skipped="x"),
    ]
    assert undecided(cases, POLICY, 20) == {"a/noise", "a/slow at six", "a/two pairs"}
    assert undecided(cases, POLICY, 20, {"a/part", "a/same"}) == {"a/noise", "a/slow at six", "a/two pairs", "a/part"}
    assert undecided([], POLICY, 20) == set()


def test_suspects() -> None:
    """Cases slowed by a part that counts and not red yet are to be measured against the best commit, each under its own."""
    cases = [
        *(examples.timed(1.012, f"a/{letter}") for letter in "abc"),
        examples.timed(1.0, "a/same"),
        examples.timed(1.1, "a/red"),
        examples.timed(0.9, "a/fast"),
        examples.timed(1.012, "a/best"),
        examples.new("a/new"),
    ]
    best = {case.name: "2" * 40 if case.name == "a/b" else "1" * 40 for case in cases if case.name != "a/best"}
    assert suspects(cases, POLICY, 20, best) == {"1" * 40: ["a/a", "a/c"], "2" * 40: ["a/b"]}
    assert suspects(cases, POLICY, 20, {}) == {}


def taken(case: CaseRun, pairs: int) -> CaseRun:
    return case.model_copy(update={"head": case.head[:pairs], "reference": case.reference[:pairs]})


@pytest.mark.parametrize("seed", range(12))
def test_what_stopped_a_case_is_its_verdict(seed: int) -> None:
    """A case that an early look decided has in the whole run, where others may leave it more room, the outcome seen then."""
    rng = np.random.default_rng(seed)
    shifts, most = rng.choice([1.0, 1.0, 1.01, 1.03, 1.04, 1.1, 0.96, 0.94, 0.85], 10), 20
    spreads = rng.choice([0.001, 0.004, 0.012, 0.03], 10)
    cases = [
        examples.compared(*(shift * np.exp(rng.normal(0, spread, most))), name=f"a/{index}")
        for index, (shift, spread) in enumerate(zip(shifts.tolist(), spreads.tolist(), strict=True))
    ]
    drifting = {"a/0", "a/1", "a/2", "a/3"}
    each, stopped, going, so_far = POLICY.shared(10, looks_for_change(most)), {}, {case.name for case in cases}, cases
    for count in looks(most):
        so_far = [taken(full, count) if full.name in going else now for full, now in zip(cases, so_far, strict=True)]
        still = undecided(so_far, POLICY, most, drifting)
        for case in so_far:
            if case.name in going - still:
                seen = compared(case, 0.95)
                assert seen is not None
                stopped[case.name] = (seen, decide(seen, each)[0], adds_up(seen, each))
        going &= still
    run = examples.run_of(*so_far, plan=examples.PLAN.model_copy(update={"pairs": most}))
    found = {case.name: case for case in judge_run(run, Baseline()).cases}
    assert len(stopped) >= 5
    for name, (seen, outcome, _) in stopped.items():
        assert (found[name].comparison, found[name].outcome) == (seen, outcome)
    assert {found[name].outcome for name in going} <= {
        Outcome.INCONCLUSIVE,
        Outcome.UNCHANGED,
        Outcome.REGRESSED,
        Outcome.IMPROVED,
    }
    assert set(suspects(so_far, POLICY, most, dict.fromkeys(drifting, "1" * 40)).get("1" * 40, [])) >= {
        name for name, (_, outcome, part) in stopped.items() if name in drifting and part and outcome is not Outcome.REGRESSED
    }
