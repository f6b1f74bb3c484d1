"""Keep the workers of both sides: fork them, build cases in them, and end them; on a GPU all of that at once.

It starts threads that wait for workers, and tells the GPU's sampler which PIDs are ours.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from ratchet.core.bench.client import CaseTrouble, HostClient, WorkerClient, refuse_foreign
from ratchet.core.bench.messages import BuiltCase, Restored
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import ForeignModuleError
from ratchet.core.records.run import SIDES, Plan, Side
from ratchet.core.units import listed, wall
from ratchet.core.untrusted import clean
from ratchet.core.workload import Parameter

MOST_AT_ONCE = 32
"""Threads that wait for workers; more than a survey has lanes."""

MOST_NAMED = 6
"""Settings that are named in one sentence about a case or a file."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Variant:
    """The case that a name stands for, perhaps with other values of its tunable parameters."""

    case: str
    tuning: Mapping[Side, Mapping[str, Parameter]]
    """Values for each side; a side that is missing here has the workload's own."""


@dataclass
class SideWorkers:
    """A worker of each side, or of one alone, and the case that they have built already."""

    workers: dict[Side, WorkerClient] = field(default_factory=dict)
    case: str = ""
    prepared: dict[Side, BuiltCase] = field(default_factory=dict)


class InWork:
    """The present work of workers, in whatever thread it is done."""

    def __init__(self) -> None:
        self._since: dict[WorkerClient, tuple[float, str]] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def during(self, worker: WorkerClient, what: str) -> Iterator[None]:
        """Note what a worker is at, unless it is noted to be at something that this is part of."""
        with self._lock:
            is_part = worker in self._since
            self._since.setdefault(worker, (time.monotonic(), what))
        try:
            yield
        finally:
            if not is_part:
                with self._lock:
                    del self._since[worker]

    def longest(self) -> str:
        """Return what has been worked at for the longest time, and for how long; nothing where nobody works."""
        with self._lock:
            if not self._since:
                return ""
            worker, (since, what) = min(self._since.items(), key=lambda item: item[1][0])
        return f"{wall(time.monotonic() - since)} at {what}" + (f": {worker.busy_with}" if worker.busy_with else "")


