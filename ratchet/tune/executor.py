"""The time budget of a search (`Budget`), and the executor that has stations evaluate configurations.

``ratchet tune`` plans with the budget and gives tasks to an `Executor`, with the stations of `ratchet.tune.station`, or with
those of `ray_stations.py`. The budget is pure; an executor touches devices and processes only through its stations.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ratchet.tune.records import Task, TaskResult

FOR_FINALS, MOST_FOR_FINALS_S = 0.3, 150.0
"""Share of a budget, and most seconds, for confirming the best few and the benchmark's other configs."""
FOR_OTHERS = 0.4
"""Share of the time for confirming that is kept for the other configs."""
GRACE_S = 3.0
"""An evaluation that is under way when the search ends may take so much longer."""
EXPECTED_S = 0.6
"""Assumed seconds of one evaluation before any is known: decides whether a strategy can afford the whole space."""
WRITING = 0.05
"""Share of a budget, at most `GRACE_S` seconds, for ending the processes and writing the files."""
FINALISTS, FINALIST_S = 4, 8.0
"""Most configurations that are confirmed (the luckiest sample is seldom the best one), and about how long one takes."""
FINALS_S = 240.0
"""Most seconds for confirming the best few, and again for the other configs: the only limit where there is no budget."""


@dataclass(frozen=True)
class Budget:
    """Seconds from ``started`` on, a moment on any clock that the caller keeps to; ``seconds`` None: no limit."""

    started: float
    seconds: float | None

    @property
    def search_ends(self) -> float:
        """The moment after which no evaluation starts."""
        if self.seconds is None:
            return math.inf
        return self.started + self.seconds - min(FOR_FINALS * self.seconds, MOST_FOR_FINALS_S)

    @property
    def ends(self) -> float:
        """The moment at which everything is measured."""
        return math.inf if self.seconds is None else self.started + self.seconds - min(WRITING * self.seconds, GRACE_S)

    def for_finals(self, now: float) -> float:
        """Return the seconds for confirming the best few, so that some are left for the other configs."""
        return min(FINALS_S, (1 - FOR_OTHERS) * max(0.0, self.ends - now))

    def finalists(self, now: float) -> int:
        """Return how many finalists there is time for: with few pairs each, none would be decided."""
        return max(1, min(FINALISTS, int(self.for_finals(now) / FINALIST_S)))

    def for_others(self, now: float) -> float:
        """Return the seconds for the other configs."""
        return min(FINALS_S, max(0.0, self.ends - now))

    def evaluations(self, most: int | None, stations: int) -> int | None:
        """Return about how many evaluations a strategy may plan with; None where nothing limits them."""
        if self.seconds is None:
            return most
        expected = max(1, round((self.search_ends - self.started) / EXPECTED_S)) * stations
        return expected if most is None else min(most, expected)


# Stations, each with a device, and the executor that spreads tasks over them.
#
# A `Task` says what to do, a `TaskResult` how it ended; both can be pickled, so that a station may live in another process or on
# another machine.


Report = Callable[[TaskResult], None]


class Station(Protocol):
    """One device, which takes tasks and reports each `TaskResult` as soon as it is there."""

    @property
    def places(self) -> tuple[str, ...]:
        """The name of the device; none where it is not ready, or lost."""
        ...

    @property
    def room(self) -> int:
        """The number of tasks that may be submitted now. Some wait, so that they are compiled while others are timed."""
        ...

    def report_to(self, report: Report) -> None:
        """Call ``report`` with each `TaskResult`, in a thread of the station's. Called once, before the first task."""
        ...

    def submit(self, task: Task) -> None:
        """Give out a task. Whatever happens to it stands in its `TaskResult` and is never raised."""
        ...

    def withdraw(self) -> None:
        """Take back the tasks that are not being timed yet: they get no `TaskResult` any more."""
        ...

    def close(self) -> None:
        """End every process at once and give up what is under way. May be called twice."""
        ...


class Executor:
    """All stations of a search. The task of a station that is lost goes to another, as long as there is one. For one thread."""

    def __init__(self, stations: Sequence[Station]) -> None:
        """The stations are closed by who opened them; a lost one is closed here."""
        self._stations = list(stations)
        self._done: queue.Queue[tuple[Station, TaskResult]] = queue.Queue()
        for station in self._stations:
            station.report_to(self._report_of(station))

    @property
    def places(self) -> tuple[str, ...]:
        """The devices that are there now."""
        return tuple(place for station in self._stations for place in station.places)

    @property
    def room(self) -> int:
        return sum(max(0, station.room) for station in self._stations)

    def submit(self, task: Task) -> None:
        max(self._stations, key=lambda station: station.room).submit(task)

    def results(self, timeout_s: float) -> list[TaskResult]:
        """Return what was done since the last call. Wait until there is something, but no longer than ``timeout_s``."""
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

    def _report_of(self, station: Station) -> Report:
        return lambda done: self._done.put((station, done))

    def _given_on(self, done: TaskResult, gone: Station) -> bool:
        """Drop a station that is gone and give its task to another; False where there is no other."""
        others = [station for station in self._stations if station is not gone]
        if not others:
            return False
        if gone in self._stations:
            gone.close()
        self._stations = others
        self.submit(done.task)
        return True
