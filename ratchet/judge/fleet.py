"""Times of many cards over many days → which card is slower than its model, or than it was itself.

`ratchet.commands.soak` makes observations of records and calls `fleet`. Cards are compared with cards of one fingerprint that
ran the same code, never with others. Pure.

Cards of one model differ from the day on which they are made (on average by 8 %, at most by 22 %: arXiv 2208.11035), so a slow
card may be healthy. Two rules, and the numbers below, are chosen on simulated fleets: ``research/fleet.py``.

- **Slower than it was**: a one-sided CUSUM (E. S. Page, Biometrika 41 (1954), 100) over days, against the card's own first days.
- **Slower than its model**: its last week, against the spread of the other cards; only where enough cards show that spread.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from ratchet import units
from ratchet.records.environment import Card, Environment
from ratchet.records.run import RunRecord
from ratchet.records.soak import SoakCheck
from ratchet.records.verdict import ReportRecord
from ratchet.stats.changes import spread_of_runs

MEMORY_BOUND = 16.0
"""FLOPs for each byte below which a case is called bound by memory: the ridge of FP32 on large GPUs."""
FEWEST_CARDS = 3
"""Cards that ran the same code, at least, for a median that one slow card does not move."""
OWN_DAYS = 28
"""First days of a card, which say how fast it is."""
WEEK = 7
SLACK, SLACK_NOISES = 0.015, 1.5
"""A card is suspected while it is slower than in its first days by more than this (half of what has to be found), and by more
than so many standard deviations of a day."""
LEAST_NOISE = 0.005
"""Least standard deviation of a day that the rule reckons with."""
MOST_OF_A_DAY = 2.0
"""Most that one day adds to the sum, in standard deviations: three bad days are needed."""
LIMIT, CEILING = 6.0, 9.0
"""The sum at which a card is called slower than it was, and the most it may reach, so that a mended card is soon cleared."""
CARDS_FOR_SPREAD, SPREADS, LEAST_SLOWER = 8, 4.0, 0.02
"""Cards from which on the spread of a model is known; how many of these spreads, and how much at least, is an outlier."""


@dataclass(frozen=True)
class CardMeasurement:
    """One case on one card in one run."""

    card: str
    environment: Environment
    day: date
    case: str
    code: str
    """Equal where the same work was done by the same code."""
    kernel_class: str
    ms: float
    spread: float
    mde: float | None
    pairs: int
    outliers: int


@dataclass(frozen=True)
class ClassSpeed:
    """One card in cases of one kernel class. Fractions: 0.03 is 3 % more time."""

    kernel_class: str
    days: int
    slower: float
    """Its time in its last week, against the median of its model."""
    trend: float | None
    """The same, against its own first days; None while it has no others."""
    noise: float
    """Standard deviation from day to day."""
    problem: str
    """One sentence; empty where nothing is known against it."""


@dataclass(frozen=True)
class CardReport:
    """One card, beside all others of its model and software."""

    uuid: str
    gpu: str
    fingerprint: str
    first: date
    last: date
    classes: tuple[ClassSpeed, ...]
    spread: float
    """Median of the standard deviations of a pair."""
    mde: float | None
    """Median over cases and runs of the smallest slowdown that a check would call a regression four times in five."""
    outlier_share: float
    """Share of the pairs that were left out as outliers."""
    problems: tuple[str, ...]
    """Reasons to measure nothing on it, one sentence each."""
    known: bool
    """Whether any of its cases could be compared with other cards."""


def observations_of_run(run: RunRecord, report: ReportRecord) -> list[CardMeasurement]:
    """Return what a run says of its cards, if it says which they were; ``report`` is the judge's of this run."""
    found = []
    cards = run.environment.cards
    for case, verdict in zip(run.cases, report.cases, strict=True):
        uuid = (case.telemetry and case.telemetry.gpu_uuid) or (cards[0].uuid if len(cards) == 1 else None)
        if uuid is None or case.performance is None or case.workload is None or case.unfit:
            continue
        comparison = verdict.comparison
        code = case.identity.get("head") or run.head.content or run.head.commit
        found.append(
            CardMeasurement(
                card=uuid,
                environment=run.environment,
                day=run.started_at.date(),
                case=case.name,
                code=f"{code} {case.workload.model_dump_json()}",
                kernel_class=_class_of(case.workload.intensity),
                ms=case.performance.median_time_ms,
                spread=comparison.spread if comparison else 0.0,
                mde=comparison.detectable if comparison else None,
                pairs=comparison.pairs if comparison else len(case.head),
                outliers=comparison.rogues if comparison else 0,
            )
        )
    return found


