"""Compile configurations ahead of their turn, in several processes, and leave the GPU to the one that is timed.

`station.LocalStation` makes one `Compilers`. It forks workers from the station's host and talks to each in a thread of its own;
what they compile goes into Triton's and ratchet's caches on disk (docs/decisions/0013-tuning-beside-the-default.md).
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable

from ratchet.errors import HostError
from ratchet.measure.client import CaseTrouble, HostClient, Hung, WorkerClient
from ratchet.measure.device.gpu import Gpu
from ratchet.measure.messages import Compiled
from ratchet.measure.tuning.timing import Aim
from ratchet.records.tuning import Configuration, Task

MOST = 12
"""Most processes beside one device."""
AT_FIRST = 2
"""Processes that start at once. Others start when they are needed: a driver makes one context at a time, and all others wait."""
SPARED_CORES = 3
"""For the controller and the two processes that are timed."""
CONTEXT_BYTES = 1 << 30
"""GPU memory that a process takes before it has allocated anything, generously."""
KNOWN = ("compile", "resources", "timeout")
"""Endings that a compiling process may decide; any other trouble is left to the process that times."""

Deliver = Callable[[Task, Compiled | None], None]


def how_many(gpu: Gpu, workload_bytes: float, stations: int = 1) -> int:
    """Return the number of compiling processes beside one device: limited by spare cores and by half of the free memory.

    0 where the memory has no room: then the process that is timed also compiles. The cores are shared by ``stations``.
    """
    cores = (len(os.sched_getaffinity(0)) - SPARED_CORES) // stations
    free = gpu.free_memory_bytes()
    room = MOST if free is None else int(free / 2 // (CONTEXT_BYTES + 2 * workload_bytes))
    return min(room, max(1, min(MOST, cores)))


class Compilers:
    """A pool that takes tasks, and delivers each with the outcome of compiling it: None where its first call has to compile."""

    def __init__(self, host: HostClient, aim: Aim, count: int, alone: threading.RLock, deliver: Deliver) -> None:
        """``deliver`` is called in threads of this object; ``alone`` is held whenever the GPU is used."""
        self._host, self._aim, self._alone, self._deliver = host, aim, alone, deliver
        self._inbox: queue.Queue[Task | None] = queue.Queue()
        self._resting = False
        self._verified: bool | None = None
        """Whether compiling launches nothing; None while that is unknown."""
        self._first = threading.Event()
        self._wanted = threading.Semaphore(AT_FIRST - 1)
        self._workers: dict[int, WorkerClient] = {}
        self.count = count
        for number in range(count):
            threading.Thread(target=self._serve, args=(number,), name=f"ratchet-compile-{number}", daemon=True).start()

    def submit(self, task: Task) -> None:
        self._inbox.put(task)

    def more(self) -> None:
        """Start one more process, up to ``count``: the device has nothing to do."""
        self._wanted.release()

    def rest(self) -> None:
        """Deliver nothing more. The processes stay, and end with their host."""
        self._resting = True
        self._wanted.release(self.count)
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()
        for _ in range(self.count):
            self._inbox.put(None)

    def _serve(self, number: int) -> None:
        if number:
            self._first.wait()  # until the first one has verified a dry call and filled the caches
            self._wanted.acquire()
        try:
            self._begin(number)
            self._first.set()
            while (task := self._inbox.get()) is not None and not self._resting:
                compiled = self._compiled(number, task.configurations[0])
                if not self._resting:
                    self._deliver(task, compiled)
        except (HostError, CaseTrouble):  # the station finds the same, and reports it
            self._lose(number)
        finally:
            self._first.set()

    def _begin(self, number: int) -> None:
        """Start a process and have it build the case, which uses the GPU. The first one also compiles the default."""
        if self._verified is False or self._resting:
            return
        self._workers[number] = self._host.fork()
        with self._alone:
            self._ask(number, self._aim.default if self._verified is None else None)

    def _compiled(self, number: int, configuration: Configuration) -> Compiled | None:
        if number not in self._workers:
            self._begin(number)
        with self._alone if self._verified is None else contextlib.nullcontext():
            found = self._ask(number, configuration)
        return found if found and (found.ending == "correct" or found.ending in KNOWN) else None

    def _ask(self, number: int, configuration: Configuration | None) -> Compiled | None:
        """Ask a compiling process, if there is one. It ends if it cannot be used again."""
        worker, plan, verify = self._workers.get(number), self._aim.plan, self._verified is None
        if worker is None:
            return None
        try:
            found = worker.ask("compile", Compiled, case=self._aim.case, seed=plan.seed, tuning=configuration, verify=verify)
        except CaseTrouble as error:
            self._lose(number)
            hung = Compiled(ending="timeout", reason=error.message, compile_s=worker.timeout_s, dry=True)
            return hung if isinstance(error, Hung) else None
        if verify and found.ending == "correct":
            self._verified = found.dry
        if self._verified is False:
            self._lose(number)
            return None
        return found

    def _lose(self, number: int) -> None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            worker.end(kill=True)
