"""Capture one call of a workload into a CUDA graph: nothing of it runs, and its launches are in the graph.

`identity.of` uses a `Recorder`, and with it `Operators` and `Memory`. It runs the author's code in this process, on the GPU's
current device.

Launches on a stream that takes no part in the capture run at once and are missing from the graph, without an error
(pytorch/pytorch#114048). Yet they are timed, if the default stream waits for that stream, as it does unless the stream was made
to be non-blocking. Two measures detect them.

- The capture is on a stream for which the default stream waits. Then any use of the default stream meanwhile is an error, as
  by a library that launches without naming a stream (CUDA C++ Programming Guide, Prohibited and Unhandled Operations).
- The GPU sleeps in the default stream meanwhile, between two events. Work that was not captured runs after the sleep and before
  the second event, and so shows in the time between them.

Work on a stream that nothing waits for is not seen. It is not between the events of `clocks.EventClock` either.

Two things need the operators of torch, with their results kept until the call ends. Which free memory torch takes for a tensor
depends on addresses, which differ between processes: where nothing is freed, each address stands for one tensor. And torch's own
kernels get arguments in structures of which parts are never written, so their bytes differ from call to call: the operators say
what they compute.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import gc
import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ratchet.core.bench.child.outputs import index_hash
from ratchet.identical.launches.driver import Driver, NoIdentity
from ratchet.identical.launches.record import Place, TensorAt, Unknown

Call = Callable[[], object]

_CYCLES_PER_SECOND = 2e9  # about the boost clock; a slower clock only sleeps longer
_LONGEST_SLEEP_S = 0.2
"""A call that the GPU cannot sleep through within this time is opaque."""
_STRAY_S = 2e-6
"""A kernel that waits for another stream, runs and is waited for takes longer than this, however small it is."""
MOST_EVENTS = 1_000_000
"""Events that torch's allocator keeps; a call that makes more of them is opaque."""
MOST_HOST_BYTES = 1 << 20
"""A larger tensor in the host's memory is not compared."""
_failed: list[Any] = []
"""Graphs whose capture failed: torch's allocator still asks them which memory is theirs, so they must not go."""


@dataclass(frozen=True)
class Recording:
    """A captured call; ``between_s`` is the time on the GPU between the events around it."""

    graph: Any
    took_s: float
    slept: bool
    """The GPU slept all the time, so that ``between_s`` has nothing of the host's in it."""
    between_s: float
    allocations: list[Range]
    """Memory that the call can have got for itself."""
    operators: list[list[Any]] | None = None
    """See `Operators.calls`; None where they were not recorded."""


class Recorder:
    """A recorder that captures calls on one stream into one pool of memory, which the first capture fills for the later ones."""

    def __init__(self, driver: Driver) -> None:
        self._stream = torch.cuda.ExternalStream(_blocking_stream(driver))
        self._pool = torch.cuda.graph_pool_handle()
        self._kept: list[Recording] = []
        """Graphs, which keep the pool alive."""
        self._nothing_s = 0.0
        """`Recording.between_s` of a call that does nothing."""
        self._allocations = Allocations()
        self._events = 0
        """Events of the allocator that were read."""

    def warm_up(self, call: Call) -> None:
        """Call once outside of a capture, on the stream of the captures: the call creates here what it needs only once."""
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            call()
        torch.cuda.synchronize()
        gc.collect()  # autograd leaves circles of objects that hold tensors
        self._nothing_s = min(self._asleep(lambda: None, 0.5e-3).between_s for _ in range(3))

    def record(self, call: Call, sleep_s: float = 0.0, operators: Operators | None = None) -> Recording:
        """Capture a call while the GPU sleeps ``sleep_s`` seconds. Raises NoIdentity for any error; the process is then spent.

        With ``operators``, these are recorded, and no result of one is freed until the call is over.
        """
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        torch.cuda.synchronize()
        if sleep_s:
            torch.cuda._sleep(int(sleep_s * _CYCLES_PER_SECOND))
        start.record()
        began = time.perf_counter()
        try:
            self._capture(graph, operators.held(call) if operators else call)
        except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything; it costs the identity only
            _failed.append(graph)
            raise NoIdentity(f"a CUDA graph cannot hold its launches ({_said(error)})", spent=True) from None
        took = time.perf_counter() - began
        end.record()
        slept = not start.query()
        torch.cuda.synchronize()
        allocations = self._allocations.of_call(self._new_events())
        done = Recording(graph, took, slept, start.elapsed_time(end) * 1e-3, allocations, operators.calls if operators else None)
        self._kept.append(done)
        return done

    def record_alone(self, call: Call, times: int) -> list[Recording]:
        """Capture a call a few times. Raises NoIdentity if it launches something that the capture does not see."""
        self._new_events()  # those of before do not count
        took = self.record(call).took_s
        done = [self._asleep(call, 1e-3 + 2 * took) for _ in range(times)]
        if min(each.between_s for each in done) > self._nothing_s + _STRAY_S:
            raise NoIdentity("it uses a stream of its own, whose launches no CUDA graph holds")
        return done

    def _asleep(self, call: Call, sleep_s: float) -> Recording:
        while sleep_s < _LONGEST_SLEEP_S:
            done = self.record(call, sleep_s)
            if done.slept:
                return done
            sleep_s *= 4
        raise NoIdentity("its launches take too long to queue")

    def _new_events(self) -> list[Mapping[str, Any]]:
        events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        if len(events) >= MOST_EVENTS:
            raise NoIdentity("it allocates memory too often")
        fresh, self._events = events[self._events :], len(events)
        return list(fresh)

    def _capture(self, graph: Any, call: Call) -> None:
        with torch.cuda.stream(self._stream):
            # "global": a wait for the GPU, by any thread and on any stream, is an error rather than a gap in the graph.
            graph.capture_begin(pool=self._pool, capture_error_mode="global")
            try:
                call()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # the call's own error says more
                    graph.capture_end()
                raise
            graph.capture_end()


