"""Do the work of tuning on one device: compile and time configurations, and confirm the best few.

`ratchet tune` has a `LocalStation` for each device, on this host or in a Ray actor. It starts a
host with its workers, works in a daemon thread, and watches the GPU during the finals. It writes no record.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet.core.bench.client import HostClient, Hosts
from ratchet.core.bench.duet import Duet
from ratchet.core.bench.lost import SILENCE
from ratchet.core.bench.ready.workers import Variant
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import RatchetError
from ratchet.core.judge.comparison import FEWEST_PAIRS, compare_workers
from ratchet.core.records.run import SIDES, CaseRun, Config, Side
from ratchet.core.report.progress import Progress
from ratchet.core.workload import Device
from ratchet.tune.answers import Compiled
from ratchet.tune.executor import Report
from ratchet.tune.judge import FinalsRule
from ratchet.tune.records import Configuration, Confirmation, Task, TaskResult
from ratchet.tune.trials import Compilers, OutOfTime, Timer, TrialTarget, compiling_processes


@dataclass(frozen=True)
class StationPlace:
    """A checkout and a device to tune on."""

    root: Path
    """The checkout, measured in place."""
    settings: Settings
    device: Device
    gpu: Gpu | None
    environ: Mapping[str, str]
    logs: Path

    @property
    def name(self) -> str:
        return f"{self.gpu.name} [{self.gpu.index}]" if self.gpu else "CPU"

    def hosts(self) -> Hosts:
        """Start a host for the checkout; it takes seconds until it lists its cases."""
        address = self.gpu.address if self.gpu else None
        return Hosts(
            {"head": TreeSpec.of(self.settings, self.root, checkout=self.root, device=self.device, gpu_uuid=address)},
            self.environ,
        )


def confirmation(configuration: Configuration, measured: CaseRun, confidence: float, *, late: bool) -> Confirmation:
    found, reason = compare_workers(measured.head, measured.reference, confidence), ""
    # A worker that the end of the time cut off has not failed; whatever else was wrong by then, it was.
    failure = next((one for one in measured.failures if not (late and one.message.startswith(SILENCE))), None)
    if failure is not None:
        found, reason = None, f"{failure.side}, {failure.stage}: {failure.message}"
    elif measured.unfit is not None:
        found, reason = None, measured.unfit
    elif found is None:
        reason = f"only {len(measured.head)} of the {FEWEST_PAIRS} pairs that an interval needs were there in time"
    return Confirmation(configuration=configuration, config=measured.config.name, comparison=found, reason=reason)


_AHEAD = 2
"""Tasks beyond those that are being compiled, so that the device does not wait for the search."""


class LocalStation:
    """The station on one device of this host."""

    def __init__(self, place: StationPlace, aim: TrialTarget, hosts: Hosts, stations: int = 1) -> None:
        """Take over ``hosts``, whose head may still be importing its benchmarks; they belong to the station from now on.

        ``stations`` share the cores of this host.
        """
        self._place, self._aim = place, aim
        self._hosts, self._head = hosts, hosts.sides["head"]
        self._report: Report
        self._ready: queue.Queue[tuple[Task, Compiled | None] | None] = queue.Queue()
        self._early: list[Task] | None = []
        """Tasks from before the host was ready to compile; None from then on."""
        self._in_hand: dict[int, Task] = {}
        self._timed: int | None = None
        self._lock = threading.Lock()
        self._alone = threading.RLock()
        self._closed = False
        self._gone = ""
        """Why nothing can be done here any more."""
        self._confirm_until = math.inf
        self._compilers: Compilers | None = None
        self._processes = compiling_processes(place.gpu, aim.bytes, stations) if place.gpu else 0
        self._timer = Timer(self._head, aim, place.name, self._alone)
        threading.Thread(target=self._work, name=f"ratchet-station-{place.name}", daemon=True).start()

    @property
    def places(self) -> tuple[str, ...]:
        return () if self._closed or self._gone else (self._place.name,)

    @property
    def room(self) -> int:
        """The number of tasks that may be submitted now."""
        ahead = self._processes + _AHEAD if self._processes else 1
        return max(0, ahead - len(self._in_hand)) if self.places else 0

    def report_to(self, report: Report) -> None:
        """Call ``report`` with each result. Called once, before the first task."""
        self._report = report

    def submit(self, task: Task) -> None:
        """Queue a task; its result says so at once where the station is lost."""
        with self._lock:
            if self._gone:
                self._report(TaskResult(task=task, place=self._place.name, lost=self._gone))
                return
            self._in_hand[task.number] = task
            until = time.monotonic() + task.seconds if task.seconds is not None else math.inf
            if task.what == "confirm":
                self._confirm_until = until
            elif task.seconds is not None:
                self._head.until = until
            if self._early is not None:
                self._early.append(task)
            else:
                self._enter(task)

    def withdraw(self) -> None:
        """Drop all tasks but the one that is being timed."""
        with self._lock:
            if self._compilers is not None:
                self._compilers.rest()  # not ended: while a driver takes down a dozen processes, no other one gets its device
                self._compilers = None
            if self._early is not None:
                self._early.clear()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._ready.get_nowait()
            self._in_hand = {number: task for number, task in self._in_hand.items() if number == self._timed}

    def close(self) -> None:
        """End the station and its host, with everything that runs there."""
        self._closed = True
        self.withdraw()
        self._ready.put(None)
        self._hosts.__exit__()

    def _enter(self, task: Task) -> None:
        if self._compilers is not None and task.what == "evaluate":
            self._compilers.submit(task)
        else:
            self._ready.put((task, None))

    def _work(self) -> None:
        try:
            self._begin()
            while not self._closed and (entry := self._next()) is not None:
                task, compiled = entry
                self._timed = task.number
                self._report_done(self._carried_out(task, compiled))
        except RatchetError as error:  # of the host: nothing can be forked here any more
            if not self._closed:
                self._report_lost(str(error))

    def _next(self) -> tuple[Task, Compiled | None] | None:
        """Return the next task that is ready for the device, None at the end. A device that waits needs more compilers."""
        with contextlib.suppress(queue.Empty):
            return self._ready.get_nowait()
        with self._lock:
            if self._compilers is not None:
                self._compilers.more()
        return self._ready.get()

    def _begin(self) -> None:
        """Wait for the host's cases, and pass the tasks that came meanwhile on to the compilers."""
        self._head.listing()
        with self._lock:
            if self._processes and not self._closed:
                self._compilers = Compilers(self._head, self._aim, self._processes, self._alone, self._deliver)
            early, self._early = self._early or [], None
            for task in early:
                self._enter(task)

    def _deliver(self, task: Task, compiled: Compiled | None) -> None:
        if task.number in self._in_hand:
            self._ready.put((task, compiled))

    def _carried_out(self, task: Task, compiled: Compiled | None) -> TaskResult | None:
        """Return the result of a task; None where the time was over in the middle of it."""
        if task.what == "confirm":
            return TaskResult(task=task, place=self._place.name, confirmations=self._confirmed(task))
        try:
            evaluation = self._timer.evaluate(task.configurations[0], task.best, compiled)
        except OutOfTime:
            return None
        return TaskResult(task=task, place=self._place.name, evaluation=evaluation)

    def _confirmed(self, task: Task) -> tuple[Confirmation, ...]:
        """Compare each of the task's configurations with the default, as a check compares two commits. Raises HostError.

        Ends when the task's time is over, with the pairs that there are.
        """
        self._timer.end()  # the pairs have the device to themselves
        policy, gpu = self._place.settings.policy, self._place.gpu
        seconds = max(0.0, self._confirm_until - time.monotonic())
        until = time.monotonic() + seconds
        hosts: dict[Side, HostClient] = {"reference": self._head.named("reference"), "head": self._head}
        for host in hosts.values():
            host.until = until
        benchmark, _, config = task.case.partition("/")
        finalists = {str(number): each for number, each in enumerate(task.configurations)}
        cases = [CaseRun(name=name, benchmark=benchmark, config=Config(name=config)) for name in finalists]
        variants = {name: Variant(task.case, {"head": each}) for name, each in finalists.items()}
        # The next pair may take as long as the last one: in the last tenth of the time none begins.
        plan = self._aim.plan.model_copy(update={"budget_s": max(0.1, seconds * 0.9)})
        with Sampler(gpu) if gpu else contextlib.nullcontext() as sampler:
            duet = Duet(hosts, plan, Progress(), sampler, variants=variants)
            measured = duet.measure(cases, dict.fromkeys(finalists, SIDES), FinalsRule(policy, plan.pairs))
        late = time.monotonic() >= until
        return tuple(confirmation(finalists[case.name], case, policy.confidence, late=late) for case in measured)

    def _report_done(self, done: TaskResult | None) -> None:
        self._in_hand.pop(self._timed or 0, None)
        self._timed = None
        if done is not None and not self._closed:
            self._report(done)

    def _report_lost(self, why: str) -> None:
        with self._lock:
            self._gone = why
            lost, self._in_hand = list(self._in_hand.values()), {}
        for task in lost:
            self._report(TaskResult(task=task, place=self._place.name, lost=why))
