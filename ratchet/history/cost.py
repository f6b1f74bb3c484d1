"""Device time that the runs of a history took: minutes for a check, and for a month. Pure.

`ratchet history cost` prints it, and every page of the site has it in its last lines.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence

from ratchet.core import units
from ratchet.core.records import Count, NotNegative, Record
from ratchet.core.report.words import NOTHING, aligned
from ratchet.core.untrusted import CELL, log_line
from ratchet.history.records import HistoryRun


class MonthCost(Record):
    """The runs of one month on one kind of hardware, by when they were measured."""

    month: str
    """``2026-11``."""
    runs: Count
    unknown: Count = 0
    """Those of an earlier ratchet, which did not write down how long they took: they are in no other figure."""
    device_minutes: NotNegative
    """Of all devices and runs, added up."""
    minutes_each: NotNegative | None = None
    """The median run, without those that needed no device, as most of a walk do; None where nobody knows."""


class DeviceCost(Record):
    """Use of one kind of hardware, month by month."""

    hardware: str
    months: tuple[MonthCost, ...]
    """The oldest first; none without runs."""


def costs(runs: Sequence[HistoryRun]) -> list[DeviceCost]:
    """Return what each kind of hardware was used for, by its name."""
    ordered = sorted(runs, key=lambda run: (run.fingerprint.processor, run.started_at))
    found = []
    for hardware, group in itertools.groupby(ordered, key=lambda run: run.fingerprint.processor):
        months = itertools.groupby(group, key=lambda run: f"{run.started_at:%Y-%m}")
        found.append(DeviceCost(hardware=hardware, months=tuple(_month(month, list(part)) for month, part in months)))
    return found


def _month(month: str, runs: Sequence[HistoryRun]) -> MonthCost:
    minutes = [run.device_s / 60 for run in runs if run.device_s is not None]
    taken = [each for each in minutes if each]
    return MonthCost(
        month=month,
        runs=len(runs),
        unknown=len(runs) - len(minutes),
        device_minutes=round(sum(minutes), 3),
        minutes_each=round(statistics.median(taken), 3) if taken else None,
    )


def cost_lines(every: Sequence[DeviceCost], price: float | None) -> Iterator[str]:
    """Yield a block for each kind of hardware, with a line for each month. ``price``: of an hour of one device."""
    for cost in every:
        titles = ("month", "runs", "a check", "the month", *(["price, a check", "price, the month"] if price else []))
        rows = [titles, *(_row(month, price) for month in cost.months)]
        yield log_line(cost.hardware, CELL)
        yield from aligned(rows, "<" + ">" * (len(titles) - 1), indent="  ")
        if unknown := sum(month.unknown for month in cost.months):
            yield f"  {units.plural(unknown, 'run')} of an earlier ratchet did not say how long they took."


def _row(month: MonthCost, price: float | None) -> tuple[str, ...]:
    known = month.minutes_each is not None
    each, whole = (month.minutes_each or 0.0) / 60, month.device_minutes / 60
    prices = (f"{price * each:.3f}", f"{price * whole:.2f}") if price and known else (NOTHING, NOTHING)
    times = (units.wall(each * 3600), units.wall(whole * 3600)) if known else (NOTHING, NOTHING)
    return (month.month, str(month.runs), *times, *(prices if price else ()))


def cost_sentence(every: Sequence[DeviceCost]) -> str:
    """Return what a check took of each kind of hardware in the last month that is known, as sentences; empty where none is."""
    sentences = []
    for cost in every:
        if known := [month for month in cost.months if month.minutes_each is not None]:
            last = known[-1]
            each, whole = units.wall((last.minutes_each or 0.0) * 60), units.wall(last.device_minutes * 60)
            runs = units.plural(last.runs - last.unknown, "run")
            sentences.append(f"In {last.month} a check took {each} of {cost.hardware}, and {runs} {whole}.")
    return " ".join(sentences)