class Operators(TorchDispatchMode):
    """A context in which the operators of torch are recorded, also those that autograd runs in threads of its own."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its compiler (2 to 5 s in each process) to keep it from compiling the method below.
        return "torch._dynamo" in sys.modules

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's base class is not typed
        self.calls: list[list[Any]] = []
        """Name, arguments and result of each operator, as `described`."""
        self._results: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        before = [described(args), described(sorted(named.items()))]  # an operator in place changes its arguments
        result = func(*args, **named)
        self._results.append(result)
        self.calls.append([str(func), *before, described(result)])
        return result

    def held(self, call: Callable[[], object]) -> Callable[[], None]:
        """Return the call within this context; the results are let go when it is over."""

        def run() -> None:
            try:
                with self:
                    call()
            finally:
                self._results.clear()

        return run


def described(value: object) -> Any:
    """Return an argument of an operator as plain values, with a `TensorAt` for each tensor on the GPU."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [described(part) for part in value]
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided:
        facts = (list(value.shape), list(value.stride()), str(value.dtype))
        if value.device.type == "cuda":
            return TensorAt(value.data_ptr(), facts)
        if value.device.type == "cpu" and value.nbytes <= MOST_HOST_BYTES:
            content = value.detach().contiguous().reshape(-1).view(torch.uint8)
            return [*facts, hashlib.sha256(bytes(content.tolist())).hexdigest()]
    return Unknown(type(value).__name__)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Switch off the collector, which might free a CUDA object within a capture, and the warning that a graph is empty.

    Meanwhile torch's allocator records what it does.
    """
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=MOST_EVENTS)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*CUDA Graph is empty")
            yield
    finally:
        torch.cuda.memory._record_memory_history(None)
        if was_on:
            gc.enable()


@functools.cache
def _blocking_stream(driver: Driver) -> int:
    return driver.blocking_stream()


def _said(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:200] if lines else type(error).__name__


# Checksums of the device memory that a workload's launches can reach, as it is before they run.
#
# Equal launches on other data are other work: an index, a list of lengths or a schedule in device memory decides how long a
# kernel runs. So its content is part of a workload's identity. A checksum is the sum of all 64-bit words,
# each times an odd number of its own, modulo 2^64 (multilinear hashing): the order of summation does not matter, so equal data
# gives equal checksums.


CHUNK_WORDS = 1 << 21
"""16 MiB at a time: it stays in the L2 cache."""
MOST_BYTES = 64 << 30
"""Workloads with more memory to compare are opaque, and so are timed."""

Range = tuple[int, int]
"""Address and size in bytes."""


class Contents:
    """A reader of device memory through a buffer of its own, on the stream that is given."""

    def __init__(self, driver: Driver, device: torch.device, stream: int, chunk_words: int = CHUNK_WORDS) -> None:
        self._driver = driver
        self._stream = stream
        self._buffer = torch.empty(chunk_words, dtype=torch.int64, device=device)
        self._weights = weights(chunk_words, device)

    def sums(self, ranges: Sequence[Range]) -> list[tuple[int, ...]]:
        """Return a tuple for each range, of one checksum for each chunk of it. Raises NoIdentity beyond `MOST_BYTES`."""
        if sum(size for _, size in ranges) > MOST_BYTES:
            raise NoIdentity("it has too much memory to compare")
        step = 8 * len(self._buffer)
        found = [[self._sum(address + at, min(step, size - at)) for at in range(0, size, step)] for address, size in ranges]
        every = [each for one in found for each in one]
        numbers = iter(torch.stack(every).tolist() if every else [])
        return [tuple(next(numbers) for _ in one) for one in found]

    def _sum(self, address: int, size: int) -> torch.Tensor:
        words = -(-size // 8)
        self._buffer[words - 1] = 0  # the last word may be filled in part
        self._driver.copy(self._buffer.data_ptr(), address, size, self._stream)
        return (self._buffer[:words] * self._weights[:words]).sum()


def weights(count: int, device: torch.device) -> torch.Tensor:
    """Return odd numbers, the same in every process."""
    return index_hash(0, count, device) | 1


_SMALLEST_ADDRESS = 1 << 16
"""Smaller numbers are sizes and strides; nothing is mapped down there."""

Segments = Iterable[Mapping[str, Any]]
"""The result of ``torch.cuda.memory_snapshot()``: segments with their blocks."""


def live(segments: Segments, device: int) -> list[Range]:
    """Return the tensors' memory: address and requested bytes of every block in use, by address."""
    blocks = (block for segment in segments if segment["device"] == device for block in segment["blocks"])
    in_use = (block for block in blocks if block["state"] == "active_allocated" and block["requested_size"])
    return sorted((int(block["address"]), int(block["requested_size"])) for block in in_use)


