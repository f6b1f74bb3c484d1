"""A worker process: it is forked from a host, owns a device context, answers one request at a time, and ends with its pair.

`_OPERATIONS` at the end of this file maps requests to the methods of `Worker`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch

from ratchet import tools
from ratchet.core.bench.child import correctness, outputs
from ratchet.core.bench.child.calls import TimedCall, forget_compiled
from ratchet.core.bench.child.kernel_times import kernels_ms
from ratchet.core.bench.child.loader import LoadedTree, use_last_cores
from ratchet.core.bench.child.outputs import Part, kind
from ratchet.core.bench.clocks import (
    Call,
    Clock,
    ColdGraphClock,
    CpuClock,
    EventClock,
    GraphClock,
    LaunchDelay,
    Samples,
    copies,
    first_use_ms,
    host_times,
)
from ratchet.core.bench.cores import keep_to
from ratchet.core.bench.wire import Channel
from ratchet.core.errors import described
from ratchet.core.processes import begin_section
from ratchet.core.units import parse_size
from ratchet.core.untrusted import clean
from ratchet.core.workload import Workload

identity, host_code = tools.part("launches"), tools.part("host_code")
autotuning, boundary, imports = tools.part("autotuning"), tools.part("case_boundary"), tools.part("import_watch")
PLACED_BYTES = 1 << 30
"""Most bytes that several copies of one workload may take together (docs/decisions/0005-clocks.md, placements)."""
EXPOSED_TRIES, HIDDEN_TRIES, EXPOSED_MS = 8, 3, 6.0
"""Blocks, at most, that `identify` times to learn whether the GPU waits for the host; how many in a row in which it does not are
enough; and about how many ms each takes."""

# Bound here, before an author's code is imported: if that replaces these functions, the measurement must not change.
_collect, _collector_off, _collector_on = gc.collect, gc.disable, gc.enable
_synchronize, _empty_cache = torch.cuda.synchronize, torch.cuda.empty_cache
_reset_peak, _peak_allocated = torch.cuda.reset_peak_memory_stats, torch.cuda.max_memory_allocated
_OutOfGpuMemory = torch.OutOfMemoryError
_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "CUDA error: out of memory")
"""Words of errors that are not a MemoryError but mean one."""
SAID_EACH_S = 0.5
"""Seconds between two news of what a worker is busy with."""
MOST_SHARED = 50
"""Files outside the trees that are named to the controller."""
WATCHED_CALLS, WATCHED_S = 64, 0.05
"""Calls that are watched for what they touch, and after how long no more begins: some do not all do the same."""
HOST_CALLS = 50
"""Calls whose host time is taken in one process."""
MOST_PADDING = 3000
"""Padding objects of each kind; all of them take some milliseconds and at most 16 MiB."""


@dataclass
class Job:
    """The case that is prepared."""

    case: str
    tuning: Mapping[str, Any] | None
    """Values in place of the workload's own."""
    calls: tuple[TimedCall, ...]
    """One for each place in memory at which the workload was built. The first has been called."""
    clocks: tuple[Clock, ...]
    cache: Literal["cold", "warm"]

    @property
    def call(self) -> TimedCall:
        return self.calls[0]


def serve(channel: Channel, tree: LoadedTree) -> NoReturn:
    """Answer until the controller closes the channel. Never returns: the process was forked from a host."""
    news = _News(channel)
    worker, has_copies = Worker(tree, news.say), mmap.mmap(-1, 1)  # a byte that copies of this process share with it
    os.register_at_fork(after_in_child=partial(copies.append, 1))
    try:
        while True:
            message = channel.receive(None)
            nonce = message.pop("nonce", None)
            with news.during(message["op"]):
                try:
                    answer = worker.answer(message)
                finally:
                    if copies:  # the author's code made a copy of this process, and came back in it
                        has_copies[0] = 1
                        os._exit(0)
            if has_copies[0]:
                answer = {"stage": message["op"], "trouble": _COPIED, "last_lines": []}
            try:
                channel.send({**answer, "nonce": nonce})
            except (TypeError, ValueError) as error:  # an infinite number of bytes, a tuning that is no int
                trouble = f"the workload cannot be recorded: {error}"
                channel.send({"stage": "prepare", "trouble": trouble, "last_lines": [], "nonce": nonce})
    finally:
        # The controller is gone. Skips destructors and exit hooks inherited from the host; the driver frees the device's memory.
        os._exit(0)


_COPIED = (
    "the benchmark made a copy of its process (os.fork) that did not end: end it with os._exit(0), or use subprocess or "
    "multiprocessing"
)


