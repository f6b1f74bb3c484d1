"""What each parameter does: the best and the median time of each of its values, and how much of the spread it explains."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.judge.tuning import ranked
from ratchet.records.tuning import TuningRecord
from ratchet.workload import Parameter


@dataclass(frozen=True)
class ValueEffect:
    """One value of a parameter, over all that was tried with it."""

    value: Parameter
    tried: int
    timed: int
    best: float | None
    """Smallest cost (see `ratchet.judge.tuning.Ranked`); None where nothing was timed."""
    median: float | None


@dataclass(frozen=True)
class Effect:
    """One parameter."""

    name: str
    values: tuple[ValueEffect, ...]
    explains: float | None
    """Share, 0 to 1, of the spread of log times that its values alone explain; None where too little was timed to say."""


def effects(record: TuningRecord) -> tuple[Effect, ...]:
    """Each parameter that was tried with more than one value, the one that explains most first.

    A search looks longest where it is fast, so these describe what was tried and not the whole space.
    """
    found = [_effect(name, values, record) for name, values in record.space.items()]
    several = [each for each in found if sum(value.tried > 0 for value in each.values) > 1]
    return tuple(sorted(several, key=lambda each: -(each.explains or 0.0)))


def _effect(name: str, values: Sequence[Parameter], record: TuningRecord) -> Effect:
    costs: dict[Parameter, list[float]] = {value: [] for value in values}
    tried = dict.fromkeys(values, 0)
    for evaluation in record.evaluations:
        tried[evaluation.configuration[name]] += 1
    for each in ranked(record):
        costs[each.evaluation.configuration[name]].append(each.cost)
    shown = [
        ValueEffect(value, tried[value], len(found), min(found, default=None), statistics.median(found) if found else None)
        for value, found in costs.items()
    ]
    return Effect(name, tuple(shown), explained({value: found for value, found in costs.items() if found}))


def explained(costs: Mapping[Parameter, Sequence[float]]) -> float | None:
    """Share of the variance of log costs that lies between the groups, less what chance would put there.

    That is ε² of Kelley (1935), "An unbiased correlation ratio measure". None for one group, or one cost in each.
    """
    logs = [[math.log(cost) for cost in group] for group in costs.values()]
    every = [value for group in logs for value in group]
    if len(logs) < 2 or len(every) <= len(logs):
        return None
    total, within = _squares(every), sum(_squares(group) for group in logs)
    if total <= 0:
        return 0.0
    return max(0.0, 1 - within / (len(every) - len(logs)) * (len(every) - 1) / total)


def _squares(values: Sequence[float]) -> float:
    """Sum of squared differences from the mean."""
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)