class Workers:
    """The workers of a plan over the hosts of one or two trees."""

    def __init__(
        self,
        hosts: Mapping[Side, HostClient],
        plan: Plan,
        sampler: Sampler | None,
        variants: Mapping[str, Variant],
        tricks: Tricks = ALL,
    ) -> None:
        self.hosts = hosts
        self.plan = plan
        self.on_gpu = plan.clock != "cpu"
        self._tricks = tricks
        self.prepared_alone: set[str] = set()
        """Cases that time their own code while they are prepared."""
        self.one_queue = False
        """The cases that are timed need no more than one work queue of the GPU."""
        self._changed: dict[Side, dict[str, tuple[str, ...]]] = {side: {} for side in SIDES}
        """Case → what it left changed in its process."""
        self._built: dict[Side, set[str]] = {side: set() for side in SIDES}
        self._fresh: dict[Side, set[str]] = {side: set() for side in SIDES}
        self._compiles = False
        self.in_work = InWork()
        self._variants = variants
        self._sampler = sampler
        # On the CPU the workers of both sides share their cores, so nothing happens at once.
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, "ratchet-workers") if self.on_gpu else None
        self._ending: set[Future[None]] = set()

    @property
    def in_parallel(self) -> bool:
        return self.on_gpu and self._tricks.side_by_side

    def prepare(
        self,
        side: Side,
        worker: WorkerClient,
        name: str,
        seed: int,
        *,
        check: bool,
        crowded: bool = False,
        placements: int | None = None,
    ) -> BuiltCase:
        """Build a case in a worker. Raises CaseTrouble, and ForeignModuleError for a module from outside the tree.

        ``crowded``: other workers use the device meanwhile. ``placements``: at most so many, instead of those of the plan.
        """
        plan, variant = self.plan, self._variants.get(name, Variant(name, {}))
        worker.case = name
        with self.in_work.during(worker, f"{name} ({side})"):
            prepared = worker.ask(
                "prepare",
                BuiltCase,
                case=variant.case,
                seed=seed,
                check=check,
                clock=plan.clock,
                cache=plan.cache,
                placements=placements or plan.placements,
                tuning=variant.tuning.get(side),
                crowded=crowded,
                each_process=plan.tunes_each_process,
            )
        refuse_foreign(side, prepared.foreign)
        self._built[side] |= set(prepared.built)
        self._fresh[side] |= set(prepared.fresh)
        self._compiles |= prepared.compiles
        if shared := self._of_both(self._built):
            raise ForeignModuleError(
                f"Both sides loaded {clean(shared[0])}: one build for two trees, so a change of its source would not be timed.",
                "Build it into a folder of the tree: by build in [tool.ratchet], or by a path relative to the benchmark file.",
            )
        return prepared

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for the report: files that one side may have made for both, and what files and cases left changed."""
        notes = []
        if shared := self._of_both(self._fresh):
            whose = "Written during the run and used by both sides; if this repository's code makes it, one side had the other's"
            notes.append(f"{whose}: {clean(listed(shared, 2))}. More: `ratchet explain cuda-c`.")
        return (*notes, *self._left_changed())

    def _left_changed(self) -> list[str]:
        """Return a sentence for each file whose import, and each case whose code, changes settings of the whole process."""
        sides: dict[str, list[Side]] = {}
        for side, host in self.hosts.items():
            listing, tree = host.listing(), host.tree
            files = {case.name: case.file for case in listing.cases}
            found = [
                f"Importing {tree.bench}/{file} changes {listed(names, MOST_NAMED)}. That holds for the cases of this file "
                f"alone: if others need it, let their files set it too."
                for file, names in listing.changed.items()
            ] + [
                f"{name} ({tree.bench}/{files.get(name, '')}) leaves changed: {listed(names, MOST_NAMED)}. No other case was "
                f"measured with that. Undo it in what is timed, or set it at the top of the file, for its cases alone."
                for name, names in self._changed[side].items()
            ]
            if listing.threads > tree.share.threads and self.plan.clock == "cpu":
                found.append(
                    f"Importing {tree.bench}/ sets torch to {listing.threads} threads. A measurement on the CPU has no more than "
                    f"cpu_threads = {tree.share.threads} in [tool.ratchet], so it ran with {tree.share.threads}."
                )
            for sentence in found:
                sides.setdefault(clean(f"{sentence} More: `ratchet explain settings-of-the-process`.", 1000), []).append(side)
        return [text if len(of) == len(self.hosts) else f"{of[0].capitalize()}: {text}" for text, of in sides.items()]

    def _of_both(self, files: Mapping[Side, set[str]]) -> list[str]:
        """Return the files of both sides, if these are two trees."""
        are_two = len({host.tree.path for host in self.hosts.values()}) == len(SIDES)
        return sorted(set.intersection(*files.values())) if are_two else []

    def fork_missing(self, pair: SideWorkers, side: Side, name: str) -> None:
        """Fork a worker of this side for the pair, unless it has one that may take this case. Raises HostError."""
        worker = pair.workers.get(side)
        if worker and worker.case not in ("", name):
            pair.case, pair.prepared = "", {}
            if not (self.on_gpu and self.restored(side, worker)):
                self.let_go(pair.workers.pop(side))
        if side not in pair.workers:
            pair.workers[side] = self.fork(side, one_queue=self.one_queue)

    def restored(self, side: Side, worker: WorkerClient) -> bool:
        """Return whether a worker may take another case: its process is as it was before the last one.

        On the CPU it never is, since a process of its own for each case is certain and takes 20 ms. On a GPU, where that would
        be a third of a second, the worker restores what it can, and says whether anything stayed (docs/decisions/0026-state.md).
        """
        try:
            answer = worker.ask("restore", Restored)
        except CaseTrouble:  # its process is lost
            return False
        if answer.changed:
            self._changed[side][worker.case] = answer.changed
        return self.on_gpu and self._tricks.keep_workers and not answer.spent

    def fork(self, side: Side, *, one_queue: bool = False, watched: bool = False) -> WorkerClient:
        """Return a fresh worker with a usable device: sooner with ``one_queue`` (see `HostClient.fork`). Raises HostError."""
        worker = self.hosts[side].fork(
            with_compiler=self._compiles and self._tricks.compiler_first,
            one_queue=one_queue and self._tricks.one_queue,
            watched=watched,
        )
        if self._sampler:
            self._sampler.note_worker(worker.pid, alive=True)
        return worker

    def end(self, worker: WorkerClient) -> None:
        worker.end()
        if self._sampler:
            self._sampler.note_worker(worker.pid, alive=False)

    def stop_workers(self, pair: SideWorkers) -> None:
        """Let go of the workers of a pair, and of what they have built; it can get others."""
        pair.case, pair.prepared = "", {}
        for side in list(pair.workers):
            self.let_go(pair.workers.pop(side))

    def let_go(self, worker: WorkerClient) -> None:
        """End a worker. On a GPU nobody waits for it: the next one can get its device meanwhile."""
        if self._pool and self._tricks.end_behind:
            self._ending.add(self._pool.submit(self.end, worker))
        else:
            self.end(worker)

    def wait_for_ends(self) -> None:
        """Wait for the workers that were let go: their memory is free then. Several threads may do that."""
        self._ending -= wait(self._ending).done

    def run_concurrently(self, calls: Iterable[Callable[[], Answer]], *, concurrent: bool = True) -> list[Answer]:
        """Make these calls, on a GPU in threads of their own if ``concurrent``. Raises the first call's error that there is."""
        if self._pool is None or not (concurrent and self._tricks.side_by_side):
            return [call() for call in calls]
        futures = [self._pool.submit(call) for call in calls]
        wait(futures)
        return [future.result() for future in futures]
