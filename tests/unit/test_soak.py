"""Decisions about unchanged code → a rate with exact bounds; the files that keep them."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ratchet.core.errors import OutputError, RecordError
from ratchet.core.judge.estimate import share_bounds
from ratchet.core.records.environment import Environment
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Outcome
from ratchet.trust.judge import Meter, meters
from ratchet.trust.records import SoakCase, SoakCheck, append_check, load_checks
from ratchet.trust.report import soak_lines
from ratchet.trust.soak import nearest_slowdown
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


def with_case(number: int = 0, **changes: Any) -> SoakCheck:
    """A check whose one case differs in this."""
    made = check(number)
    return made.model_copy(update={"cases": (made.cases[0].model_copy(update=changes),)})


def test_a_meter_names_its_machine_and_counts_every_answer() -> None:
    """The outcomes that came most often stand first, and pairs that were left out are added up."""
    found = meter([with_case(0, outcome=Outcome.FAILED, ratio=None), *(with_case(number, outliers=2) for number in (1, 2, 3))])
    fingerprint = examples.ENVIRONMENT.fingerprint
    assert (found.fingerprint, found.device) == (fingerprint.key, fingerprint.processor)
    assert list(found.answers.items()) == [(Outcome.UNCHANGED, 3), (Outcome.FAILED, 1)]
    (case,) = found.cases
    assert (case.outliers, case.pairs, case.red.count, case.red.of) == (6, 6, 1, 4)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_the_slowdown_has_an_interval_by_student_s_t(count: int) -> None:
    """Half of its width is that of a mean of logs; one check has none."""
    ratios = [1 + 0.01 * number for number in range(count)]
    (case,) = meter(with_case(number, ratio=ratio) for number, ratio in enumerate(ratios)).cases
    logs = np.log(ratios)
    assert case.slower == pytest.approx(math.expm1(logs.mean()))
    assert case.slower_error == pytest.approx(stats.t.ppf(0.975, count - 1) * stats.sem(logs))
    assert meter([check()]).cases[0].slower_error is None


def test_a_case_without_times_has_no_figures() -> None:
    """A case that only failed is red each time, with no time, no smallest slowdown and no drift."""
    (case,) = meter(with_case(number, outcome=Outcome.FAILED, ratio=None, reference_ms=None) for number in range(8)).cases
    assert (case.red.count, case.spread, case.mde, case.pairs, case.slower) == (8, 0.0, None, 0.0, 0.0)
    assert (case.slower_error, case.drift) == (None, None)
    assert meter(with_case(number, spread=None) for number in range(3)).cases[0].spread == 0.0


def test_the_drift_is_that_of_the_newest_commit() -> None:
    """Times of an earlier commit do not count; it takes eight checks, two in each quarter."""
    earlier = [with_case(number, reference_ms=9.0).model_copy(update={"code": examples.REFERENCE}) for number in range(8)]
    times = (1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 1.1, 1.1)
    later = [with_case(8 + number, reference_ms=time_ms) for number, time_ms in enumerate(times)]
    assert meter([*earlier, *later]).cases[0].drift == pytest.approx(0.1)
    assert meter([*earlier, *later[:7]]).cases[0].drift is None


def test_only_slowed_cases_can_be_caught() -> None:
    """The other cases of a check in which some were slowed count neither as caught nor as missed."""
    slowed = check(red=True, planted=0.2)
    other = slowed.cases[0].model_copy(update={"name": "adds/other", "outcome": Outcome.UNCHANGED, "planted": 0.0})
    found = meter([slowed.model_copy(update={"cases": (*slowed.cases, other)})])
    assert (found.caught.count, found.caught.of, [case.name for case in found.cases]) == (1, 1, ["adds/small"])


def test_machines_are_never_pooled() -> None:
    """Each fingerprint has figures of its own."""
    other = examples.CPU_ENVIRONMENT
    found = meters([*map(check, range(10)), *(check(number, environment=other) for number in range(5))])
    assert sorted(one.red.of for one in found) == [5, 10]


def test_more_red_than_promised() -> None:
    """Two red of a hundred are more than one in a thousand, beyond chance; one of a hundred may be bad luck."""
    assert meter(check(number, red=number == 7) for number in range(100)).holds
    broken = meter(check(number, red=number in (7, 8)) for number in range(100))
    assert not broken.holds
    assert any("More are red than promised" in line for line in soak_lines([broken]))


def test_a_check_that_measured_nothing_is_no_evidence() -> None:
    """A check whose cases could not be measured does not count among those that were not red."""
    unfit = check(1).model_copy(update={"exit_code": 3, "cases": (SoakCase(name="adds/small", outcome=Outcome.UNFIT),)})
    found = meter([check(0), unfit])
    assert (found.red.of, found.without_verdict) == (1, 1)


def test_lines_survive_a_kill(tmp_path: Path) -> None:
    """What was written stays readable whatever is cut off; the line after a cut is whole."""
    path = tmp_path / "soak" / "x.jsonl"
    append_check(path, check(0))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    assert load_checks(path) == [check(0)]
    append_check(path, check(1))
    assert load_checks(path) == [check(0), check(1)]


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes a part of a line refuses the rest, which is an error, and not a check that nobody counts."""
    parts = iter([100])

    def write(descriptor: int, content: bytes, real: Any = os.write) -> int:
        for part in parts:
            return int(real(descriptor, content[:part]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OutputError, match="No space left"):
        append_check(tmp_path / "x.jsonl", check(0))
    assert load_checks(tmp_path / "x.jsonl") == []


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
    path.write_text("{," + path.read_text(encoding="utf-8")[1:], encoding="utf-8")
    with pytest.raises(RecordError, match=r"x\.jsonl, line 1: Invalid JSON: "):
        load_checks(path)


@pytest.mark.parametrize(("share", "calls", "more"), [(0.035, 29, 1), (0.2, 20, 4), (1.0, 20, 20), (0.005, 200, 1)])
def test_planted_slowdowns(share: float, calls: int, more: int) -> None:
    """The nearest slowdown of the form 1/n, over twenty calls at least."""
    planted = nearest_slowdown(share)
    assert (planted.calls, planted.more) == (calls, more)
    assert planted.more / planted.calls == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(("share", "planted"), [(0.7, 1 / 2), (0.41, 1 / 3), (0.8, 1.0)])
def test_large_slowdowns_are_the_nearest_too(share: float, planted: float) -> None:
    """Between 1/n and 1/(n + 1), the nearer one is planted, not that of the nearer n."""
    assert nearest_slowdown(share).more / nearest_slowdown(share).calls == pytest.approx(planted)
