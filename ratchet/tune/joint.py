"""Choose one set of parameters for several configs: the least loss over all of them, from the records of a search of each. Pure.

`ratchet tune --jointly` prints it. A loss is what the set costs on a config beside that config's own best. Times of a search are
single processes, so the choice is a suggestion: a check of the commit that makes it proves it, config by config.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from ratchet.core import units
from ratchet.core.errors import UsageError
from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.untrusted import log_line
from ratchet.tune.records import Configuration, TuningRecord
from ratchet.tune.suggestions import settings_text


class ConfigLoss(Record):
    """The cost of the common set on one config."""

    case: str
    loss: NotNegative
    """Its time / that of the config's own best set, less 1."""
    of_default: Positive
    """Its time / that of the values used today."""
    best: Configuration


class JointChoice(Record):
    """One set of parameters for several configs."""

    configuration: Configuration
    loss: NotNegative
    """The geometric mean over all configs, less 1."""
    candidates: Count
    """Sets that gave a right result and a time on every config."""
    configs: tuple[ConfigLoss, ...]


def joint(records: Sequence[TuningRecord]) -> JointChoice:
    """Return the set with the least loss over all configs.

    Raises UsageError where the records are not of several configs of one benchmark on one machine, or have no set in common.
    """
    names = {record.case for record in records}
    if len(records) < 2 or len(names) < len(records):
        raise UsageError("--jointly takes the records of two configs or more.", "Repeat --record, once for each config.")
    first = records[0]
    for record in records[1:]:
        if record.benchmark != first.benchmark or record.space.keys() != first.space.keys():
            raise UsageError(f"{record.case} and {first.case} do not have the same parameters.", "Name configs of one benchmark.")
        if record.environment.fingerprint != first.environment.fingerprint:
            raise UsageError(f"{record.case} and {first.case} were tuned on different machines.", "Name records of one machine.")
    costs = [_costs(record) for record in records]
    common = set.intersection(*map(set, costs))
    if not common:
        raise UsageError(
            "No set of parameters has a time on every config.",
            "Tune each with --strategy exhaustive, or with the same --seed and more time.",
        )
    bests = [min(each.values()) for each in costs]
    chosen = min(common, key=lambda key: (_mean(key, costs, bests), _in_order(key)))
    losses = []
    for record, each, best in zip(records, costs, bests, strict=True):
        own = min(each, key=lambda key: (each[key], _in_order(key)))
        losses.append(ConfigLoss(case=record.case, loss=each[chosen] / best - 1, of_default=each[chosen], best=dict(own)))
    return JointChoice(
        configuration=dict(chosen), loss=_mean(chosen, costs, bests) - 1, candidates=len(common), configs=tuple(losses)
    )


Key = tuple[tuple[str, int | float | str | bool], ...]


def _in_order(key: Key) -> list[tuple[str, bool, int | float | str | bool]]:
    """Return what decides between equal sets; a parameter may have words beside numbers, which do not compare."""
    return [(name, isinstance(value, str), value) for name, value in key]


def _costs(record: TuningRecord) -> Mapping[Key, float]:
    """Return set → its time / the default's. A set that was dropped after a few samples has a time, too."""
    found: dict[Key, list[float]] = {}
    for evaluation in record.evaluations:
        if evaluation.normalised is not None:
            found.setdefault(tuple(sorted(evaluation.configuration.items())), []).append(evaluation.normalised)
    return {key: statistics.median(costs) for key, costs in found.items()}


def _mean(key: Key, costs: Sequence[Mapping[Key, float]], bests: Sequence[float]) -> float:
    logs = [math.log(each[key] / best) for each, best in zip(costs, bests, strict=True)]
    return math.exp(statistics.fmean(logs))


def joint_lines(choice: JointChoice) -> Iterator[str]:
    """Yield the lines of ``ratchet tune --jointly``."""
    count = units.plural(len(choice.configs), "config")
    tried = units.plural(choice.candidates, "set")
    yield f"One set for {count}: {log_line(settings_text(choice.configuration))}"
    yield f"Mean loss {units.percent(choice.loss, 1)} beside each config's own best; of {tried} that have a time on all."
    for one in choice.configs:
        own = log_line(settings_text(one.best))
        yield (
            f"  {log_line(one.case)}: loss {units.percent(one.loss, 1)}, {units.percent(one.of_default, 1)} of today's time "
            f"(its own best: {own})"
        )
    yield "These are times of a search, one process each. To prove it, make it the values used today, and run `ratchet check`."