def reserved(segments: Segments, device: int) -> list[Range]:
    """Return all that torch holds of a device: whole segments, by address."""
    return sorted((int(segment["address"]), int(segment["total_size"])) for segment in segments if segment["device"] == device)


class Allocations:
    """The allocations of captured calls, one call after the other, from the events that torch's allocator records."""

    def __init__(self) -> None:
        self._live: dict[int, int] = {}

    def of_call(self, events: Iterable[Mapping[str, Any]]) -> list[Range]:
        """Return all that a call can have used, by address: what was there when it began, and what it got, freed or not.

        Where two allocations had one address in turn, the larger one stands for both: launches name addresses and no times, so
        which of the two is meant is unknown. But a call that allocates in another order uses other addresses for other things.
        """
        used = dict(self._live)
        for event in events:
            address, size = int(event["addr"]), int(event["size"])
            if event["action"] == "alloc":
                used[address] = max(size, used.get(address, 0))
                self._live[address] = size
            elif event["action"] == "free_completed":
                self._live.pop(address, None)
        return sorted(used.items())


def covering(ranges: Sequence[Range], address: int) -> Range | None:
    """Return the range that an address lies in, or just at the end of; None where there is none."""
    index = bisect.bisect_right(ranges, (address, 1 << 64)) - 1
    if index < 0:
        return None
    start, size = ranges[index]
    return ranges[index] if address <= start + size else None


@dataclass(frozen=True)
class Allocation:
    """An allocation: from ``before`` the captured call, from ``during`` it, or ``foreign`` to torch."""

    kind: str
    start: int
    size: int


class Memory:
    """The contents of memory that was allocated before the capture. Nothing may run between `Memory` and the last question."""

    def __init__(self, driver: Driver, contents: Contents, before: Sequence[Range]) -> None:
        self._driver = driver
        self._contents = contents
        self._before = list(before)
        self._sums = dict(zip(self._before, contents.sums(self._before), strict=True))
        self._torch: list[Range] = []

    def captured(self, everything: Sequence[Range]) -> None:
        """Note all memory of torch once the calls are captured."""
        self._torch = list(everything)

    def find(self, during: Sequence[Range], address: int) -> Place | None:
        """Return the place of an address, as `launches.Find` describes. Raises NoIdentity.

        ``during``, by address, is what a captured call got for itself: it finds only its own data there.
        """
        if address < _SMALLEST_ADDRESS:
            return None
        if found := covering(self._before, address):
            return Place(Allocation("before", *found), address - found[0])
        if found := covering(during, address):
            return Place(Allocation("during", *found), address - found[0])
        if covering(self._torch, address):
            # No tensor holds it, so its content at the time of timing is unknown.
            raise NoIdentity("it uses memory that no tensor holds")
        if (foreign := self._driver.points_to(address)) is None:
            return None
        return Place(Allocation("foreign", *foreign), address - foreign[0])

    def described(self, allocations: Sequence[Hashable]) -> list[object]:
        """Return facts that two processes can compare: of these allocations in this order, of all others sorted by content."""
        known = [each for each in allocations if isinstance(each, Allocation)]
        foreign = [(each.start, each.size) for each in known if each.kind == "foreign"]
        sums = dict(zip(foreign, self._contents.sums(foreign), strict=True)) | self._sums
        named = [(each.kind, each.size, sums.get((each.start, each.size), ())) for each in known]
        mentioned = {(each.start, each.size) for each in known}
        # Memory that no launch names may still be reached, through addresses in memory or in a tensor map.
        others = sorted((size, sums[start, size]) for start, size in self._before if (start, size) not in mentioned)
        return [named, others]

    def variables(self, ranges: Sequence[Range]) -> list[tuple[int, ...]]:
        """Return checksums of variables in device memory."""
        return self._contents.sums(ranges)