class _News:
    """News for the controller of this process's work: while a case is prepared, and twice a second at most."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._lock = channel, threading.Lock()
        self._is_open, self._said = False, 0.0

    @contextlib.contextmanager
    def during(self, operation: str) -> Iterator[None]:
        """Let `say` pass what happens meanwhile, unless that may be timed."""
        self._is_open = operation == "prepare"
        try:
            yield
        finally:
            with self._lock:  # then no thread is still sending
                self._is_open = False

    def say(self, what: str) -> None:
        with self._lock:
            if self._is_open and time.monotonic() - self._said > SAID_EACH_S:
                self._said = time.monotonic()
                self._channel.send({"busy_with": what})


class Worker:
    """The state between requests: the device, and the case that was prepared last."""

    def __init__(self, tree: LoadedTree, say: Callable[[str], None] = lambda _: None) -> None:
        """``say`` tells the controller what this process is busy with, until it answers; any thread may call it."""
        self.tree = tree
        self.device = torch.device(tree.spec.device)
        self._settle: Call | None = _synchronize if self.device.type == "cuda" else None
        self._job: Job | None = None
        self._cores = os.sched_getaffinity(0)
        self._padding: list[object] = []
        self._boundary = boundary.CaseBoundary(tree)
        self.kept: dict[str, Any] = {}
        """What a tool keeps from one request to the next."""
        self._autotuning = autotuning.AutotuneWatch(say)
        self._late: Any = None
        """`imports.LateImports`, once a case is checked."""
        self._streams: int | None = None
        """`identity.streams_of_others` before any case was built, if that is known."""

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request; an error of the author's code becomes a `messages.Trouble`."""
        stage = str(message["op"])
        if "case" in message:
            begin_section(message["case"])
        try:
            return _OPERATIONS[stage](self, **{name: value for name, value in message.items() if name != "op"})
        except correctness.WrongResult as error:
            return {"stage": "check", "trouble": f"wrong result: {error}", "last_lines": []}
        except _OutOfGpuMemory as error:
            lines = str(error).splitlines()[:3]
            return {"stage": stage, "trouble": "ran out of GPU memory", "last_lines": lines, "out_of_memory": True}
        except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything; it costs this case
            text, last_lines = described(error, str(self.tree.spec.path))
            return {
                "stage": stage,
                "trouble": text,
                "last_lines": last_lines,
                "out_of_memory": isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY),
            }

    def start(self, *, one_queue: bool, watched: bool = False) -> dict[str, Any]:
        """Get the device ready: a CUDA context, or the cores for the CPU. ``one_queue``: all streams may share a work queue.

        ``watched``: the first case that is prepared will be asked for its `host_code`; nothing may be timed before that.
        """
        if self.tree.proof:
            self.tree.proof.forked(watched=watched)
        if self.device.type == "cuda":
            with one_work_queue() if one_queue else contextlib.nullcontext():
                torch.zeros(1, device=self.device)
                torch.cuda.synchronize()
            self._streams = identity.streams_of_others() if one_queue else None
            return {"ready": True, "l2_bytes": int(torch.cuda.get_device_properties(self.device).L2_cache_size)}
        use_last_cores(self.tree.spec.share.threads)
        return {"ready": True}

    def prepare(
        self,
        case: str,
        seed: int,
        clock: str,
        cache: Literal["cold", "warm"],
        placements: int,
        *,
        check: bool,
        tuning: Mapping[str, Any] | None = None,
        crowded: bool = False,
        each_process: bool = False,
    ) -> dict[str, Any]:
        """Build a case at several places in memory, call it, and check its result if asked to; it is the prepared case now.

        ``crowded``: other workers use the device meanwhile. ``each_process``: an autotuner takes no choice of another process.
        """
        self.release()
        if check:
            self._late = self._late or imports.LateImports(self._boundary.changes)
        self.begin(case, is_watched=check)
        self._autotuning.forget(crowded=crowded, each_process=each_process)
        forget_compiled(in_parallel=check)
        if self.device.type == "cpu":
            self._padding = padding_objects(seed)
        call = TimedCall(self.tree.build(case, seed, tuning))
        checked = self._checked(call, evidence=True) if check else {"error": 0.0, "evidence": []}
        peak, parts = self._peak(call)
        workload, name = call.workload, self.clock_of(call.workload, clock, parts)
        dtype = workload.dtype or kind(next(iter(parts.values())))
        del parts
        more = [TimedCall(self.tree.build(case, seed, tuning)) for _ in range(1, self.places_for(placements, peak))]
        made = self.take_up(case, tuning, (call, *more), name, cache)
        self.forget_memory()
        return {
            "workload": self.identity_of(case, workload, dtype, made.name, made.cache),
            "tuning": dict(workload.tuning),
            "has_reference": workload.reference is not None,
            **checked,
            "peak_memory_bytes": peak,
            "memory_limit_bytes": None if workload.memory_limit is None else parse_size(workload.memory_limit),
            "stages": list(workload.stages),
            "foreign": self.tree.provenance.foreign(),
            "built": sorted(self.tree.provenance.built)[:MOST_SHARED],
            "fresh": sorted(self.tree.provenance.fresh)[:MOST_SHARED],
            "times_itself": self._autotuning.seen or torch.backends.cudnn.benchmark,
            "places": 1 + len(more),
            "compiles": "torch._inductor.compile_fx" in sys.modules,
            "late": self._late.modules if self._late else (),
            "choices": self._autotuning.choices,
        }

    def identify(self) -> dict[str, Any]:
        """Return the identity of the prepared case's launches. This drops the case."""
        job = self.current()
        call, clock = job.call, job.clocks[0]
        del job
        waits = self.device.type == "cuda"  # until it is known that it does not; what the CPU's clock times is the host itself
        busy = None
        try:
            # The workload's other placements hold memory that nobody has written yet, so no two processes agree on its content.
            self.release()
            if clock.name != "cpu":
                waits, busy = _waits_for_host(clock)
            device, by_graph = "cpu" if clock.name == "cpu" else "cuda", clock.name in ("graph", "cold-graph")
            del clock  # with what it allocated for itself
            self.forget_memory()
            found = vars(identity.of(call, self.tree.provenance.tree, device))
            # A graph runs in as many queues as it needs, whatever streams it was captured from.
            uses_one_stream = by_graph or (self._streams is not None and self._streams == identity.streams_of_others())
            return {**found, "waits_for_host": waits, "busy_cores": busy, "one_by_one": found["one_by_one"] and uses_one_stream}
        except (Exception, SystemExit) as error:  # noqa: BLE001  as in `answer`, but this must not cost the case
            return {**vars(identity.failed(error)), "waits_for_host": waits, "busy_cores": busy}

    def host_code(self) -> dict[str, Any]:
        """Return what the prepared case has noticed of the difference between its tree and the other one.

        What an earlier case has done in this process (filled a cache, imported a module) this one does not do again: ask in a
        worker that has prepared nothing else.
        """
        job, proof = self.current(), self.tree.proof
        if proof is None:
            return dict(vars(host_code.Noticed(unknown="its tree was not compared before it was imported")))
        try:
            ends = time.monotonic() + WATCHED_S
            _collector_off()  # as while it is timed
            for _ in range(WATCHED_CALLS):
                job.call()
                if self._settle:
                    self._settle()
                if time.monotonic() > ends:
                    break
            return dict(vars(self._boundary.apart(proof.result)))
        except (Exception, SystemExit) as error:  # noqa: BLE001  as in `answer`, but this must not cost the case
            why = clean(f"looking at its host code failed: {type(error).__name__}: {error}")
            return dict(vars(host_code.Noticed(unknown=why)))
        finally:
            _collector_on()

    def restore(self) -> dict[str, Any]:
        """Release the prepared case, and restore what it left changed in this process, so that another case can begin."""
        self.release()
        return dict(self._boundary.restore().model_dump())

    def use_cores(self, cores: Sequence[int]) -> dict[str, Any]:
        """Keep the main thread to the first of these cores, and others to the rest; if there are none, free them again."""
        if cores:
            for call in self.current().calls[1:]:
                call()  # a thread that a first call starts would begin on the main thread's core
        keep_to(cores[:1] or self._cores, cores[1:] or self._cores)
        return {"ready": True}

    def block(self, samples: int, place: int, *, untimed: bool = True) -> dict[str, Any]:
        """Take samples of the prepared case; ``place`` counts through its places in memory.

        Without ``untimed``, a clock that can do without an untimed call before them makes none.
        """
        clocks = self.current().clocks
        clock = clocks[place % len(clocks)]
        take = partial(clock.take, untimed=untimed) if isinstance(clock, CpuClock) else clock.take
        taken = _without_collector(take, samples)
        return {"samples_ms": taken.times_ms, "exposed": taken.exposed}

    def stage(self, name: str, samples: int) -> dict[str, Any]:
        job = self.current()
        call, on_host = job.call.workload.stages[name], job.clocks[0].name == "cpu"
        if not on_host:  # perhaps this stage works on the host, in a case that is timed on the GPU
            if job.call.before is not None:
                job.call.before()
            on_host = outputs.is_on_host(call())
        clock = make_clock("cpu" if on_host else "event", job.cache, call, before=job.call.before, settle=self._settle)
        taken = _without_collector(clock.take, samples)
        return {"samples_ms": taken.times_ms, "exposed": taken.exposed}

    def kernels(self, samples: int) -> dict[str, Any]:
        """Take samples of the time that the kernels of the prepared case take, without the host's."""
        job = self.current()
        try:
            return {"samples_ms": kernels_ms(job.call.run, job.call.before, samples)}
        except (Exception, SystemExit):  # noqa: BLE001  if another profiler holds CUPTI, only these samples are lost
            return {"samples_ms": ()}

    def overheads(self, case: str, seed: int, caches: str, *, host_time: bool) -> dict[str, Any]:
        """Use a case twice, the first time with the empty folder ``caches`` for what compilers keep; then time its host.

        Nothing may be prepared in this process before, and nothing afterwards.
        """
        self.begin(case)
        self._autotuning.forget(crowded=False, each_process=bool(caches))
        forget_compiled(in_parallel=False)
        if caches:
            os.environ.update(TRITON_CACHE_DIR=f"{caches}/triton", TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor")

        def use() -> TimedCall:
            call = TimedCall(self.tree.build(case, seed))
            call()
            return call

        answer: dict[str, Any] = {}
        if caches:
            answer["compile_time"] = first_use_ms(use, self._settle)
        if host_time:
            call = use()
            take = partial(host_times, call.run, call.before, _synchronize)
            answer["host_time"] = statistics.median(_without_collector(take, HOST_CALLS).times_ms)
        return answer

    def finish(self, seed: int, *, evidence: bool = False) -> dict[str, Any]:
        """Check once more, on inputs from a fresh seed: this detects a result that was kept from earlier calls."""
        job = self.current()
        case, tuning = job.case, job.tuning
        del job
        self.release()
        checked = self._checked(TimedCall(self.tree.build(case, seed, tuning)), evidence=evidence)
        self.release()
        return checked

    def begin(self, case: str, *, is_watched: bool = False) -> None:
        """Begin a case; on the CPU a worker takes one case only, and is watched to name what that leaves changed."""
        self._boundary.begin(case, watched=is_watched or self.device.type == "cuda")

    def take_up(
        self,
        case: str,
        tuning: Mapping[str, Any] | None,
        calls: tuple[TimedCall, ...],
        clock: str,
        cache: Literal["cold", "warm"],
    ) -> Clock:
        """Make these calls, one for each place in memory, the prepared case."""
        lead = LaunchDelay()
        settle = None if calls[0].workload.clock == "cpu" else self._settle
        clocks = tuple(make_clock(clock, cache, each.run, lead, each.before, settle) for each in calls)
        self._job = Job(case, tuning, calls, clocks, cache)
        return clocks[0]

    def clock_of(self, workload: Workload, wanted: str, parts: Mapping[str, Part]) -> str:
        """Return the name of the clock: the host's, if no part of the result is on the GPU and the workload names no clock."""
        on_gpu = not parts or any(isinstance(part, torch.Tensor) and part.is_cuda for part in parts.values())
        if self.device.type == "cpu" or workload.clock == "cpu" or not (on_gpu or workload.clock):
            return "cpu"
        return (workload.clock or "event") if wanted == "auto" else wanted

    def _checked(self, call: TimedCall, *, evidence: bool) -> dict[str, Any]:
        checked = correctness.check(call)
        parts: list[dict[str, Any]] = []
        # What has a reference is checked already, so it need not be comparable between processes.
        with contextlib.suppress(*((TypeError, correctness.WrongResult) if call.workload.reference else ())):
            parts = [part.model_dump() for part in correctness.evidence(call.workload, checked.parts)] if evidence else []
        return {"error": checked.error, "evidence": parts}

    def identity_of(self, case: str, workload: Workload, dtype: str, clock: str, cache: str) -> dict[str, Any]:
        return {
            "parameters": self.tree.case(case).parameters,
            "device": "cpu" if clock == "cpu" else self.device.type,
            "dtype": dtype,
            "flops": None if workload.flops is None else float(workload.flops),
            "bytes": None if workload.bytes is None else float(workload.bytes),
            "clock": clock,
            "cache": cache,
        }

    def places_for(self, wanted: int, peak: int) -> int:
        """Return how often to build the workload: where its data lies changes a short kernel's time by a percent or two."""
        return max(1, min(wanted, PLACED_BYTES // max(1, peak))) if self.device.type == "cuda" else 1

    def _peak(self, call: TimedCall) -> tuple[int, dict[str, Part]]:
        """Return the most bytes held during one call, inputs included, and its result.

        They are those of the device; on the CPU those of the process, with copies of what the call changes.
        """
        if call.before is not None:
            call.before()
        if self.device.type == "cuda":
            self.forget_memory()
            _reset_peak()
            result = call.run()
            _synchronize()
            return int(_peak_allocated()) - call.kept.device_bytes, call.outputs(result)
        _collect()
        with contextlib.suppress(OSError):  # where it is not allowed, the peak is that of the process so far
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM: proc(5)
        result = call.run()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024, call.outputs(result)

    def current(self) -> Job:
        if self._job is None:
            raise RuntimeError("no case is prepared")
        return self._job

    def release(self) -> None:
        self._job = None
        self.forget_memory()

    def forget_memory(self) -> None:
        _collect()
        if self.device.type == "cuda":
            _synchronize()
            _empty_cache()


def make_clock(
    name: str,
    cache: Literal["cold", "warm"],
    call: Call,
    lead: LaunchDelay | None = None,
    before: Call | None = None,
    settle: Call | None = None,
) -> Clock:
    """Make the clock of this name (``event``, ``graph``, ``cold-graph`` or ``cpu``); ``cache`` is a choice for ``event`` alone.

    ``before`` is called before each call and not timed; the CPU's clock calls ``settle`` after each call, timed.
    """
    if name == "event":
        return EventClock(call, cache, lead, before)
    if name == "cpu":
        return CpuClock(call, before, settle)
    return ColdGraphClock(call, before) if name == "cold-graph" else GraphClock(call, before)


@contextlib.contextmanager
def one_work_queue() -> Iterator[None]:
    """Have a CUDA context that is made meanwhile get one work queue, not eight. What the user has set stays.

    The driver makes the queues of all processes one after the other, so that a context takes a third of the time. The author's
    code sees no variable: Python has a copy of the environment, which is not changed here.
    CUDA C++ Programming Guide, section CUDA Environment Variables.
    """
    name = b"CUDA_DEVICE_MAX_CONNECTIONS"
    if name in os.environb:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setenv(name, b"1", 1)
    try:
        yield
    finally:
        libc.unsetenv(name)


def padding_objects(seed: int) -> list[object]:
    """Return objects that move whatever is built next to places in memory that depend on the seed. Keep them with the workload.

    A change of code moves what lies beside it in memory, which alone changes times on the CPU by some per cent. The two workers
    of a pair share a seed, and each pair has another: so unchanged code has one layout on both sides, and changed code has many.
    C. Curtsinger and E. Berger, STABILIZER: Statistically Sound Performance Evaluation, ASPLOS 2013.
    """
    rng = random.Random(seed)  # noqa: S311  a layout, not a secret
    large = [bytes(rng.randrange(1, 5000)) for _ in range(rng.randrange(MOST_PADDING))]
    small = [[number] * rng.randrange(1, 40) for number in range(rng.randrange(MOST_PADDING))]
    return [*large, *small]


def _waits_for_host(clock: Clock) -> tuple[bool, float]:
    """Return whether the host's own time stays in blocks while the clock's lead adapts itself, and how many cores were busy."""
    call_ms = sorted(clock.take(3).times_ms)[1]
    count = min(30, max(3, round(EXPOSED_MS / call_ms)))
    hidden = 0
    began, used = time.monotonic(), time.process_time()
    for _ in range(EXPOSED_TRIES):
        hidden = 0 if _without_collector(clock.take, count).exposed else hidden + 1
        if hidden == HIDDEN_TRIES:
            break
    busy = (time.process_time() - used) / (time.monotonic() - began)
    return hidden < HIDDEN_TRIES, busy


def _without_collector(take: Callable[[int], Samples], samples: int) -> Samples:
    _collector_off()
    try:
        return take(samples)
    finally:
        _collector_on()


_OPERATIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "start": Worker.start,
    "prepare": Worker.prepare,
    "identify": Worker.identify,
    "host_code": Worker.host_code,
    "restore": Worker.restore,
    "use_cores": Worker.use_cores,
    "block": Worker.block,
    "stage": Worker.stage,
    "kernels": Worker.kernels,
    "overheads": Worker.overheads,
    "finish": Worker.finish,
    # Imported with this module, so before any code of an author, which could put other functions in their place.
    **tools.worker_operations(),
}
