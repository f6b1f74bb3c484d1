"""Try configurations of one case on one device: compile them ahead in several processes, and time each beside the default.

`station.LocalStation` makes both. Their workers are forked from its host; in those, `child.trials` does what is asked here.

`Compilers` compile configurations ahead of their turn, and leave the GPU to the one that is timed. Each process has a thread that
talks to it; what they compile goes into Triton's and ratchet's caches on disk.

A `Timer`, in the station's thread, lets each configuration take turns with the default, in two processes that stay. So a time is
known in terms of the default's time at the same moment, and devices, clocks and heat do not matter
(docs/decisions/0013-tuning-beside-the-default.md).
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ratchet.core.bench.client import CaseTrouble, HostClient, Hung, WorkerClient
from ratchet.core.bench.messages import Ready, Sampled
from ratchet.core.device.gpu import Gpu
from ratchet.core.errors import HostError, WorkerError
from ratchet.core.records.run import Plan
from ratchet.tune.answers import Compiled, Tried
from ratchet.tune.records import Configuration, Ending, Evaluation, Task

MOST_COMPILING = 12
"""Most processes beside one device."""
AT_FIRST = 2
"""Processes that start at once. Others start when they are needed: a driver makes one context at a time, and all others wait."""
SPARED_CORES = 3
"""For the controller and the two processes that are timed."""
CONTEXT_BYTES = 1 << 30
"""GPU memory that a process takes before it has allocated anything, generously."""
KNOWN = ("compile", "resources", "timeout")
"""Endings that a compiling process may decide; any other trouble is left to the process that times."""
FEWEST = 2
"""Turns before a configuration may be dropped."""
SLACK = 0.05
"""Fraction by which even the fastest turn must be behind: processes that run the same code differ by a percent or two."""
TURNS = 5
"""Turns of each of the two, for a configuration that is not dropped."""
MOST_SAMPLES = 10
"""Samples in one turn."""
_PATIENCE = 2
"""Losses of the default's process after which the default counts as one that gives no time."""

Deliver = Callable[[Task, Compiled | None], None]
Role = Literal["default", "candidate"]


@dataclass(frozen=True)
class TrialTarget:
    """The case that is tuned, and the plan for timing it."""

    case: str
    default: Configuration
    plan: Plan
    bytes: float = 0.0
    """Memory that a process of the case allocates, about."""


