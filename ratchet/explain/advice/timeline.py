"""Account for the time of a trace: which part is steady, when the GPU had nothing to do, and what the host did then, and where.

`ratchet.explain.advice.rules` builds findings on it. Pure. Times are microseconds.
"""

from __future__ import annotations

import bisect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple, TypeVar

from ratchet.explain.advice.trace import GpuEvent, HostEvent, ProfilerTrace

WAITS = frozenset(
    f"{prefix}{name}"
    for prefix in ("cuda", "cu", "hip")
    for name in ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize", "Memcpy")
)
"""Calls that return when the GPU has finished something."""
ALLOCATIONS = (
    *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cuMemCreate", "cuMemMap", "cuMemUnmap"),
    *("hipMalloc", "hipFree", "hipHostMalloc"),
)
"""Beginnings of names."""
LOADER = "enumerate(DataLoader)"
PYTHON_US = 100.0
"""The host did something else than launching where it was outside of operators for longer than this."""
QUEUED_US = 5.0
"""Work whose launch had returned this long before the GPU was free waited for the GPU, and not for the host."""
WARM = 0.1
"""Part of what repeats that counts as warm-up."""
_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
_BUILTIN = re.compile(r"<built-in (?:method|function) (?P<name>[\w.]+)")
_NOT_OURS = ("torch/", "triton/", "numpy/", "ratchet/", "functorch/", "<")
_INSTALLED = re.compile(r"site-packages|/lib/python3|ratchet/(core/bench|explain)/child/")


class CodePlace(NamedTuple):
    """A place in code that is neither torch's nor Python's own."""

    file: str
    line: int
    """Line of the call where the trace has it, else the first of the function."""
    function: str
    call: str
    """The function that is called there, such as ``item``; empty for an operator such as ``+``."""
    is_exact: bool


NOWHERE = CodePlace("", 0, "", "", False)

E = TypeVar("E", HostEvent, GpuEvent)
K = TypeVar("K")
V = TypeVar("V")
Cause = Literal["sync", "dispatch", "python", "loader", "allocation"]


@dataclass(slots=True)
class Piece:
    """Time in which the GPU had nothing to do, or on a CPU any time, and the one thing that the host did meanwhile."""

    cause: Cause
    us: float
    owner: HostEvent | None
    claimed: bool = False


class Cover:
    """Spans, none within another, of which the part within any interval is asked for."""

    def __init__(self, events: Iterable[HostEvent]) -> None:
        self.events: list[HostEvent] = []
        for event in sorted(events, key=lambda event: event.start):
            if not self.events or event.start >= self.events[-1].end:
                self.events.append(event)
        self._starts = [event.start for event in self.events]

    def within(self, start: float, end: float) -> Iterator[tuple[float, float, HostEvent]]:
        """Yield the spans that overlap an interval, cut to it."""
        index = max(0, bisect.bisect_right(self._starts, start) - 1)
        while index < len(self.events) and self._starts[index] < end:
            event = self.events[index]
            low, high = max(start, event.start), min(end, event.end)
            if high > low:
                yield low, high, event
            index += 1


