"""Clocks take samples of a callable, and report whether launch latency may be in them.

`CpuClock` reads the time around a call. The others time calls on the GPU: device time between CUDA events, or of a replayed CUDA
graph (docs/decisions/0005-clocks.md). `child.worker.make_clock` chooses one. They run the author's code, and so in a worker only;
those of the GPU allocate a buffer to flush L2, and queue work on the current stream.

What they use of torch and time is bound when this module is imported, before any benchmark is: a benchmark that replaces these
functions in their modules changes nothing here.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns
from typing import Literal

import numpy as np
import torch

Call = Callable[[], object]

_fill_with_zeros = torch.Tensor.zero_
current_stream, synchronize = torch.cuda.current_stream, torch.cuda.synchronize
_Event = torch.cuda.Event
_sleep: Callable[[int], None] = torch.cuda._sleep
_record: Callable[[torch.cuda.Event, torch.cuda.Stream], None] = _Event.record
_query: Callable[[torch.cuda.Event], bool] = _Event.query
_elapsed_ms: Callable[[torch.cuda.Event, torch.cuda.Event], float] = _Event.elapsed_time
_capture, _replay = torch.cuda.graph, torch.cuda.CUDAGraph.replay
_float32 = np.float32
_new_graph: Callable[[], torch.cuda.CUDAGraph] = torch.cuda.CUDAGraph
_new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream
_on_stream = torch.cuda.stream

_CYCLES_PER_SECOND = 2e9  # about the boost clock; a slower clock only sleeps longer
_LONGEST_S = 0.05
"""Longest head start. A block that takes longer to queue stays `Samples.exposed`."""
_MARGIN = 1.5
"""Lead in multiples of the time that queueing took."""
_TRIES = 3
"""Leads in a row that have to be too short before a case is taken for one that no lead helps."""
CALLS = 20
"""Calls in one replay of a graph."""
LEAST_FIRST_MS = 1.0
"""A first use that takes less than this more than the second one compiles nothing."""


copies: list[int] = []
"""Empty, but for a copy that the author's code made of a worker by fork: such a copy must not go on where the worker does."""


class LeftRunningError(BaseException):
    """The author's code came back in a copy of the worker, which ends at once."""


@dataclass(frozen=True)
class Samples:
    """Times of a block, in milliseconds per call.

    ``exposed``: the GPU ran out of queued work, so launch latency may be in them.
    """

    times_ms: tuple[float, ...]
    exposed: bool = False


class CpuClock:
    """Reads ``perf_counter_ns`` around each call; caches are as the previous call or its preparation left them.

    For calls that are finished when they return; ``settle`` waits for what a call has left running.
    """

    name = "cpu"
    cache: Literal["cold", "warm"] = "warm"

    def __init__(self, call: Call, before: Call | None = None, settle: Call | None = None) -> None:
        self._call = call
        self._before = before
        self._settle = settle

    def take(self, count: int, *, untimed: bool = True) -> Samples:
        """Take ``count`` samples after one call that is not timed, if there is to be one.

        In calls of a tenth of a second it does not show that the caches have to be filled again.
        """
        call, before, settle, now = self._call, self._before, self._settle, perf_counter_ns
        if untimed:
            if before is not None:
                before()
            call()
        times = []
        for _ in range(count):
            if before is not None:
                before()
            if settle is not None:
                settle()
            start = now()
            call()
            if settle is not None:
                settle()
            times.append(max(1, now() - start) / 1e6)  # a sample of 0 is not valid: `records.run.SampleMs`
            if copies:  # it would make copies of its own, and these others
                raise LeftRunningError
        return Samples(tuple(times))


def first_use_ms(use: Callable[[], object], settle: Call | None) -> float:
    """Return by how many milliseconds the first use of a case takes longer than the second one: compiling, loading, choosing.

    At least `LEAST_FIRST_MS`, since the difference of two equal times is noise. ``settle`` waits for what a use leaves running.
    """
    taken = []
    for _ in range(2):
        start = perf_counter_ns()
        used = use()
        if settle is not None:
            settle()
        taken.append((perf_counter_ns() - start) / 1e6)
        del used  # its memory is free for the second one
    return max(LEAST_FIRST_MS, taken[0] - taken[1])


def host_times(call: Call, before: Call | None, settle: Call, count: int) -> Samples:
    """Return how long each of ``count`` calls keeps the host, on a GPU with nothing left to do. Three more are not timed."""
    times = []
    for _ in range(count + 3):
        if before is not None:
            before()
        settle()
        start = perf_counter_ns()
        call()
        times.append(max(1, perf_counter_ns() - start) / 1e6)
    settle()
    return Samples(tuple(times[3:]))


def _release_persisting_l2() -> None:
    """Undo what a kernel pinned in L2, which no flush evicts; a driver without the call has nothing to undo."""
    if (driver := _driver()) is not None and hasattr(driver, "cuCtxResetPersistingL2Cache"):
        driver.cuCtxResetPersistingL2Cache()


@functools.cache
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def new_flush() -> Call:
    """Return a function that empties the L2 cache between samples: it writes a buffer of twice the size of the cache."""
    device = torch.device("cuda", torch.cuda.current_device())
    size = int(torch.cuda.get_device_properties(device).L2_cache_size)
    return functools.partial(_fill_with_zeros, torch.empty(max(2 * size, 1 << 20), dtype=torch.uint8, device=device))


