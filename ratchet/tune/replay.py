"""A recorded space searched again: a configuration's recorded time is its evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ratchet.tune.configurations import Candidates, Configuration, Space
from ratchet.tune.search import Search
from ratchet.tune.t4 import Result


@dataclass(frozen=True)
class Recorded:
    """What was measured of a space."""

    candidates: Candidates
    times: tuple[float | None, ...]
    """Of each candidate, in milliseconds; None where it failed."""

    @property
    def best_ms(self) -> float | None:
        """The optimum; None where all failed."""
        return min((each for each in self.times if each is not None), default=None)


@dataclass(frozen=True)
class Trace:
    """One search of a recorded space, evaluation by evaluation."""

    tried: tuple[int, ...]
    """Candidates in order."""
    best_ms: tuple[float | None, ...]
    """The best so far after each."""
    strategy: str
    """What `auto` came down to, or the strategy that was asked for."""


def recorded_space(results: Sequence[Result]) -> Recorded:
    """The candidates are the recorded configurations, values sorted where they are numbers."""
    names = list(results[0].configuration)
    values = {name: list(dict.fromkeys(each.configuration[name] for each in results)) for name in names}
    space = Space({name: tuple(_sorted(each)) for name, each in values.items()})
    codes = np.array([space.encode(each.configuration) for each in results], dtype=np.int16)
    return Recorded(Candidates(space, codes, exact=True), tuple(each.ms for each in results))


def replayed(recorded: Recorded, strategy: str, seed: int, evaluations: int | None) -> Trace:
    """Search until ``evaluations`` are used or everything was tried; one at a time. Raises UsageError as `Search` does."""
    search = Search(recorded.candidates, strategy, seed, evaluations)
    tried: list[int] = []
    best: list[float | None] = []
    while evaluations is None or len(tried) < evaluations:
        asked = search.ask()
        if not asked:
            break
        place = _known(recorded.candidates.index(asked[0]))
        value = recorded.times[place]
        search.tell(asked[0], value)
        tried.append(place)
        before = best[-1] if best else None
        best.append(value if before is None or (value is not None and value < before) else before)
    return Trace(tuple(tried), tuple(best), search.strategy)


def configuration_of(recorded: Recorded, trace: Trace) -> Configuration | None:
    """The best that was found."""
    if not trace.best_ms or trace.best_ms[-1] is None:
        return None
    place = next(each for each in trace.tried if recorded.times[each] == trace.best_ms[-1])
    return recorded.candidates.configuration(place)


def _known(place: int | None) -> int:
    if place is None:
        raise ValueError("a search proposed what is no candidate")
    return place


def _sorted(values: Sequence[int | float | str | bool]) -> list[int | float | str | bool]:
    numbers = [each for each in values if isinstance(each, int | float)]
    return sorted(numbers) if len(numbers) == len(values) else list(values)