def observations_of_soak(check: SoakCheck) -> list[CardMeasurement]:
    """Return what a check of a soak says of its card."""
    if len(check.environment.cards) != 1:
        return []
    return [
        CardMeasurement(
            card=check.environment.cards[0].uuid,
            environment=check.environment,
            day=check.started_at.date(),
            case=case.name,
            code=check.code.content or check.code.commit,
            kernel_class=_class_of(case.intensity),
            ms=case.reference_ms,
            spread=case.spread or 0.0,
            mde=case.detectable,
            pairs=case.pairs,
            outliers=case.outliers,
        )
        for case in check.cases
        if case.reference_ms
    ]


def _class_of(intensity: float | None) -> str:
    if intensity is None:
        return "other"
    return "memory" if intensity < MEMORY_BOUND else "compute"


def fleet(observations: Iterable[CardMeasurement]) -> list[CardReport]:
    """Return a report of each card, the slowest of each model first."""
    machines: dict[str, list[CardMeasurement]] = defaultdict(list)
    for one in observations:
        machines[one.environment.fingerprint.key].append(one)
    reports = []
    for key, found in sorted(machines.items()):
        series = _series(found)
        noise = {name: pooled_noise(cards.values()) for name, cards in series.items()}
        levels = {name: {card: last_week(days) for card, days in cards.items()} for name, cards in series.items()}
        ours = [
            _report(key, card, [one for one in found if one.card == card], series, noise, levels)
            for card in dict.fromkeys(one.card for one in found)
        ]
        reports += sorted(ours, key=lambda report: max((speed.slower for speed in report.classes), default=0.0), reverse=True)
    return reports


def _series(found: Sequence[CardMeasurement]) -> dict[str, dict[str, list[float]]]:
    """Return kernel class → card → how much slower than the median card it was, day by day."""
    same_work: dict[tuple[str, str], list[CardMeasurement]] = defaultdict(list)
    for one in found:
        same_work[one.case, one.code].append(one)
    away: dict[tuple[str, str, date], list[float]] = defaultdict(list)
    for group in same_work.values():
        overall = _median_card(group)
        by_day: dict[date, list[CardMeasurement]] = defaultdict(list)
        for one in group:
            by_day[one.day].append(one)
        for day, of_day in by_day.items():
            middle = _median_card(of_day) or overall  # of the same day, if there is one: what all cards share cancels
            if middle:
                for one in of_day:
                    away[one.kernel_class, one.card, day].append(math.log(one.ms / middle))
    series: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (name, card, _), values in sorted(away.items()):
        series[name][card].append(statistics.median(values))
    return series


def _median_card(group: Sequence[CardMeasurement]) -> float | None:
    times: dict[str, list[float]] = defaultdict(list)
    for one in group:
        times[one.card].append(one.ms)
    return statistics.median(map(statistics.median, times.values())) if len(times) >= FEWEST_CARDS else None


