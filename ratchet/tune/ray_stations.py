"""Stations on a Ray cluster: in an actor for each GPU that the cluster offers.

``ratchet tune --executor ray`` calls `ray_actors`. ``RAY_ADDRESS`` names the cluster; without it one is started on this machine
and ended afterwards. Touches the network, and starts processes on every GPU of the cluster. Ray loads only when it is called.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from ratchet.core.errors import HostError, UnfitError, UsageError
from ratchet.tune.executor import Executor, Report, Station
from ratchet.tune.records import Task, TaskResult

Opened = Callable[[Any], Station]
"""Opens the station for one target of tuning, in the process that prepared it."""
Prepare = Callable[[contextlib.ExitStack], Opened]
"""Makes a process ready, on the device that it may use, before the target is known; the stack closes what it holds."""
Begin = Callable[[Any], AbstractContextManager[Executor]]
"""Opens the stations for one target of tuning."""
_START_S = 300.0
"""Longest that the first station may take to start."""
_LOOK_S = 0.05
"""Seconds between two looks at stations that start."""
_END_S = 10.0
"""Longest that all stations together may take to end their processes."""
_REACH_S = 10.0
"""Longest that a connection to the cluster may take; Ray itself tries for 40 s."""
_TRIES_OF_JOINING = ("RAY_NUM_REDIS_GET_RETRIES", "1")
"""What Ray reads on import. Its 20 tries of 40 s each are for a head node that is starting; an address names one that runs."""
_CALLS = 64
"""Calls that an actor answers at once: more than a station takes tasks, those that were withdrawn included."""


@contextlib.contextmanager
def ray_actors(prepare: Prepare, environ: Mapping[str, str]) -> Iterator[Begin]:
    """Start a process on every GPU of the cluster; in a CPU-only test cluster, on each resource that it calls a GPU.

    Raises UsageError where Ray is missing, UnfitError where the cluster offers no GPU; opening the stations raises HostError
    where none starts.
    """
    if environ.get("RAY_ADDRESS"):
        os.environ.setdefault(*_TRIES_OF_JOINING)
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
        actors: list[Any] = [actor.options(max_concurrency=_CALLS).remote(prepare) for _ in range(count)]

        @contextlib.contextmanager
        def begin(aim: Any) -> Iterator[Executor]:
            stations = [RayStation(ray, actor, aim) for actor in actors]
            try:
                _wait_for_first(stations)
                yield Executor(stations)
            finally:
                ends = [each.end.remote() for each in actors]
                ray.wait(ends, num_returns=len(ends), timeout=_END_S)
                for station in stations:
                    station.close()

        yield begin
    finally:
        if ours:
            ray.shutdown()


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
        raise UnfitError(
            f"{where}: {str(error).splitlines()[0].rstrip('.')}.", "See `ray status`, or leave --executor out."
        ) from None


def _reach(address: str) -> None:
    """Connect to the address once, since Ray itself tries for 40 s. Raises OSError where nothing answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()


class _Actor:
    """A station in a process of the cluster, which answers several calls at once, each in a thread. Records travel as JSON."""

    def __init__(self, prepare: Prepare) -> None:
        self._held = contextlib.ExitStack()
        self._opened = prepare(self._held)
        self._answers: dict[int, queue.SimpleQueue[TaskResult]] = {}
        self._begun = threading.Event()

    def begin(self, aim: Any) -> tuple[str, int]:
        """Open the station; return its name and how many tasks it takes at once."""
        self._station = self._opened(aim)
        self._held.callback(self._station.close)
        self._station.report_to(lambda done: self._answers.pop(done.task.number).put(done))
        self._begun.set()
        return ", ".join(self._station.places), self._station.room

    def carry_out(self, text: str) -> str:
        """Return what became of a task. One that is withdrawn in time gets no answer."""
        task = Task.model_validate_json(text)
        answer = self._answers[task.number] = queue.SimpleQueue()
        self._begun.wait()
        self._station.submit(task)
        return answer.get().model_dump_json()

    def withdraw(self) -> None:
        self._station.withdraw()

    def end(self) -> None:
        self._held.close()


class RayStation:
    """The station in an actor, as it is seen from here. It takes tasks while it starts."""

    def __init__(self, ray: Any, actor: Any, aim: Any) -> None:
        self._ray, self._actor = ray, actor
        self._name, self._most = "", 0
        self._in_hand: dict[int, Task] = {}
        self._report: Report
        self.lost = ""
        """Why nothing can be done there any more."""
        actor.begin.remote(aim).future().add_done_callback(self._begun)

    @property
    def places(self) -> tuple[str, ...]:
        return (self._name,) if self._name and not self.lost else ()

    @property
    def room(self) -> int:
        return 0 if self.lost else self._most - len(self._in_hand)

    def report_to(self, report: Report) -> None:
        self._report = report

    def submit(self, task: Task) -> None:
        if self.lost:
            self._report(TaskResult(task=task, place=self._shown, lost=self.lost))
            return
        self._in_hand[task.number] = task
        answer = self._actor.carry_out.remote(task.model_dump_json()).future()
        answer.add_done_callback(functools.partial(self._answered, task))

    def withdraw(self) -> None:
        self._in_hand.clear()
        if self._name:
            self._actor.withdraw.remote()

    def close(self) -> None:
        self._ray.kill(self._actor)

    @property
    def _shown(self) -> str:
        return self._name or "a node of the Ray cluster"

    def _begun(self, answer: Future[tuple[str, int]]) -> None:
        try:
            self._name, self._most = answer.result()
        except self._ray.exceptions.RayError as error:
            self.lost = _last_line(error)

    def _answered(self, task: Task, answer: Future[str]) -> None:
        """Report what became of a task, in a thread of Ray's."""
        was_withdrawn = self._in_hand.pop(task.number, None) is None
        try:
            done = TaskResult.model_validate_json(answer.result())
        except self._ray.exceptions.RayError as error:
            self.lost = self.lost or f"{self._shown} was lost: {_last_line(error)}"
            done = TaskResult(task=task, place=self._shown, lost=self.lost)
        if not (was_withdrawn and done.lost):  # nobody does again what was taken back
            self._report(done)


def _wait_for_first(stations: Sequence[RayStation]) -> None:
    """Wait until a station has started. Raises HostError where none does, with the first reason."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until and not all(station.lost for station in stations):
        if any(station.places for station in stations):
            return
        time.sleep(_LOOK_S)
    reason = next((station.lost for station in stations if station.lost), f"none was there within {_START_S:.0f} s")
    raise HostError(f"No station started on the Ray cluster: {reason}", "Every node needs the repository and ratchet.")


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
