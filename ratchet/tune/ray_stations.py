"""An executor on a Ray cluster: an actor for each GPU that the cluster offers, and a station in each.

``ratchet tune --executor ray`` calls `ray_actors`. ``RAY_ADDRESS`` names the cluster; without it one is started on this machine
and ended afterwards. Touches the network, and starts processes on every GPU of the cluster. Ray loads only when it is called.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ratchet.core.errors import HostError, UnfitError, UsageError
from ratchet.tune.records import Task, TaskResult

if TYPE_CHECKING:
    from ratchet.tune.executor import Station

Opened = Callable[[Any], "Station"]
"""Opens the station for one target of tuning, in the process that prepared it."""
Prepare = Callable[[contextlib.ExitStack], Opened]
"""Makes a process ready, on the device that it may use, before the target is known; the stack closes what it holds."""
Begin = Callable[[Any], AbstractContextManager["RayExecutor"]]
"""Opens the stations for one target of tuning."""
_START_S = 300.0
"""Longest that the first station may take to start."""
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
        actors = [actor.options(max_concurrency=_CALLS).remote(prepare) for _ in range(count)]

        @contextlib.contextmanager
        def begin(aim: Any) -> Iterator[RayExecutor]:
            executor = RayExecutor(ray, actors, aim)
            try:
                executor.wait_for_first(_START_S)
                yield executor
            finally:
                executor.close()

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


@dataclass(eq=False)
class _Member:
    """An actor, as it is seen from here."""

    actor: Any
    name: str = ""
    """Empty until its station has started."""
    room: int = 0
    """Tasks that it takes now."""


class RayExecutor:
    """The stations of a cluster. The tasks of one that is lost go to another, as long as there is one.

    Each call of an actor is one future, and `results` waits for all of them at once. A station that starts later than others
    takes tasks from then on.
    """

    def __init__(self, ray: Any, actors: Sequence[Any], aim: Any) -> None:
        self._ray = ray
        self._members = [_Member(actor) for actor in actors]
        self._starting = {member.actor.begin.remote(aim): member for member in self._members}
        self._calls: dict[Any, tuple[_Member, Task | None]] = {}
        """Future → who answers, and the task; None where it was withdrawn, and may be under way all the same."""
        self._reasons: list[str] = []

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(member.name for member in self._members if member.name)

    @property
    def room(self) -> int:
        return sum(max(0, member.room) for member in self._members)

    def wait_for_first(self, seconds: float) -> None:
        """Wait until a station has started. Raises HostError where none does, with the first reason."""
        until = time.monotonic() + seconds
        while not self.places and self._starting and time.monotonic() < until:
            self.results(until - time.monotonic())
        if not self.places:
            reason = self._reasons[0] if self._reasons else f"none was there within {seconds:.0f} s"
            raise HostError(f"No station started on the Ray cluster: {reason}", "Every node needs the repository and ratchet.")

    def submit(self, task: Task) -> None:
        member = max(self._members, key=lambda member: member.room)
        member.room -= 1
        self._calls[member.actor.carry_out.remote(task.model_dump_json())] = (member, task)

    def results(self, timeout_s: float) -> list[TaskResult]:
        calls = [*self._starting, *self._calls]
        if not calls:
            return []
        ready, rest = self._ray.wait(calls, timeout=max(0.0, timeout_s))
        if ready and rest:
            ready += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return [done for call in ready for done in self._heard(call)]

    def withdraw(self) -> None:
        for call, (member, task) in self._calls.items():
            if task is not None:
                self._calls[call] = (member, None)
                member.room += 1
        for member in self._members:
            if member.name:
                member.actor.withdraw.remote()

    def close(self) -> None:
        ends = [member.actor.end.remote() for member in self._members]
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=10)
        for member in self._members:
            self._ray.kill(member.actor)
        self._members, self._starting, self._calls = [], {}, {}

    def _heard(self, call: Any) -> list[TaskResult]:
        """Return what the answer to a call leaves to report."""
        starting = self._starting.pop(call, None)
        member, task = (starting, None) if starting else self._calls.pop(call, (None, None))
        if member is None:  # of a station that was lost a moment ago
            return []
        try:
            answer = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            return self._lost(member, task, _last_line(error))
        if starting:
            member.name, room = answer
            member.room += room
            return []
        done = TaskResult.model_validate_json(answer)
        if done.lost:
            return self._lost(member, task, done.lost)
        if task is not None:
            member.room += 1
        return [done]

    def _lost(self, member: _Member, task: Task | None, why: str) -> list[TaskResult]:
        """Drop a member and give its tasks to others; return them as lost where there is no other."""
        self._members.remove(member)
        self._reasons.append(why)
        self._ray.kill(member.actor)
        name = member.name or "a node of the Ray cluster"
        theirs = [task, *(other for owner, other in self._calls.values() if owner is member)]
        self._calls = {call: entry for call, entry in self._calls.items() if entry[0] is not member}
        self._starting = {call: starter for call, starter in self._starting.items() if starter is not member}
        tasks = [each for each in theirs if each is not None]
        if not self._members:
            return [TaskResult(task=each, place=name, lost=f"{name} was lost: {why}") for each in tasks]
        for each in tasks:
            self.submit(each)
        return []


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
