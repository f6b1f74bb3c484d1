"""Decisions about unchanged code, and about code that was slowed on purpose → how often the gate is wrong, with exact bounds.

`ratchet.trust.soak` reads the decisions that `ratchet doctor soak` kept, and calls `meters`. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ratchet.core.errors import Exit
from ratchet.core.judge.estimate import quantile, share_bounds
from ratchet.core.judge.verdict import RED
from ratchet.core.records.verdict import Outcome
from ratchet.trust.records import SoakCase, SoakCheck

SURE = 0.99
"""Confidence with which more checks of unchanged code are red than promised, before this is said."""
FEWEST_OF_PART = 2
"""Checks in the first and in the last quarter, at least, between which a drift is computed."""


@dataclass(frozen=True)
class Share:
    """A count with exact bounds of the share behind it: each holds with 95 % confidence."""

    count: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, count: int, of: int) -> Share:
        return cls(count, of, *share_bounds(count, of))


@dataclass(frozen=True)
class CaseMeter:
    """One case in all checks of a meter. Fractions: 0.002 is 0.2 %."""

    name: str
    red: Share
    """Checks with an answer for this case in which it was red."""
    spread: float
    """Median over checks of the standard deviation of one pair."""
    mde: float | None
    """Median over checks of the smallest slowdown that a check would call a regression four times in five."""
    pairs: float
    """Mean number of pairs that a check took."""
    outliers: int
    """Pairs that were left out as outliers, in all checks."""
    slower: float
    """Mean over checks of the head's slowdown; what was planted, if nothing favours a side."""
    slower_error: float | None
    """Half the width of its 95 % interval; None from one check."""
    drift: float | None
    """Change of the reference's own time from the first quarter of the newest commit's checks to the last."""


@dataclass(frozen=True)
class Meter:
    """All checks of one machine under one rule with one planted slowdown; 0: unchanged code."""

    fingerprint: str
    device: str
    gate: float
    false_alarm: float
    planted: float
    first: datetime
    last: datetime
    red: Share
    """Checks that gave a verdict and were red."""
    without_verdict: int
    """Checks in which no case could be measured."""
    caught: Share
    """Red answers about cases that were slowed. Those of one check are not quite independent of each other."""
    answers: dict[Outcome, int]
    cases: tuple[CaseMeter, ...]

    @property
    def holds(self) -> bool:
        """Return whether the checks of unchanged code are compatible with the promised share of false alarms."""
        return bool(self.planted) or share_bounds(self.red.count, self.red.of, SURE)[0] <= self.false_alarm


def meters(checks: Iterable[SoakCheck]) -> list[Meter]:
    """Return a meter for each machine, rule and planted slowdown; figures of different machines are never mixed."""
    groups: dict[tuple[str, float, float, float], list[SoakCheck]] = {}
    for check in sorted(checks, key=lambda check: check.started_at):
        rule = (check.policy.regression, check.policy.false_alarm)
        groups.setdefault((check.environment.fingerprint.key, *rule, check.planted), []).append(check)
    return [_meter(key[0], groups[key]) for key in sorted(groups)]


def _meter(fingerprint: str, checks: Sequence[SoakCheck]) -> Meter:
    verdicts = [check for check in checks if any(_answered(case) for case in check.cases)]
    answers = [case for check in verdicts for case in _counted(check)]
    names = dict.fromkeys(case.name for case in answers)
    newest = checks[-1]
    machine = newest.environment.fingerprint
    return Meter(
        fingerprint=fingerprint,
        device=machine.processor,
        gate=newest.policy.regression,
        false_alarm=newest.policy.false_alarm,
        planted=newest.planted,
        first=checks[0].started_at,
        last=newest.started_at,
        red=Share.counted(sum(check.exit_code == Exit.REGRESSION for check in verdicts), len(verdicts)),
        without_verdict=len(checks) - len(verdicts),
        caught=Share.counted(sum(case.outcome in RED for case in answers), len(answers)),
        answers=dict(Counter(case.outcome for case in answers).most_common()),
        cases=tuple(_case(name, verdicts) for name in names),
    )


def _counted(check: SoakCheck) -> list[SoakCase]:
    """Return the answers that this check was made for: where some cases were slowed, about these alone."""
    return [case for case in check.cases if _answered(case) and case.planted == check.planted]


def _answered(case: SoakCase) -> bool:
    return case.ratio is not None or case.outcome in RED


def _case(name: str, checks: Sequence[SoakCheck]) -> CaseMeter:
    found = [case for check in checks for case in _counted(check) if case.name == name]
    compared = [case for case in found if case.ratio]
    logs = [math.log(case.ratio) for case in compared if case.ratio]
    error = None
    if len(logs) > 1:
        error = quantile(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    mdes = [case.detectable for case in compared if case.detectable is not None]
    newest = [case for check in checks if check.code == checks[-1].code for case in check.cases if case.name == name]
    return CaseMeter(
        name=name,
        red=Share.counted(sum(case.outcome in RED for case in found), len(found)),
        spread=statistics.median([case.spread or 0.0 for case in compared] or [0.0]),
        mde=statistics.median(mdes) if mdes else None,
        pairs=statistics.fmean([case.pairs for case in compared] or [0.0]),
        outliers=sum(case.outliers for case in compared),
        slower=math.expm1(statistics.fmean(logs or [0.0])),
        slower_error=error,
        drift=_drift([case.reference_ms for case in newest if case.reference_ms]),
    )


def _drift(times_ms: Sequence[float]) -> float | None:
    quarter = len(times_ms) // 4
    if quarter < FEWEST_OF_PART:
        return None
    return statistics.median(times_ms[-quarter:]) / statistics.median(times_ms[:quarter]) - 1