def compiling_processes(gpu: Gpu, workload_bytes: float, stations: int = 1) -> int:
    """Return the number of compiling processes beside one device: limited by spare cores and by half of the free memory.

    0 where the memory has no room: then the process that is timed also compiles. The cores are shared by ``stations``.
    """
    cores = (len(os.sched_getaffinity(0)) - SPARED_CORES) // stations
    free = gpu.free_memory_bytes()
    room = MOST_COMPILING if free is None else int(free / 2 // (CONTEXT_BYTES + 2 * workload_bytes))
    return min(room, max(1, min(MOST_COMPILING, cores)))


class Compilers:
    """A pool that takes tasks, and delivers each with the outcome of compiling it: None where its first call has to compile."""

    def __init__(self, host: HostClient, aim: TrialTarget, count: int, alone: threading.RLock, deliver: Deliver) -> None:
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


class OutOfTime(WorkerError):
    """An evaluation that the end of the time cut off; it has no result."""


@dataclass(frozen=True)
class Turns:
    """The blocks of a candidate, and those of the default between them."""

    candidate: list[tuple[float, ...]]
    default: list[tuple[float, ...]]
    dropped: bool
    """The candidate was clearly behind the best, so the last turns are missing."""


def behind(ratios: Sequence[float], best: float | None) -> bool:
    """Return whether turns, as ratios to the default's neighbouring turns, are clearly slower than the best configuration.

    Only the fastest turn counts, so that one slow turn drops no configuration.
    """
    return best is not None and len(ratios) >= FEWEST and min(ratios) > best * (1 + SLACK)


def normalised(times_ms: Sequence[float], default_ms: Sequence[float]) -> float:
    """Return the time over the default's: the median over neighbouring turns, whose clocks and temperature are alike.

    Both sequences are medians of turns in milliseconds, of the same length.
    """
    return math.exp(statistics.median(math.log(a / b) for a, b in zip(times_ms, default_ms, strict=True)))


class Timer:
    """A timer of one configuration after another on one device. For use in one thread."""

    def __init__(self, host: HostClient, aim: TrialTarget, place: str, alone: threading.RLock) -> None:
        """``alone`` is held while anything is timed, built or checked on the device."""
        self._host, self._aim, self._place, self._alone = host, aim, place, alone
        self._workers: dict[Role, WorkerClient] = {}
        self._default: Tried | None = None
        self._broken_off = 0
        self.default_failure = ""
        """Why the default gives no time; then configurations are timed alone."""

    def evaluate(self, configuration: Configuration, best: float | None, compiled: Compiled | None = None) -> Evaluation:
        """Check and time a configuration; ``compiled`` is the outcome of compiling it, if known.

        Raises OutOfTime at the host's `until`, and HostError where no worker can be forked.
        """
        began = time.monotonic()
        if compiled is not None and compiled.ending != "correct":
            return self._failed(configuration, compiled.ending, compiled.reason, compiled.compile_s, began)
        with self._alone:
            self._prepare_default()
            try:
                tried = self._try("candidate", configuration)
                if tried.call_ms is None:
                    self._end("candidate")  # it may have damaged its process and its context
                    return self._failed(configuration, tried.ending, tried.reason, tried.first_s, began)
                turns = self._turns(tried.call_ms, best)
            except CaseTrouble as error:
                if self._lost_default(error):
                    return self.evaluate(configuration, best, compiled)
                return self._broke(configuration, error, began)
        times = [statistics.median(block) for block in turns.candidate]
        beside = [statistics.median(block) for block in turns.default]
        return Evaluation(
            configuration=configuration,
            outcome="dropped" if turns.dropped else "correct",
            reason=f"clearly behind the best after {len(turns.candidate)} turns" if turns.dropped else "",
            samples_ms=tuple(sample for block in turns.candidate for sample in block),
            median_ms=statistics.median(times),
            normalised=normalised(times, beside) if beside else None,
            compile_s=compiled.compile_s if compiled else tried.first_s,
            wall_s=time.monotonic() - began,
            gpu=self._place,
            worker=str(self._workers["candidate"].pid),
            at=datetime.now(UTC),
        )

    def end(self) -> None:
        """End both workers; the next evaluation starts new ones."""
        for role in list(self._workers):
            self._end(role)
        self._default = None

    def _turns(self, call_ms: float, best: float | None) -> Turns:
        """Take turns, after one each that does not count."""
        slower = max(call_ms, self._default.call_ms or 0.0 if self._default else 0.0)
        count = min(MOST_SAMPLES, max(1, round(self._aim.plan.block_ms / slower)))
        roles: tuple[Role, ...] = ("default", "candidate") if self._default else ("candidate",)
        taken: dict[Role, list[tuple[float, ...]]] = {"default": [], "candidate": []}
        for index in range(-1, TURNS):
            for role in roles if index % 2 else roles[::-1]:
                sampled = self._workers[role].ask("block", Sampled, samples=count, place=index + 1)
                if index >= 0:
                    taken[role].append(sampled.samples_ms)
            pairs = zip(taken["candidate"], taken["default"], strict=False)
            if behind([statistics.median(mine) / statistics.median(other) for mine, other in pairs], best):
                return Turns(taken["candidate"], taken["default"], dropped=True)
        return Turns(taken["candidate"], taken["default"], dropped=False)

    def _prepare_default(self) -> None:
        """Prepare the default in a process of its own, or note why it gives no time."""
        if self._default or self.default_failure:
            return
        try:
            tried = self._try("default", self._aim.default)
        except CaseTrouble as error:
            self._end("default")
            self._refuse_late(error)
            self.default_failure = error.message
            return
        if tried.call_ms is None:
            self._end("default")
            self.default_failure = tried.reason
        else:
            self._default = tried

    def _try(self, role: Role, configuration: Configuration) -> Tried:
        plan = self._aim.plan
        if role not in self._workers:
            self._workers[role] = self._host.fork()
            self._workers[role].ask("open", Ready, case=self._aim.case, seed=plan.seed, placements=plan.placements)
        return self._workers[role].ask("try", Tried, tuning=configuration, clock=plan.clock, cache=plan.cache)

    def _lost_default(self, error: CaseTrouble) -> bool:
        """Return whether the default's process was lost: then another takes its place, until `_PATIENCE` were lost."""
        self._refuse_late(error)
        if "default" not in self._workers or self._workers["default"].alive:
            return False
        self.end()
        self._broken_off += 1
        if self._broken_off >= _PATIENCE:
            self.default_failure = error.message
        return True

    def _broke(self, configuration: Configuration, error: CaseTrouble, began: float) -> Evaluation:
        """Return the record of a configuration whose process was lost, or cannot be trusted any more."""
        self._end("candidate")
        ending: Ending = "timeout" if isinstance(error, Hung) else "crash"
        if "out of GPU memory" in error.message:
            ending = "resources"
        return self._failed(configuration, ending, " ".join([error.message, *error.last_lines[-1:]]), 0.0, began)

    def _refuse_late(self, error: CaseTrouble) -> None:
        if time.monotonic() >= self._host.until:
            self.end()
            raise OutOfTime("the time is over") from error

    def _failed(self, configuration: Configuration, ending: Ending, reason: str, compile_s: float, began: float) -> Evaluation:
        return Evaluation(
            configuration=configuration,
            outcome=ending,
            reason=reason or "no reason given",
            compile_s=compile_s,
            wall_s=time.monotonic() - began,
            gpu=self._place,
            at=datetime.now(UTC),
        )

    def _end(self, role: Role) -> None:
        worker = self._workers.pop(role, None)
        if worker is not None:
            worker.end(kill=True)
