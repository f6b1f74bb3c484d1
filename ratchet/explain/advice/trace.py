"""Read a trace that torch.profiler saved (``export_chrome_trace``) into a small model: what the host did, what the GPU did.

`ratchet.explain.advise_command` calls `read_trace`. It reads one file, and keeps of each event what the rules
need. Times are microseconds, as in the file. Whatever is not an event of torch.profiler is passed over; a file that is
cut off, too large or of another kind is refused with one sentence.
"""

from __future__ import annotations

import gzip
import json
import re
import stat
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from ratchet.core.errors import RecordError
from ratchet.core.records.files import reading
from ratchet.core.untrusted import clean

LARGEST_BYTES = 2**30
"""Most bytes of text, after decompression."""
MOST_EVENTS = 6_000_000
CALLERS = "ratchetCallers"
"""Field of traces that ratchet took: [start in ns, line of the caller] of calls from files that are not torch's."""
OVERHEAD = "ratchetOverhead"
"""Field of traces that ratchet took: microseconds that the profiler costs the host for each of its events."""
USUAL_OVERHEAD_US = 1.0
"""Where the trace does not say."""
_AGAIN = "Save it again with prof.export_chrome_trace(path)."

Kind = Literal["op", "python", "note", "call", "kernel", "copy", "fill", "overhead"]
_KINDS: dict[str, Kind] = {
    "cpu_op": "op", "operator": "op", "python_function": "python", "user_annotation": "note",
    "cuda_runtime": "call", "cuda_driver": "call", "runtime": "call",
    "kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "fill", "memset": "fill",
    "overhead": "overhead",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Event:
    """One span of a trace."""

    kind: Kind
    name: str
    start: float
    end: float
    thread: str
    """Thread of the host, or stream of the GPU."""
    correlation: int
    """The same number as that of the call that launched it, or of what it launched; 0 where there is none."""

    @property
    def dur(self) -> float:
        return self.end - self.start


@dataclass(slots=True, eq=False)
class HostEvent(Event):
    """One span of the host."""

    parent: HostEvent | None = None
    """The span of the same thread around it."""
    python: HostEvent | None = None
    """The innermost Python function around it."""
    outermost: HostEvent | None = None
    """The outermost operator around it, or itself; None outside of operators."""
    shapes: tuple[tuple[int, ...], ...] = ()
    types: tuple[str, ...] = ()
    line: int = 0
    """Line of the caller of a Python function; 0: not in the file."""


@dataclass(slots=True, eq=False)
class GpuEvent(Event):
    """One piece of work on the GPU."""

    size: int = 0
    """Bytes of a copy."""
    fill: float = 1.0
    """Blocks a multiprocessor, at most 1."""
    call: HostEvent | None = None
    """The call that launched it."""


@dataclass(slots=True)
class ProfilerTrace:
    """All events of one file, each list by start."""

    host: list[HostEvent] = field(default_factory=list)
    gpu: list[GpuEvent] = field(default_factory=list)
    overheads: list[HostEvent] = field(default_factory=list)
    """Work of the profiler itself, such as asking for buffers."""
    gpu_name: str = ""
    capability: tuple[int, int] = (0, 0)
    """Compute capability of the first GPU; (0, 0) where the file does not say."""
    overhead_us: float = USUAL_OVERHEAD_US
    """Time of the host that each of its events took because of the profiler."""


def read_trace(path: Path) -> ProfilerTrace:
    """Read a ``.json`` or ``.json.gz``. Raises RecordError."""
    with reading(path, "Check the path."):
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"{path} is not a file.", "Give the path of one saved trace.")
        try:
            with path.open("rb") as stream:
                packed = stream.read(2) == b"\x1f\x8b"
            with gzip.open(path) if packed else path.open("rb") as stream:
                content = stream.read(LARGEST_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise RecordError(f"{path} is cut off or damaged: it cannot be decompressed.", _AGAIN) from None
    if len(content) > LARGEST_BYTES:
        raise RecordError(f"{path} is larger than 1 GiB.", "Trace fewer steps, for example with --trace-for 2s.")
    return _linked(*_parsed(path, content.decode("utf-8", "replace")))


_DECODER = json.JSONDecoder(parse_int=lambda text: int(text) if len(text) < 25 else 0, strict=False)
_NEXT = re.compile(r'\}\s*,\s*\{(?=\s*"ph"\s*:)')
"""The end of an event, and the start of the next."""
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


def _parsed(path: Path, text: str) -> tuple[list[HostEvent | GpuEvent], dict[str, Any], dict[str, Any]]:
    """Return the events, and the fields before and behind them."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start not in ("{", "["):
        raise RecordError(f"{path} is not a trace of torch.profiler, which is JSON.", _AGAIN)
    begin = re.search(r"\[", text) if start == "[" else _EVENTS.search(text)  # a list of events is a trace too
    if begin is None:
        raise RecordError(f"{path} is not a trace of torch.profiler: it has no traceEvents.", _AGAIN)
    head, at = _fields(text[: begin.start()].rstrip(", \t\r\n") + "}"), begin.end()
    events: list[HostEvent | GpuEvent] = []
    while True:
        at = cast(re.Match[str], _BETWEEN.match(text, at)).end()
        if at == len(text):
            raise RecordError(f"{path} is cut off: its list of events has no end.", _AGAIN)
        if text[at] == "]":
            break
        value, at = _value(path, text, at)
        if (event := _event(value)) is not None:
            events.append(event)
            if len(events) > MOST_EVENTS:
                raise RecordError(f"{path} holds more than {MOST_EVENTS:,} events.", "Trace fewer steps.")
    if all(event.kind == "overhead" for event in events):
        raise RecordError(f"{path} holds no event of torch.profiler.", _AGAIN)
    return events, head, _fields("{" + text[at + 1 :].lstrip(", \t\r\n"))


def _value(path: Path, text: str, at: int) -> tuple[Any, int]:
    """Decode the value at a place. Return it and the place behind it. Raises RecordError where the file ends within it.

    None stands for an event that is no JSON though another follows: now and then torch.profiler writes the name of a Python
    function whose memory is gone, and does not escape it.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise RecordError(f"{path} is damaged: its values are nested without end.", _AGAIN) from None
    except ValueError:
        if following := _NEXT.search(text, at):
            return None, following.end() - 1
        raise RecordError(f"{path} is cut off or damaged: an event in it is not whole.", _AGAIN) from None


def _fields(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # the events are what counts
        return {}
    return value if isinstance(value, dict) else {}


def _event(raw: Any) -> HostEvent | GpuEvent | None:
    """Return what one entry of the list says; None where it is not a span that the rules know."""
    if not isinstance(raw, dict) or raw.get("ph") != "X":
        return None
    kind = _KINDS.get(str(raw.get("cat")).lower())
    start, dur = _number(raw.get("ts")), _number(raw.get("dur"))
    if kind is None or start is None or dur is None or dur < 0:
        return None
    args = raw.get("args")
    if not isinstance(args, dict):
        args = {}
    name, thread, number = str(raw.get("name", ""))[:2000], f"{raw.get('pid')}/{raw.get('tid')}", args.get("correlation")
    correlation = number if isinstance(number, int) else 0
    if kind in ("kernel", "copy", "fill"):
        size, fill = args.get("bytes"), _number(args.get("blocks per SM"))
        bytes_copied = size if isinstance(size, int) and size > 0 else 0
        filled = 1.0 if fill is None else min(1.0, max(0.0, fill))
        return GpuEvent(kind, name, start, start + dur, thread, correlation, bytes_copied, filled)
    event = HostEvent(kind, name, start, start + dur, thread, correlation)
    if kind == "op":
        dims, types = args.get("Input Dims"), args.get("Input type")
        event.shapes = tuple(map(_shape, dims)) if isinstance(dims, list) else ()
        event.types = tuple(map(str, types)) if isinstance(types, list) else ()
    return event


def _shape(dims: Any) -> tuple[int, ...]:
    return tuple(size for size in dims if isinstance(size, int)) if isinstance(dims, list) else ()


def _number(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18  # NaN does not fit
    return float(value) if fits else None


def _linked(events: list[HostEvent | GpuEvent], head: dict[str, Any], tail: dict[str, Any]) -> ProfilerTrace:
    """Put events in order, each with the span around it, GPU work with its launch, and calls with their lines."""
    of_host = [event for event in events if isinstance(event, HostEvent)]
    trace = ProfilerTrace(
        host=sorted((event for event in of_host if event.kind != "overhead"), key=lambda event: (event.start, -event.end)),
        gpu=sorted((event for event in events if isinstance(event, GpuEvent)), key=lambda event: event.start),
        overheads=[event for event in of_host if event.kind == "overhead"],
    )
    open_spans: dict[str, list[HostEvent]] = {}
    for event in trace.host:
        spans = open_spans.setdefault(event.thread, [])
        while spans and spans[-1].end <= event.start:
            spans.pop()
        parent = event.parent = spans[-1] if spans else None
        if parent is not None:
            event.python = parent if parent.kind == "python" else parent.python
            event.outermost = parent.outermost
        if event.outermost is None and event.kind == "op":
            event.outermost = event
        spans.append(event)
    calls = {event.correlation: event for event in trace.host if event.kind == "call" and event.correlation}
    for work in trace.gpu:
        work.call = calls.get(work.correlation)
    callers = tail.get(CALLERS)
    lines = dict(entry for entry in callers if _is_pair(entry)) if isinstance(callers, list) else {}
    if lines:
        for event in trace.host:
            if event.kind == "python":
                at = round(event.start * 1000)  # a float of the file is exact to a nanosecond or so
                event.line = lines.get(at) or lines.get(at - 1) or lines.get(at + 1) or 0
    devices = head.get("deviceProperties", tail.get("deviceProperties"))
    device = devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    if isinstance(major, int) and isinstance(minor, int):
        trace.capability = (major, minor)
    trace.gpu_name = clean(device.get("name", ""), 80)
    overhead = _number(tail.get(OVERHEAD))
    if overhead:  # a profiler that costs nothing was measured beside something else
        trace.overhead_us = min(20.0, max(0.0, overhead))
    return trace


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(number, int) for number in entry)