def _between_ms(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Return the milliseconds on the device from an event to a later one: the driver's single precision, in its digits."""
    return float(str(_float32(_elapsed_ms(start, end))))


class LaunchDelay:
    """A head start for the host: the GPU sleeps until a whole block is queued, so that no sample contains launch latency.

    nvbench does this with a blocking kernel; a sleep on the device needs no round trip to the host to end it. Its length adapts
    itself to how long the host takes to queue a block. All clocks of one case share a lead, so that it is found once.
    """

    def __init__(self) -> None:
        self._needed_s = 0.0
        """For each call of a block."""
        self._calls = 1
        self._started = 0.0
        self._in_vain = 0
        """Blocks in a row that the GPU caught up with although they had a lead."""

    def give(self, calls: int) -> None:
        """Queue the sleep. Call before queueing a block of so many calls."""
        lead_s = min(_LONGEST_S, self._needed_s * calls) if self._in_vain < _TRIES else 0.0
        _sleep(int(max(20e-6, lead_s) * _CYCLES_PER_SECOND))
        self._calls, self._started = calls, perf_counter()

    def judge(self, last_but_one: torch.cuda.Event) -> bool:
        """Return whether the GPU has already caught up with the host. Call once the block is queued.

        If so, the next block gets a lead of what queueing took and a half more; else it gets no more than that, since one slow
        call must not make all later blocks long. (It never gets more then: where the queue is full, queueing takes as long as
        the sleep.) A call that waits for the GPU also waits for the sleep, so no lead is long enough: after `_TRIES` it gets
        none.
        """
        caught_up = _query(last_but_one)
        needed_s = _MARGIN * (perf_counter() - self._started) / self._calls
        if caught_up:
            self._in_vain += self._needed_s > 0
            self._needed_s = max(self._needed_s, needed_s)
        else:
            self._in_vain = 0
            self._needed_s = min(self._needed_s, needed_s)
        return caught_up


class EventClock:
    """A clock for the device time of what a call queues on the current stream, between two CUDA events.

    ``before`` (restoring what the call changes) comes before the flush: it leaves what it writes in L2, and a cold cache has to
    be cold for that, too. Without a flush, the cache is as warm as after a call that found its inputs there.
    """

    name = "event"

    def __init__(
        self, call: Call, cache: Literal["cold", "warm"], lead: LaunchDelay | None = None, before: Call | None = None
    ) -> None:
        self.cache: Literal["cold", "warm"] = cache
        self._call = call
        self._before = before
        self._flush = new_flush() if cache == "cold" else None
        self._lead = lead or LaunchDelay()
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def take(self, count: int) -> Samples:
        while len(self._events) < count:
            self._events.append((_Event(enable_timing=True), _Event(enable_timing=True)))
        events = self._events[:count]
        call, before, flush = self._call, self._before, self._flush
        _release_persisting_l2()
        stream = current_stream()
        self._lead.give(count + 1)
        if before is not None:
            before()
        call()
        for start, end in events:
            if before is not None:
                before()
            if flush is not None:
                flush()
            _record(start, stream)
            call()
            _record(end, stream)
        exposed = self._lead.judge(events[max(0, count - 2)][1])
        synchronize()
        return Samples(tuple(_between_ms(start, end) for start, end in events), exposed)


class GraphClock(EventClock):
    """A clock for calls that are replayed back to back with no host in between, for kernels shorter than a launch.

    One sample is the time of one replay divided by its 20 calls; the L2 cache stays warm between them. With ``before`` (restoring
    what the call changes), the graph holds one call and is replayed after each restore on the stream, outside of the timed span:
    a sample then has the start of a replay in it, the same on both sides.
    """

    name = "graph"

    def __init__(self, call: Call, before: Call | None = None) -> None:
        self._calls = CALLS if before is None else 1
        warm_up(call, before)
        graph = _new_graph()
        with _capture(graph):
            for _ in range(self._calls):
                call()
        super().__init__(functools.partial(_replay, graph), "warm", before=before)

    def take(self, count: int) -> Samples:
        taken = super().take(count)
        return Samples(tuple(time / self._calls for time in taken.times_ms), taken.exposed)


class ColdGraphClock:
    """A clock for calls in a CUDA graph that flushes L2 before each of its 20 calls: no host in between, no help from a cache.

    Flush and call alternate within the graph, each call between two events of the graph. One sample is the mean over the calls of
    a replay. The events take part of a microsecond in each, on both sides alike.
    """

    name = "cold-graph"
    cache: Literal["cold", "warm"] = "cold"

    def __init__(self, call: Call, before: Call | None = None) -> None:
        flush = new_flush()
        warm_up(call, before)
        self._graph, self._flush = _new_graph(), flush
        # An external event keeps its time in a graph; without that it only orders what is captured.
        new_event = functools.partial(_Event, enable_timing=True, external=True)
        self._events = [(new_event(), new_event()) for _ in range(CALLS)]
        with _capture(self._graph):
            stream = current_stream()
            for start, end in self._events:
                if before is not None:
                    before()
                flush()
                _record(start, stream)
                call()
                _record(end, stream)

    def take(self, count: int) -> Samples:
        _release_persisting_l2()
        taken = []
        for _ in range(count):
            _replay(self._graph)
            synchronize()
            taken.append(sum(_between_ms(start, end) for start, end in self._events) / CALLS)
        return Samples(tuple(taken))


Clock = CpuClock | EventClock | ColdGraphClock
"""What a worker times a call with: all have a ``name``, say how warm the ``cache`` is, and `take` samples."""


def warm_up(call: Call, before: Call | None = None) -> None:
    """Call a few times on a stream of its own, as a capture wants it (torch.cuda.graphs, Warmup)."""
    stream = _new_stream()
    stream.wait_stream(current_stream())
    with _on_stream(stream):
        for _ in range(3):
            if before is not None:
                before()
            call()
        if before is not None:
            before()
    current_stream().wait_stream(stream)
    synchronize()
