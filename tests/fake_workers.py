"""Hosts and workers without processes: threads at the other end of the sockets that `client` talks to.

Everything of the controller is real. A `Machine` says what goes wrong and how long calls take, and keeps what happened.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from ratchet.core.bench.client import HostClient
from ratchet.core.bench.duet import Duet
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.wire import Channel, Disconnected
from ratchet.core.config import Settings
from ratchet.core.judge.rule import Rule
from ratchet.core.processes import Output
from ratchet.core.records.run import CaseRun, Config, Plan, Side
from ratchet.core.report.progress import Progress
from tests import examples

SIDES: tuple[Side, ...] = ("reference", "head")
Fault = Literal["killed", "silent", "no memory", "raises", "nonsense"]
"""What a worker does in place of an answer."""
LOSSES: tuple[Fault, ...] = ("killed", "silent", "no memory")
SAID: Mapping[Fault, str] = {
    "killed": "was killed (SIGKILL)",
    "silent": "gave no answer within 0.3 s",
    "no memory": "ran out of GPU memory",
}
"""How a lost worker is described."""


def step_s(fault: Fault) -> float:
    """Return how long to wait for workers: longer than any takes on a busy machine, unless one will be silent."""
    return 0.3 if fault == "silent" else 60.0


NO_PROCESS = itertools.count(1 << 30)
"""Numbers that no process has, so that nobody is killed."""


class Event(NamedTuple):
    """A thing that a worker did: built, timed, traced (kernels alone), checked, moved (to other cores) or ended."""

    what: str
    side: Side
    pair: int
    """-1: in the survey, or a trace."""
    case: str
    detail: Any = None


@dataclass
class Machine:
    """The behaviour of all workers, and what happened, in order."""

    fault: Callable[[Side, int, int], Fault | None] = lambda *_: None
    """Of a side, when it builds a case for a pair, in its n-th try; pair -1 is the survey."""
    call_ms: Callable[[Side, int], float] = lambda *_: 1e-4
    """Time of a call of a side in a pair."""
    samples: Callable[[Side, Sequence[float]], Sequence[float]] = lambda _, times: times
    """What a side says of its times."""
    fault_in_kernels: Callable[[Side, int], Fault | None] = lambda *_: None
    fault_in_identify: Fault | None = None
    waits_for_host: Callable[[Side], bool] = lambda _: False
    times_itself: bool = False
    results: Mapping[Side, float] | None = None
    """Results on fresh inputs, where the workload has no reference."""
    prepared: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the answer when a case is built."""
    left_changed: tuple[str, ...] = ()
    is_spent: bool = False
    host_code: Mapping[str, Any] = field(default_factory=lambda: {"unknown": "nobody asks"})
    clock: str = "cpu"
    events: list[Event] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    forks: list[bool] = field(default_factory=list)
    """Of each worker: whether it has one work queue only."""
    alive: int = 0
    building: int = 0
    most_building: int = 0
    tries: Counter[tuple[Side, int, str]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    step_s: float = 60.0
    """How long a worker is waited for: see `step_s`."""

    def happened(self, *what: str) -> list[Event]:
        return [event for event in self.events if event.what in what]

    def hosts(self, sides: Iterable[Side] = SIDES, **more: Any) -> dict[Side, HostClient]:
        return {side: host_of(self, side, **more) for side in sides}


_OPEN: list[HostClient] = []


@pytest.fixture(autouse=True)
def hosts_end() -> Iterator[None]:
    """Close the hosts of a test after it, in each file that imports this."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def host_of(
    machine: Machine,
    side: Side,
    *,
    folder: Path | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
    cases: Sequence[str] = (),
) -> HostClient:
    """Return a host whose tree imported these cases; ``files``: file → what its import changed."""
    path = folder or Path(f"/tree/{side}")
    tree = TreeSpec.of(Settings(), path, checkout=Path("/checkout"), device="cpu", gpu_uuid=None)
    ours, theirs = socket.socketpair()
    listed = [
        {
            "name": name,
            "benchmark": name.partition("/")[0],
            "config": name.partition("/")[2],
            "file": f"{name.partition('/')[0]}.py",
            "parameters": {},
            "skipped": "",
        }
        for name in cases
    ]
    channel = Channel(theirs)
    channel.send({"cases": listed, "changed": {name: list(what) for name, what in (files or {}).items()}})
    threading.Thread(target=_serve_host, args=(machine, side, channel), daemon=True).start()
    outputs = [Output(), Output()]
    for output in outputs:
        with output.handed_over():  # nobody prints
            pass
    host = HostClient(side, replace(tree, share=tree.share._replace(step_s=machine.step_s)), Channel(ours), *outputs)
    _OPEN.append(host)
    host.listing()
    return host


def _serve_host(machine: Machine, side: Side, channel: Channel) -> None:
    workers: dict[int, tuple[threading.Thread, _Worker]] = {}
    while received := channel.receive_with_files():
        message, descriptors = received
        if message["op"] == "reap":
            thread, worker = workers[message["pid"]]
            thread.join()
            channel.send({"status": worker.status})
            continue
        os.close(descriptors[1])  # nobody prints
        worker = _Worker(machine, side, Channel(socket.socket(fileno=descriptors[0])))
        thread = threading.Thread(target=worker.serve, daemon=True)
        number = next(NO_PROCESS)
        workers[number] = thread, worker
        thread.start()
        channel.send({"pid": number})
    channel.close()


class _Worker:
    """A worker at the other end of its socket."""

    def __init__(self, machine: Machine, side: Side, channel: Channel) -> None:
        self.machine, self.side, self.channel = machine, side, channel
        self.pair, self.case, self.status = -1, "", 0
        with machine.lock:
            machine.alive += 1

    def serve(self) -> None:
        with contextlib.suppress(Disconnected, OSError):
            while True:
                message = self.channel.receive(None)
                nonce = message.pop("nonce")
                answer = self._answer(message.pop("op"), message)
                if answer == "killed":
                    self.status = -9
                    break
                if answer == "silent":
                    continue
                self.channel.send({"nonce": nonce, **(_TROUBLE[answer] if isinstance(answer, str) else answer)})
        self.channel.close()
        with self.machine.lock:
            self.machine.alive -= 1
            self._note("ended")

    def _note(self, what: str, detail: Any = None) -> None:
        self.machine.events.append(Event(what, self.side, self.pair, self.case, detail))

    def _answer(self, op: str, words: dict[str, Any]) -> dict[str, Any] | Fault:
        machine, side = self.machine, self.side
        with machine.lock:
            machine.asked[op] += 1
        if op == "start":
            with machine.lock:
                machine.forks.append(words["one_queue"])
            return {"ready": True}
        if op == "prepare":
            return self._build(words)
        if op == "block":
            self._note("timed", words)
            times = [machine.call_ms(side, self.pair)] * words["samples"]
            return {"samples_ms": list(machine.samples(side, times)), "exposed": machine.waits_for_host(side)}
        if op == "kernels":
            self._note("traced")
            return machine.fault_in_kernels(side, self.pair) or {"samples_ms": [5e-5]}
        if op == "use_cores":
            self._note("moved", words["cores"])
            return {"ready": True}
        if op == "restore":
            return {"changed": list(machine.left_changed), "spent": machine.is_spent}
        if op == "finish":
            self._note("checked")
            shown = {"place": "the output", "kind": "x", "limit": 0.1}
            result = machine.results[side] if machine.results and words["evidence"] else None
            return {"error": 0, "evidence": [] if result is None else [{**shown, "norm": result, "sketch": [result]}]}
        if op == "identify":
            return machine.fault_in_identify or {"digest": "", "opaque": "nobody asks"}
        if op == "host_code":
            return dict(machine.host_code)
        assert op == "trace"
        return {"activity": {"calls": 1, "wall_s": 1}}

    def _build(self, words: dict[str, Any]) -> dict[str, Any] | Fault:
        machine = self.machine
        self.case = words["case"]
        self.pair = -1 if words["check"] else (words["seed"] - examples.PLAN.seed) // 2
        with machine.lock:
            machine.tries[self.side, self.pair, self.case] += 1
            tries = machine.tries[self.side, self.pair, self.case]
            self._note("built")
            machine.building += 1
            machine.most_building = max(machine.most_building, machine.building)
        threading.Event().wait(0.002)
        with machine.lock:
            machine.building -= 1
            if fault := machine.fault(self.side, self.pair, tries):
                return fault
        workload = examples.WORKLOAD.model_copy(update={"clock": machine.clock})
        return {
            "workload": workload.model_dump(mode="json"),
            "tuning": {},
            "error": 0,
            "peak_memory_bytes": 1,
            "stages": [],
            "foreign": [],
            "times_itself": machine.times_itself,
            "has_reference": machine.results is None,
            **machine.prepared,
        }


_TROUBLE: dict[str, dict[str, Any]] = {
    "no memory": {"trouble": "ran out of GPU memory", "stage": "prepare", "last_lines": [], "out_of_memory": True},
    "raises": {"trouble": "ValueError: no such layout", "stage": "prepare", "last_lines": []},
    "nonsense": {"no": "answer"},
}


class Quiet(Progress):
    """Nobody looks on."""


def plan(pairs: int = 4, *, gpu: bool = False, **more: Any) -> Plan:
    own = {"pairs": pairs, "blocks": 2, "block_ms": 0.3, "clock": "auto" if gpu else "cpu", "budget_s": 0.0, "sessions": False}
    return examples.PLAN.model_copy(update=own | more)


def case_of(name: str) -> CaseRun:
    return CaseRun(name=name, benchmark=name.partition("/")[0], config=Config(name=name.partition("/")[2]))


def duet_of(
    machine: Machine, chosen: Plan | None = None, *, sides: tuple[Side, ...] = SIDES, together: int = 1, **more: Any
) -> Duet:
    duet = Duet(machine.hosts(sides), chosen or plan(), Quiet(), None, **more)
    duet.ready.together = together
    return duet


def measured(duet: Duet, names: Sequence[str], rule: Rule) -> dict[str, CaseRun]:
    """Measure cases on all sides of the duet."""
    sides = tuple(side for side in SIDES if side in duet.hosts)
    return {case.name: case for case in duet.measure([case_of(name) for name in names], dict.fromkeys(names, sides), rule)}


def pairs(case: CaseRun, side: Side = "head") -> list[int]:
    return [worker.pair for worker in (case.head if side == "head" else case.reference)]