@dataclass
class Timeline:
    """The steady part of a trace."""

    trace: ProfilerTrace
    start: float = 0.0
    end: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    window_us: float = 0.0
    """Microseconds that the steady part would take without the profiler."""
    slower_host_us: float = 0.0
    """By how much the host is slower than the GPU at least, did the profiler cost twice what it does with small operators."""
    is_steady: bool = False
    """Whether something repeats, so that its first repetitions could be left out."""
    claimed: set[int] = field(default_factory=set)
    """Identities of GPU work and operators that a rule has explained."""
    _places: dict[int, CodePlace] = field(default_factory=dict)

    def is_in(self, event: HostEvent | GpuEvent) -> bool:
        """Return whether the host began it in the steady part."""
        return self.start <= _begun_by(event).start < self.end

    @cached_property
    def gpu(self) -> list[GpuEvent]:
        return [event for event in self.trace.gpu if self.is_in(event)]

    @cached_property
    def ops(self) -> list[HostEvent]:
        """The outermost operators of the steady part, by start."""
        return [event for event in self.trace.host if event.kind == "op" and top(event) is event and self.is_in(event)]

    @cached_property
    def calls(self) -> list[HostEvent]:
        return [event for event in self.trace.host if event.kind == "call" and self.is_in(event)]

    @cached_property
    def pieces_of(self) -> dict[int, list[Piece]]:
        """The pieces of each outermost operator, by its identity."""
        return grouped((id(top(piece.owner)), piece) for piece in self.pieces if piece.owner is not None)

    @cached_property
    def work_of(self) -> dict[int, list[GpuEvent]]:
        """The work on the GPU of each outermost operator, by its identity."""
        return grouped((id(top(work.call)), work) for work in self.gpu if work.call is not None)

    @cached_property
    def ops_at(self) -> dict[tuple[str, int, str], list[HostEvent]]:
        """The outermost operators of each file, line and function."""
        return grouped((self.place(op)[:3], op) for op in self.ops)

    @cached_property
    def main(self) -> str:
        """The thread that the script runs in."""
        kinds = Counter(event.thread for event in self.trace.host if event.kind in {"python", "op"})
        return kinds.most_common(1)[0][0] if kinds else ""

    @cached_property
    def busy_us(self) -> float:
        """Time in which the GPU had something to do."""
        reached, busy = self.start, 0.0
        for event in self.trace.gpu:
            low, high = max(reached, event.start), min(self.end, event.end)
            busy += max(0.0, high - low)
            reached = max(reached, high)
        return busy

    def true_us(self, start: float, end: float) -> float:
        """Return a time of the host less what the profiler took of it, but at least a tenth."""
        count = bisect.bisect_left(self._starts, end) - bisect.bisect_left(self._starts, start)
        profiler = count * self.trace.overhead_us + sum(b - a for a, b, _ in self._overheads.within(start, end))
        return max((end - start) * 0.1, end - start - profiler)

    @cached_property
    def _overheads(self) -> Cover:
        return Cover(self.trace.overheads)

    @cached_property
    def _starts(self) -> list[float]:
        return [event.start for event in self.trace.host if event.thread == self.main and event.kind in ("op", "python")]

    def place(self, event: HostEvent | GpuEvent | None) -> CodePlace:
        """Return where in the user's code an event comes from; of other threads, what the main one called meanwhile."""
        if event is None:
            return NOWHERE
        event, first = _begun_by(event), None
        if isinstance(event, HostEvent):
            first = event if event.kind == "python" else event.python
        if first is None and event.thread != self.main:
            first = self.main_at(event.start)
        path: list[HostEvent] = []
        found = NOWHERE
        while first is not None and found == NOWHERE:
            if id(first) in self._places:
                found = self._places[id(first)]
                break
            path.append(first)
            found, first = _place(first), first.python
        self._places.update(dict.fromkeys(map(id, path), found))
        return found

    def by_place(self, events: Iterable[E], fewest: int = 1) -> dict[CodePlace, list[E]]:
        """Return the events of each place that has at least so many."""
        groups = grouped((self.place(event), event) for event in events)
        return {place: found for place, found in groups.items() if len(found) >= fewest}

    @cached_property
    def _main_python(self) -> tuple[list[float], list[HostEvent]]:
        events = [event for event in self.trace.host if event.kind == "python" and event.thread == self.main]
        return [event.start for event in events], events

    def main_at(self, time: float) -> HostEvent | None:
        """Return the innermost Python function of the main thread at a time."""
        starts, events = self._main_python
        index = bisect.bisect_right(starts, time) - 1
        if index < 0:
            return None
        event: HostEvent | None = events[index]
        while event is not None and event.end < time:
            event = event.python
        return event


def timeline(trace: ProfilerTrace) -> Timeline:
    """Find the steady part of a trace, and say what each moment without GPU work went into."""
    line = Timeline(trace)
    hosts = trace.host or trace.gpu
    line.start, line.end = hosts[0].start, max(event.end for event in (*trace.host, *trace.gpu))
    if steady := _steady(line):
        line = Timeline(trace, *steady, is_steady=True)
    if line.gpu:
        line.end = max([line.end, *(event.end for event in line.gpu)])
        line.pieces = list(_idle(line))
    else:
        line.pieces = list(_host(line, line.start, line.end, _covers(line)))
        line.window_us = sum(piece.us for piece in line.pieces)
    return line


