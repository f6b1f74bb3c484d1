"""The search for the commit that changed a case, without measuring."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from ratchet.core.judge.rule import looks
from ratchet.core.records.run import Tree
from ratchet.history.bisection import (
    ERROR,
    CommitVerdict,
    End,
    SearchRecord,
    VerdictName,
    bounds,
    decision_threshold,
    differs,
    end_of,
    ends_of,
    level_of,
    next_place,
    search_lines,
)
from tests.examples import FINGERPRINT, PLAN
from tests.pair_examples import pairs
from tests.reports import comparison


def _walk(count: int, first_bad: int, skipped: set[int] | None = None) -> tuple[list[int], tuple[int, int]]:
    """Return the places that a search looks at, and the bounds at its end."""
    ends: dict[int, End] = {}
    looked_at: list[int] = []
    while (place := next_place(count, ends, looked_at)) is not None:
        looked_at.append(place)
        if place not in (skipped or ()):
            ends[place] = "bad" if place >= first_bad else "good"
    return looked_at, bounds(count, ends)


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_every_commit_can_be_found(count: int) -> None:
    """BAD comes first, then about log2 of the commits; the last good and the first bad one are neighbours."""
    for first_bad in range(count):
        looked_at, found = _walk(count, first_bad)
        assert looked_at[0] == count - 1
        assert found == (first_bad - 1, first_bad)
        assert len(looked_at) <= 2 + math.ceil(math.log2(count))


def test_skipped_commits_stay_suspects() -> None:
    """Commits beside the change that cannot be measured are looked at once each, and lie between the bounds."""
    looked_at, found = _walk(20, 12, skipped={10, 11, 12})
    assert found == (9, 13)
    assert len(looked_at) == len(set(looked_at))


def test_an_unlike_bad_ends_the_search() -> None:
    """Where BAD is as GOOD, or cannot be measured, nothing more is looked at."""
    assert next_place(8, {7: "good"}, ()) is None
    assert next_place(8, {}, {7}) is None
    assert next_place(8, {}, ()) == 7


def test_bounds_before_the_search_has_found_both_ends() -> None:
    """GOOD stands before the first place, BAD at the last one; a good commit after a bad one moves neither bound."""
    assert bounds(8, {}) == (-1, 7)
    assert bounds(8, {7: "good"}) == (-1, 7)
    assert bounds(8, {7: "bad"}) == (-1, 7)
    assert bounds(8, {7: "bad", 2: "bad", 5: "good", 0: "good"}) == (0, 2)


def test_all_levels_together_are_within_the_error() -> None:
    """However many commits are timed, and however often each is looked at, the errors add up to at most the one allowed."""
    most = [level_of(ERROR, number, 100) * 5 for number in range(1, 10_000)]
    assert 0.99 * ERROR < sum(most) < ERROR


SLOW = tuple(0.03 + 0.001 * (index % 4) for index in range(20))


def test_a_commit_is_like_one_end() -> None:
    """A commit is like the end on whose side of the middle it is; where GOOD is slower, it is the other way round."""
    slow, as_good = pairs(SLOW), pairs([log - 0.03 for log in SLOW])
    assert (end_of(slow, 0.015, 1e-4), end_of(as_good, 0.015, 1e-4)) == ("bad", "good")
    faster, again = pairs([-log for log in SLOW]), pairs([0.03 - log for log in SLOW])
    assert (end_of(faster, -0.015, 1e-4), end_of(again, -0.015, 1e-4)) == ("bad", "good")
    assert end_of(pairs([log - 0.0165 for log in SLOW]), 0.015, 1e-4) is None
    assert differs(slow, 1e-4)
    assert differs(faster, 1e-4)
    assert not differs(pairs([(-1) ** index * log for index, log in enumerate(SLOW)]), 1e-4)


def test_what_it_takes() -> None:
    """Nineteen pairs show nothing, nor do pairs of three sessions, of hosts that do not agree, or a test that chance explains."""
    assert end_of(pairs(SLOW)[:19], 0.015, 1e-4) is None
    of_three = [replace(pair, session=pair.session % 3) for pair in pairs(SLOW)]
    assert end_of(of_three, 0.015, 1e-4) is None
    assert end_of([replace(pair, session=pair.session % 4) for pair in pairs(SLOW)], 0.015, 1e-4) == "bad"
    disagree = [replace(pair, log_ratio=pair.log_ratio + 0.2 * (pair.session == 2)) for pair in pairs(SLOW)]
    assert end_of(disagree, 0.015, 1e-4) is None
    assert end_of(pairs([0.5 * (-1) ** (index % 3) + log for index, log in enumerate(SLOW)]), 0.015, 1e-4) is None
    assert end_of(pairs(SLOW), 0.015, 2**-20) == "bad"
    assert end_of(pairs(SLOW), 0.015, 1e-7) is None  # below 2⁻²⁰


@pytest.mark.parametrize(("level", "found"), [(2 * 2**-20, True), (1.9 * 2**-20, False)])
def test_either_way_takes_half_of_the_level(level: float, found: bool) -> None:
    """BAD may be slower or faster than GOOD, so each of these may err half as often: twenty pairs that agree have p = 2⁻²⁰."""
    for sign in (1, -1):
        assert differs(pairs([sign * 0.03] * 20), level) is found


@pytest.mark.no_cover
def test_more_pairs_show_more() -> None:
    """A change of 2 % in pairs that scatter by 1 % is shown by 100 pairs at the latest, however many hosts they come from."""
    rng, level = np.random.default_rng(4), level_of(ERROR, 3, 100)
    shown = [end_of(pairs(0.02 + rng.normal(0, 0.01, 100)), 0.01, level) for _ in range(60)]
    assert shown == ["bad"] * 60


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_search_in_noise_names_the_right_commit() -> None:
    """Of 200 searches for 2 % among 32 commits, with 1 % of noise in a pair and outliers, none names a wrong commit."""
    rng = np.random.default_rng(11)
    wrong = sum(_simulated(rng, 32, 0.02, 0.01) for _ in range(200))
    assert wrong == 0


def _simulated(rng: np.random.Generator, count: int, change: float, noise: float) -> bool:
    """Return whether a search among ``count`` commits ends with one that it has no reason to name."""
    first_bad, half = int(rng.integers(count)), 0.0
    ends: dict[int, End] = {}
    looked_at: list[int] = []
    while (place := next_place(count, ends, looked_at)) is not None:
        looked_at.append(place)
        values = (change if place >= first_bad else 0.0) + rng.normal(0, noise, 100)
        values += np.where(rng.random(100) < 0.02, rng.uniform(-0.3, 0.3, 100), 0)
        level = level_of(ERROR, len(looked_at), 100)
        for taken in looks(100):
            seen = pairs(values[:taken])
            if place == count - 1:
                end: End | None = "bad" if differs(seen, level) else None
                half = float(np.median(values[:taken])) / 2
            else:
                end = end_of(seen, half, level)
            if end:
                ends[place] = end
                break
    low, high = bounds(count, ends)
    return bool(ends) and not low < first_bad <= high


def _search(*verdicts: tuple[int, VerdictName, float | None], **changes: object) -> SearchRecord:
    trees = [Tree(commit=f"{place:x}" * 40, subject=f"commit {place}") for place in range(5)]
    looked_at = tuple(
        CommitVerdict(tree=trees[place], verdict=verdict, reason="Because.", comparison=comparison(ratio) if ratio else None)
        for place, verdict, ratio in verdicts
    )
    fields = {
        "case": "norm/rows", "good": trees[0], "bad": trees[4], "benchmarks": "b", "fingerprint": FINGERPRINT,
        "plan": PLAN, "error": 0.01,
        "commits": tuple(tree.commit for tree in trees[1:]), "looked_at": looked_at,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC), "command": ("ratchet", "bisect"),
    }  # fmt: skip
    return SearchRecord.model_validate(fields | changes)


def test_the_ends_that_are_known() -> None:
    """Commits count by their place after GOOD; one that was undecided and came again counts as it was found then."""
    assert ends_of(_search((4, "bad", 1.1), (2, "undecided", 1.05), (3, "skipped", None))) == {3: "bad"}
    assert ends_of(_search((4, "bad", 1.1), (2, "undecided", 1.05), (2, "good", 1.0))) == {3: "bad", 1: "good"}


def test_the_middle_lies_half_way_to_bad() -> None:
    """Half of BAD's change, as a log, is what tells one end from the other; without times of BAD it is no change."""
    undecided = (4, "undecided", 1.3)
    for verdicts in (((4, "bad", 1.21), (2, "good", 1.05)), ((3, "bad", 1.5), undecided, (4, "bad", 1.21))):
        assert decision_threshold(_search(*verdicts)) == pytest.approx(math.log(1.1))
    assert decision_threshold(_search((4, "bad", None))) == 0.0


def test_the_lines_end_with_commands() -> None:
    """A found commit comes with its diff, the search that shows it again, and one for each part of the change elsewhere."""
    found, parent = (Tree(commit=f"{place:x}" * 40, subject=f"commit {place}") for place in (3, 2))
    search = _search((4, "bad", 1.10), (2, "good", 1.04), (3, "bad", 1.10), suspects=(found,), parent=parent)
    lines = list(search_lines(search))
    assert "This commit made norm/rows slower:" in lines
    assert '  3333333333 "commit 3"' in lines
    assert "Read it:     git diff 2222222222 3333333333" in lines
    assert any(line.endswith("ratchet bisect norm/rows 0000000000 2222222222") for line in lines)
    assert not any("elsewhere" in line and "4444444444" in line for line in lines)
