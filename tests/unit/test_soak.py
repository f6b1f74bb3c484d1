"""Decisions about unchanged code → a rate with exact bounds; the files that keep them; the badge."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from scipy import stats

from ratchet.core.errors import RecordError
from ratchet.core.judge.estimate import share_bounds
from ratchet.core.records.environment import Environment
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Outcome
from ratchet.trust.judge import Meter, all_unchanged, meters
from ratchet.trust.records import SoakCase, SoakCheck, append_check, load_checks
from ratchet.trust.report import badge, soak_json, soak_lines
from tests import examples


def check(
    number: int = 0, *, red: bool = False, planted: float = 0.0, environment: Environment = examples.ENVIRONMENT
) -> SoakCheck:
    ratio = 1 + planted + 0.001 * (-1) ** number
    case = SoakCase(
        name="adds/small",
        outcome=Outcome.REGRESSED if red else Outcome.UNCHANGED,
        planted=planted,
        reference_ms=1 + number / 1000,
        ratio=ratio,
        low=ratio - 0.002,
        high=ratio + 0.002,
        spread=0.004,
        detectable=0.01,
        pairs=6,
    )
    return SoakCheck(
        started_at=examples.STARTED + timedelta(minutes=number),
        wall_s=30,
        environment=environment,
        policy=Policy(),
        code=examples.HEAD,
        planted=planted,
        exit_code=int(red),
        headline="…",
        cases=(case,),
    )


def meter(checks: Iterable[SoakCheck]) -> Meter:
    (found,) = meters(checks)
    return found


@pytest.mark.parametrize(("count", "of"), [(0, 37), (1, 37), (3, 400), (37, 37), (0, 1)])
def test_bounds_are_exact(count: int, of: int) -> None:
    """At the upper bound so few are seen in one of twenty soaks, at the lower one so many: as the binomial distribution says."""
    low, high = share_bounds(count, of)
    assert count == of or stats.binom.cdf(count, of, high) == pytest.approx(0.05)
    assert count == 0 or stats.binom.sf(count - 1, of, low) == pytest.approx(0.05)
    assert low <= count / of <= high


def test_nothing_seen_bounds_nothing() -> None:
    """No check at all leaves every share possible."""
    assert share_bounds(0, 0) == (0.0, 1.0)


def test_what_a_soak_counts() -> None:
    """37 checks of unchanged code without a red one bound the rate below 8 %; what was planted is counted by itself."""
    unchanged, slowed = meters(
        [*map(check, range(37)), *(check(number, red=number != 3, planted=1 / 29) for number in range(37))]
    )
    assert (unchanged.red.count, unchanged.red.of, unchanged.planted) == (0, 37, 0)
    assert unchanged.red.high == pytest.approx(0.078, abs=1e-3)
    assert (slowed.caught.count, slowed.caught.of, slowed.planted) == (36, 37, 1 / 29)
    (case,) = unchanged.cases
    assert (case.mde, case.spread, case.pairs) == (0.01, 0.004, 6)
    assert case.slower == pytest.approx(0, abs=1e-4)
    assert case.drift == pytest.approx(0.028, abs=1e-3)
    assert slowed.cases[0].slower == pytest.approx(1 / 29, abs=1e-3)


def test_only_slowed_cases_can_be_caught() -> None:
    """The other cases of a check in which some were slowed count neither as caught nor as missed."""
    slowed = check(red=True, planted=0.2)
    other = slowed.cases[0].model_copy(update={"name": "adds/other", "outcome": Outcome.UNCHANGED, "planted": 0.0})
    found = meter([slowed.model_copy(update={"cases": (*slowed.cases, other)})])
    assert (found.caught.count, found.caught.of, [case.name for case in found.cases]) == (1, 1, ["adds/small"])


def test_machines_are_never_pooled() -> None:
    """Each fingerprint has figures of its own; only the count of red checks on the badge is of all."""
    other = examples.CPU_ENVIRONMENT
    found = meters([*map(check, range(10)), *(check(number, environment=other) for number in range(5))])
    assert sorted(one.red.of for one in found) == [5, 10]
    assert all_unchanged(found).of == 15


def test_more_red_than_promised() -> None:
    """Two red of a hundred are more than one in a thousand, beyond chance; one of a hundred may be bad luck."""
    assert meter(check(number, red=number == 7) for number in range(100)).holds
    broken = meter(check(number, red=number in (7, 8)) for number in range(100))
    assert not broken.holds
    assert badge([broken])["color"] == "red"
    assert any("More are red than promised" in line for line in soak_lines([broken]))


def test_a_check_that_measured_nothing_is_no_evidence() -> None:
    """A check whose cases could not be measured does not count among those that were not red."""
    unfit = check(1).model_copy(update={"exit_code": 3, "cases": (SoakCase(name="adds/small", outcome=Outcome.UNFIT),)})
    found = meter([check(0), unfit])
    assert (found.red.of, found.without_verdict) == (1, 1)


def test_the_badge() -> None:
    """It says how many checks of unchanged code were red, and below what their share is; nothing is not green."""
    found = meters(map(check, range(37)))
    assert badge(found) == {
        "schemaVersion": 1,
        "label": "false alarms",
        "message": "0 of 37 checks, below 7.8 %",
        "color": "brightgreen",
    }
    assert badge([])["color"] == "lightgrey"
    assert soak_json(found)[0]["holds"]


def test_lines_survive_a_kill(tmp_path: Path) -> None:
    """What was written stays readable whatever is cut off; the line after a cut is whole."""
    path = tmp_path / "soak" / "x.jsonl"
    append_check(path, check(0))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    assert load_checks(path) == [check(0)]
    append_check(path, check(1))
    assert load_checks(path) == [check(0), check(1)]


def test_a_line_of_an_earlier_release(tmp_path: Path) -> None:
    """A field that is no longer written is still taken."""
    path = tmp_path / "x.jsonl"
    append_check(path, check(0))
    path.write_text(path.read_text(encoding="utf-8").replace('"pairs":6', '"pairs":6,"intensity":0.25'), encoding="utf-8")
    (found,) = load_checks(path)
    assert found.cases[0].intensity == 0.25


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    """A value that cannot be is refused with its line and field."""
    path = tmp_path / "x.jsonl"
    append_check(path, check(0))
    path.write_text(path.read_text(encoding="utf-8") * 2, encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace('"wall_s":30.0', '"wall_s":-1', 1), encoding="utf-8")
    with pytest.raises(RecordError, match=r"x\.jsonl, line 1: wall_s: "):
        load_checks(path)