def _begun_by(event: HostEvent | GpuEvent) -> HostEvent | GpuEvent:
    """Return the call that launched work of the GPU, where it is known; any other event itself."""
    return event.call or event if isinstance(event, GpuEvent) else event


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key."""
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def top(event: HostEvent) -> HostEvent:
    """Return the outermost operator around an event; the event itself where there is none."""
    return event.outermost or event


def ours(name: str) -> re.Match[str] | None:
    """Match the name of a Python function that is neither torch's nor of Python's own library."""
    match = _FRAME.fullmatch(name)
    if match is None or match["file"].startswith(_NOT_OURS) or _INSTALLED.search(match["file"]):
        return None
    package = match["file"].partition("/")[0].removesuffix(".py")
    return None if package in sys.stdlib_module_names else match


def _place(event: HostEvent) -> CodePlace:
    """Return the place of a function of the user's, or of one that it calls; NOWHERE for others."""
    if match := ours(event.name):
        return CodePlace(match["file"], int(match["line"]), match["function"], "", is_exact=False)
    if event.python is not None and (match := ours(event.python.name)):
        return CodePlace(match["file"], event.line or int(match["line"]), match["function"], _label(event), event.line > 0)
    return NOWHERE


def _label(called: HostEvent) -> str:
    if builtin := _BUILTIN.match(called.name):
        return builtin["name"].rpartition(".")[2]
    frame = _FRAME.fullmatch(called.name)
    return frame["function"] if frame else called.name.removeprefix("nn.Module: ").rpartition("_")[0]


def _steady(line: Timeline) -> tuple[float, float] | None:
    """Return the part that repeats, without its first repetitions; None where nothing repeats. What takes longest decides."""
    bare = (event for event in line.calls if top(event) is event)  # launches of graphs, and of kernels that are no operators
    starts = grouped(((event.name, line.place(event)), event) for event in (*line.ops, *bare))
    costs: dict[int, float] = defaultdict(float)
    for work in line.gpu:
        costs[id(top(work.call)) if work.call else 0] += work.dur
    # Where there is a GPU, setting up on the host takes long and is not what repeats.
    repeated = [
        (events, sum(costs[id(one)] if costs else one.dur for one in events)) for events in starts.values() if len(events) >= 3
    ]
    repeated = [(events, us) for events, us in repeated if us > 0]
    if not repeated:
        return None
    begin = _middle([(events[max(1, round(WARM * len(events)))].start, us) for events, us in repeated])
    end = _middle([(events[-1].end, us) for events, us in repeated])
    return (begin, end) if end > begin else None


def _middle(weighted: list[tuple[float, float]]) -> float:
    """Return the weighted median."""
    weighted.sort()
    sums = list(accumulate(weight for _, weight in weighted))
    return weighted[bisect.bisect_left(sums, sums[-1] / 2)][0]


# What the host did while the GPU had nothing to do.


@dataclass(frozen=True)
class _Covers:
    loader: Cover
    allocations: Cover
    ops: Cover


def _covers(line: Timeline) -> _Covers:
    main = [event for event in line.trace.host if event.end > line.start and event.start < line.end]
    return _Covers(
        Cover(event for event in main if event.kind in ("op", "note") and event.name.startswith(LOADER)),
        Cover(event for event in main if event.kind == "call" and event.name.startswith(ALLOCATIONS)),
        Cover(event for event in main if event.kind == "op" and top(event) is event and not event.name.startswith(LOADER)),
    )