def _report(
    fingerprint: str,
    card: str,
    found: Sequence[CardMeasurement],
    series: Mapping[str, Mapping[str, Sequence[float]]],
    noise: Mapping[str, float],
    levels: Mapping[str, Mapping[str, float]],
) -> CardReport:
    newest = max(found, key=lambda one: one.day)
    speeds = []
    for name, cards in series.items():
        if card in cards:
            days = cards[card]
            own = max(noise[name], day_noise(days))
            problem = slower_than_before(days, own) or slower_than_model(card, levels[name])
            trend = last_week(days) - statistics.median(days[:OWN_DAYS]) if len(days) > OWN_DAYS else None
            speeds.append(ClassSpeed(name, len(days), last_week(days), trend, day_noise(days), problem))
    health = next((one for one in newest.environment.cards if one.uuid == card), None)
    mdes = [one.mde for one in found if one.mde is not None]
    return CardReport(
        uuid=card,
        gpu=newest.environment.fingerprint.processor,
        fingerprint=fingerprint,
        first=min(one.day for one in found),
        last=newest.day,
        classes=tuple(speeds),
        spread=statistics.median(one.spread for one in found),
        mde=statistics.median(mdes) if mdes else None,
        outlier_share=sum(one.outliers for one in found) / max(1, sum(one.pairs for one in found)),
        problems=(*_health(health), *(f"In {one.kernel_class} kernels {one.problem}" for one in speeds if one.problem)),
        known=bool(speeds),
    )


def _health(card: Card | None) -> list[str]:
    return [card.problem.capitalize()] if card and card.problem else []


# The two rules, on the days of one card: log ratios of its time to that of the median card.


def last_week(days: Sequence[float]) -> float:
    """Return the median of the last seven days."""
    return statistics.median(days[-WEEK:])


def day_noise(days: Sequence[float]) -> float:
    """Return the standard deviation of one day, from steps between neighbours, so that a trend does not count; 0 from one."""
    return spread_of_runs(np.array(days)) if len(days) > 1 else 0.0


def pooled_noise(cards: Iterable[Sequence[float]]) -> float:
    """Return the standard deviation of a day that the rule reckons with, from all cards of a model."""
    return max(LEAST_NOISE, statistics.median(map(day_noise, cards)))


def sums(days: Sequence[float], noise: float) -> list[float]:
    """Return the sum that decides after each day; 0 during the card's own first days."""
    own, total, found = statistics.median(days[:OWN_DAYS]), 0.0, [0.0] * min(OWN_DAYS, len(days))
    slack = max(SLACK, SLACK_NOISES * noise)
    for value in days[OWN_DAYS:]:
        total = min(CEILING, max(0.0, total + min(MOST_OF_A_DAY, (value - own - slack) / noise)))
        found.append(total)
    return found


def slower_than_before(days: Sequence[float], noise: float) -> str:
    """Return how much a card is slower than it was, as a sentence; empty where it is not."""
    found = sums(days, noise)
    if found[-1] < LIMIT:
        return ""
    since = max(day for day, total in enumerate(found) if total == 0) + 1
    slower = units.percent(math.expm1(statistics.median(days[since:]) - statistics.median(days[:OWN_DAYS])), 1)
    last = units.plural(len(days) - since, "measured day")
    return f"it is {slower} slower over its last {last} than in its first {OWN_DAYS} days."


def level_limit(levels: Sequence[float]) -> float | None:
    """Return beyond which a card's last week is an outlier among these; None where they are too few to know their spread."""
    if len(levels) < CARDS_FOR_SPREAD:
        return None
    middle = statistics.median(levels)
    spread = 1.4826 * statistics.median(abs(level - middle) for level in levels)
    return middle + max(LEAST_SLOWER, SPREADS * spread)


def slower_than_model(card: str, levels: Mapping[str, float]) -> str:
    """Return how much a card is slower than its model, as a sentence; empty where that is within the spread of the others."""
    limit = level_limit(list(levels.values()))
    if limit is None or levels[card] <= limit:
        return ""
    slower = units.percent(math.expm1(levels[card] - statistics.median(levels.values())), 1)
    return f"it is {slower} slower than the median of {len(levels)} cards."
