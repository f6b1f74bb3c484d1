"""Stations on a Ray cluster: an actor for each GPU that the cluster offers, and a stand-in for it here.

``ratchet tune --executor ray`` calls `ray_actors`. ``RAY_ADDRESS`` names the cluster; without it one is started on this machine
and ended afterwards. Touches the network, and starts processes on every GPU of the cluster. Ray loads only when it is called.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ratchet.errors import HostError, UnfitError, UsageError
from ratchet.records.tuning import Done, Task

if TYPE_CHECKING:
    from ratchet.tune.executor import Report, Station

Opened = Callable[[Any], "Station"]
"""Opens the station for one target of tuning, in the process that prepared it."""
Prepare = Callable[[contextlib.ExitStack], Opened]
"""Makes a process ready, on the device that it may use, before the target is known; the stack closes what it holds."""
Begin = Callable[[Any], AbstractContextManager[list["RayStation"]]]
"""Opens the stations for one target of tuning."""
_TURN_S = 0.05
"""Longest that an actor waits for a result before it takes new tasks: an idle one is called again this often."""
_START_S = 300.0
"""Longest that a station may take to start."""
_REACH_S = 10.0
"""Longest that a connection to the cluster may take; Ray itself tries for minutes."""


@contextlib.contextmanager
def ray_actors(prepare: Prepare, environ: Mapping[str, str]) -> Iterator[Begin]:
    """Start a process on every GPU of the cluster; in a CPU-only test cluster, on each resource that it calls a GPU.

    Raises UsageError where Ray is missing, UnfitError where the cluster offers no GPU; opening the stations raises HostError
    where none starts.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise UsageError("Ray is not installed.", "Install it with: pip install 'gpu-ratchet[ray]'") from None
    ours = not ray.is_initialized()
    if ours:
        _join(ray, environ)
    try:
        count = int(ray.cluster_resources().get("GPU", 0))  # type: ignore[no-untyped-call]  # Ray gives it no types
        if count == 0:
            raise UnfitError("The Ray cluster offers no GPU.", "Start its nodes with --num-gpus, or leave --executor out.")
        actor = ray.remote(num_gpus=1, num_cpus=0, max_restarts=0)(_Actor)
        actors = [actor.remote(prepare) for _ in range(count)]
        yield lambda aim: _opened(ray, actors, aim)
    finally:
        if ours:
            ray.shutdown()


@contextlib.contextmanager
def _opened(ray: Any, actors: Sequence[Any], aim: Any) -> Iterator[list[RayStation]]:
    stations = [RayStation(ray, actor, aim) for actor in actors]
    try:
        _await(ray, stations)
        yield [station for station in stations if station.places]
    finally:
        for station in stations:
            station.close()


