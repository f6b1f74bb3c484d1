"""A time budget is a promise: how it is shared between searching and confirming. Pure."""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ratchet.records.tuning import Done, Task

FOR_FINALS, MOST_FOR_FINALS_S = 0.3, 150.0
"""Of a budget, for the confirmation of the best few and the benchmark's other configs."""
FOR_OTHERS = 0.4
"""Of that, for the other configs."""
GRACE_S = 3.0
"""An evaluation that is under way when the search ends may take so much longer."""
EXPECTED_S = 0.6
"""For one evaluation, where nothing better is known: whether a strategy can afford the whole space."""
WRITING = 0.05
"""Of a budget, at most `GRACE_S` seconds: for ending the processes, and for what is written."""
FINALISTS, FINALIST_S = 4, 8.0
"""Confirmed at most, since the luckiest sample is seldom the best configuration; and about what the pairs of one take."""
FINALS_S = 240.0
"""For confirming where there is no budget."""


@dataclass(frozen=True)
class Budget:
    """Seconds from ``started`` on, a moment on any clock that the caller keeps to; ``seconds`` None: no limit."""

    started: float
    seconds: float | None

    @property
    def search_ends(self) -> float:
        """The moment from which no evaluation is begun any more."""
        if self.seconds is None:
            return math.inf
        return self.started + self.seconds - min(FOR_FINALS * self.seconds, MOST_FOR_FINALS_S)

    @property
    def ends(self) -> float:
        """The moment at which everything is measured."""
        return math.inf if self.seconds is None else self.started + self.seconds - min(WRITING * self.seconds, GRACE_S)

    def for_finals(self, now: float) -> float:
        """Seconds for confirming the best few, so that some are left for the other configs."""
        return min(FINALS_S, (1 - FOR_OTHERS) * max(0.0, self.ends - now))

    def finalists(self, now: float) -> int:
        """How many there is time for: of few pairs each, none would be decided."""
        return max(1, min(FINALISTS, int(self.for_finals(now) / FINALIST_S)))

    def for_others(self, now: float) -> float:
        """Seconds for the other configs."""
        return min(FINALS_S, max(0.0, self.ends - now))

    def evaluations(self, most: int | None, stations: int) -> int | None:
        """About how many a strategy may plan with."""
        if self.seconds is None:
            return most
        expected = max(1, round((self.search_ends - self.started) / EXPECTED_S)) * stations
        return expected if most is None else min(most, expected)


# Who evaluates configurations: a station on each device, and an executor that spreads tasks over stations.
#
# A `Task` says what to do, a `Done` what came of it; both can be pickled, so that a station may live in another process or on
# another machine. A station is an executor of one place. `LocalExecutor` spreads tasks over the stations of this host.


Report = Callable[[Done], None]


class Executor(Protocol):
    """Takes tasks and hands out what came of them, in any order. For one thread only."""

    @property
    def places(self) -> tuple[str, ...]:
        """The stations that are there now."""
        ...

    @property
    def room(self) -> int:
        """How many more tasks may be submitted now. Some wait, so that they are compiled while others are timed."""
        ...

    def submit(self, task: Task) -> None:
        """Give out a task. Whatever happens to it is told in its `Done`, never raised."""
        ...

    def results(self, timeout_s: float) -> list[Done]:
        """What was done since: waits until there is something, but no longer than ``timeout_s``; then perhaps nothing."""
        ...

    def withdraw(self) -> None:
        """Take back the tasks that are not being timed yet: nothing is told of them any more."""
        ...

    def close(self) -> None:
        """End every process at once; what is under way is given up. May be called twice."""
        ...


class Station(Executor, Protocol):
    """An executor of one device, which can tell at once what was done."""

    def report_to(self, report: Report) -> None:
        """From now on ``report`` is called with each `Done`, in a thread of the station's, and `results` has nothing."""
        ...


class LocalExecutor:
    """The stations of this host. The task of a station that is lost goes to another, as long as there is one."""

    def __init__(self, stations: Sequence[Station]) -> None:
        self._stations = list(stations)
        self._done: queue.Queue[tuple[Station, Done]] = queue.Queue()
        for station in self._stations:
            station.report_to(self._report_of(station))

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(place for station in self._stations for place in station.places)

    @property
    def room(self) -> int:
        return sum(max(0, station.room) for station in self._stations)

    def submit(self, task: Task) -> None:
        max(self._stations, key=lambda station: station.room).submit(task)

    def results(self, timeout_s: float) -> list[Done]:
        try:
            arrived = [self._done.get(timeout=max(0.0, timeout_s))]
        except queue.Empty:
            return []
        while not self._done.empty():
            arrived.append(self._done.get_nowait())
        return [done for station, done in arrived if not (done.lost and self._given_on(done, station))]

    def withdraw(self) -> None:
        for station in self._stations:
            station.withdraw()

    def close(self) -> None:
        for station in self._stations:
            station.close()

    def _report_of(self, station: Station) -> Report:
        return lambda done: self._done.put((station, done))

    def _given_on(self, done: Done, gone: Station) -> bool:
        """Do without a station that is gone; whether another has taken its task."""
        others = [station for station in self._stations if station is not gone]
        if not others:
            return False
        if gone in self._stations:
            gone.close()
        self._stations = others
        self.submit(done.task)
        return True