def _idle(line: Timeline) -> Iterator[Piece]:
    """Yield the pieces of all gaps between work on the GPU.

    Each is bounded by what it can have cost without the profiler. A wait costs what the host would have run ahead without it:
    where the host itself takes longer than the GPU, it still would. Launches cost what the host takes longer than the GPU.
    """
    waits = Cover(event for event in line.trace.host if event.kind == "call" and event.name in WAITS)
    pageable = Cover(event.call for event in line.gpu if event.kind == "copy" and "Pageable" in event.name and event.call)
    frees = Cover(event for event in line.trace.host if event.kind == "call" and "Free" in event.name)
    covers = _covers(line)
    free: list[Piece] = []
    waited: list[tuple[HostEvent, list[Piece]]] = []
    reached, gap_us = line.start, 0.0
    for work in line.trace.gpu:
        queued = work.call is not None and work.call.end < reached - QUEUED_US  # nothing that the host could have done
        if work.start > reached and line.is_in(work) and not queued:
            gap_us += work.start - reached
            until = min(work.start, work.call.start) if work.call else work.start
            owner = next((event for cover in (frees, waits, pageable) if (event := _waiting(cover, reached))), None)
            if owner is None:
                free += [*_host(line, reached, until, covers), *_rest(work.start - max(until, reached), work)]
            elif owner.name.startswith(ALLOCATIONS):
                free.append(Piece("allocation", work.start - reached, owner))
            else:
                begun = max(reached, min(owner.end, until))
                pieces = [Piece("sync", begun - reached, owner), *_host(line, begun, until, covers)]
                waited.append((owner, [*pieces, *_rest(work.start - max(until, begun), work)]))
        reached = max(reached, work.end)
    left_us = sum(piece.us for piece in free) + sum(piece.us for _, pieces in waited for piece in pieces)
    line.window_us = max(line.end - line.start - max(0.0, gap_us - left_us), 1e-9)
    host_us = line.true_us(line.start, line.end)
    profiler_us = line.end - line.start - host_us
    host_us -= sum(high - low for cover in (waits, pageable) for low, high, _ in cover.within(line.start, line.end))
    lost = sum(piece.us for _, pieces in waited for piece in pieces)
    share = min(1.0, max(0.0, line.window_us - max(line.busy_us, host_us)) / lost) if lost else 0.0
    for owner, pieces in waited:
        yield Piece("sync", share * sum(piece.us for piece in pieces), owner)
        for piece in pieces:
            piece.us *= 1 - share
        free += pieces
    line.slower_host_us = host_us - profiler_us - line.busy_us
    launching = sum(piece.us for piece in free if piece.cause == "dispatch")
    share = min(1.0, max(0.0, host_us - line.busy_us) / launching) if launching else 0.0
    for piece in free:
        if piece.cause == "dispatch":
            piece.us *= share
        yield piece


def _waiting(cover: Cover, time: float) -> HostEvent | None:
    """Return the call of the host that was waiting when the GPU ran out of work."""
    return next((event for _, _, event in cover.within(time - 2, time + 2)), None)


def _rest(us: float, work: GpuEvent) -> list[Piece]:
    return [Piece("dispatch", us, top(work.call) if work.call else None)] if us > 0 else []


def _host(line: Timeline, start: float, end: float, covers: _Covers) -> Iterator[Piece]:
    """Divide a part of the host's time among what it did, in this order: the loader, allocations, operators, anything else."""
    at = start
    for low, high, note in covers.loader.within(start, end):
        yield from _between(line, at, low, covers)
        yield Piece("loader", line.true_us(low, high), note)
        at = high
    yield from _between(line, at, end, covers)


def _between(line: Timeline, start: float, end: float, covers: _Covers) -> Iterator[Piece]:
    at = start
    for low, high, op in covers.ops.within(start, end):
        yield from _outside(line, at, low, op)
        inside = [(a, b, event) for a, b, event in covers.allocations.within(low, high)]
        yield from (Piece("allocation", b - a, event) for a, b, event in inside)
        yield Piece("dispatch", max(0.0, line.true_us(low, high) - sum(b - a for a, b, _ in inside)), op)
        at = high
    yield from _outside(line, at, end, None)


def _outside(line: Timeline, start: float, end: float, following: HostEvent | None) -> Iterator[Piece]:
    """Yield the time between two operators: a short one belongs to the next operator."""
    if end <= start:
        return
    us = line.true_us(start, end)
    if us > PYTHON_US:
        yield Piece("python", us, line.main_at((start + end) / 2))
    else:
        yield Piece("dispatch", us, following)