def _join(ray: Any, environ: Mapping[str, str]) -> None:
    address = environ.get("RAY_ADDRESS")
    quiet = {"log_to_driver": False, "configure_logging": False}
    logging.getLogger("ray").setLevel(logging.ERROR)  # what it advises on starting is nothing that a tuning run can act on
    try:
        if address:
            _reach(address)
            ray.init(address=address, **quiet)
        else:
            ray.init(address="local", include_dashboard=False, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"The Ray cluster at {address} cannot be joined" if address else "Ray cannot be started here"
        raise UnfitError(f"{where}: {str(error).splitlines()[0]}", "See `ray status`, or leave --executor out.") from None


def _reach(address: str) -> None:
    """Connect to the address once, since Ray itself tries for minutes. Raises OSError where nothing answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()


def _await(ray: Any, stations: list[RayStation]) -> None:
    """Wait until every station has started or failed. Raises HostError where none is left, with the first reason."""
    waiting = {station.joining: station for station in stations}
    reasons = []
    done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=_START_S)
    for joining, station in waiting.items():
        reason = station.begin(joining) if joining in done else f"it did not start within {_START_S:.0f} s"
        if reason:
            reasons.append(reason)
            station.close()
    if len(reasons) == len(stations):
        raise HostError(f"No station started on the Ray cluster: {reasons[0]}", "Every node needs the repository and ratchet.")


class _Actor:
    """The station itself, in a process of the cluster; `RayStation` calls `turn` again and again."""

    def __init__(self, prepare: Prepare) -> None:
        self._held = contextlib.ExitStack()
        self._opened = prepare(self._held)

    def begin(self, aim: Any) -> tuple[list[str], int, tuple[str, ...]]:
        self._station = self._opened(aim)
        self._held.callback(self._station.close)
        return self.turn([], False, 0.0)

    def turn(self, tasks: list[str], withdraw: bool, timeout_s: float) -> tuple[list[str], int, tuple[str, ...]]:
        """Take tasks; return what was done, how much room there is, and the station's places. Records travel as JSON."""
        if withdraw:
            self._station.withdraw()
        for task in tasks:
            self._station.submit(Task.model_validate_json(task))
        done = [result.model_dump_json() for result in self._station.results(timeout_s)]
        return done, self._station.room, self._station.places

    def end(self) -> None:
        self._held.close()


class RayStation:
    """The local stand-in for a station in an actor. Its thread talks to the actor and reports lost tasks."""

    def __init__(self, ray: Any, actor: Any, aim: Any) -> None:
        self._ray, self._actor = ray, actor
        self.joining = actor.begin.remote(aim)
        self._changed = threading.Condition()
        self._outgoing: list[Task] = []
        self._in_hand: dict[int, Task] = {}
        self._withdraw = False
        self._room = 0
        self._places: tuple[str, ...] = ()
        self._name = "a node of the Ray cluster"
        self._unreported: list[Done] = []
        self._report: Report = self._keep
        self._thread: threading.Thread | None = None

    def begin(self, joining: Any) -> str:
        """Talk to the station from now on, once it has started; return why it has not, or an empty text."""
        try:
            self._heard(*self._ray.get(joining))
        except self._ray.exceptions.RayError as error:
            return _first_line(error)
        self._name = ", ".join(self._places)
        self._thread = threading.Thread(target=self._talk, name=f"ratchet-{self._name}", daemon=True)
        self._thread.start()
        return ""

    @property
    def places(self) -> tuple[str, ...]:
        return self._places

    @property
    def room(self) -> int:
        with self._changed:
            return max(0, self._room - len(self._outgoing)) if self._places else 0

    def report_to(self, report: Report) -> None:
        self._report = report

    def submit(self, task: Task) -> None:
        with self._changed:
            self._in_hand[task.number] = task
            gone = not self._places
            if not gone:
                self._outgoing.append(task)
        if gone:
            self._lose("the station is gone")

    def results(self, timeout_s: float) -> list[Done]:
        with self._changed:
            if not self._unreported:
                self._changed.wait(timeout_s)
            results, self._unreported = self._unreported, []
        return results

    def withdraw(self) -> None:
        with self._changed:
            self._outgoing.clear()
            self._in_hand.clear()  # the actor still reports the one that is being timed
            self._withdraw = True

    def close(self) -> None:
        with self._changed:
            self._places = ()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(10)
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get(self._actor.end.remote(), timeout=10)
        self._ray.kill(self._actor)

    def _talk(self) -> None:
        while True:
            with self._changed:
                if not self._places:
                    return
                tasks, self._outgoing = self._outgoing, []
                withdraw, self._withdraw = self._withdraw, False
            try:
                answer = self._ray.get(self._actor.turn.remote([task.model_dump_json() for task in tasks], withdraw, _TURN_S))
            except self._ray.exceptions.RayError as error:
                self._lose(_first_line(error))
                return
            for done in self._heard(*answer):
                self._report(done)

    def _heard(self, done: list[str], room: int, places: tuple[str, ...]) -> list[Done]:
        """Return the actor's results as records, and note its room. A station that has no place any more is gone."""
        results = [Done.model_validate_json(text) for text in done]
        with self._changed:
            for result in results:
                self._in_hand.pop(result.task.number, None)
            self._room = room
            if self._thread is None or self._places:
                self._places = tuple(places)
        return results

    def _lose(self, why: str) -> None:
        """Report every task in hand as lost."""
        with self._changed:
            self._places = ()
            lost, self._in_hand = list(self._in_hand.values()), {}
            self._outgoing.clear()
        for task in lost:
            self._report(Done(task=task, place=self._name, lost=f"{self._name} was lost: {why}"))

    def _keep(self, done: Done) -> None:
        with self._changed:
            self._unreported.append(done)
            self._changed.notify()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
