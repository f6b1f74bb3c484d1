"""Trace calls of one case with torch.profiler: its kernels, launches, copies and gaps, summed up by name.

For tools: a worker carries it out on a case that it has prepared, so a trace costs no import of its own.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ratchet.core.bench.child.kernel_times import events_of, settle
from ratchet.core.records.profile import Activity
from ratchet.core.workload import Device

ALLOCATIONS = ("aten::empty", "aten::new_empty", "aten::resize_", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cuMem")
"""Beginnings of the names of calls that allocate or free memory."""
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch")
_US = 1e-6
_WARM_CALLS, _WARM_S = (3, 50), 0.3
"""Fewest and most warm-up calls; between these they end after so many seconds."""
_CALLS, _TRACED_S = 10, 1.0
"""Calls that are traced: fewer where they take longer than this together."""


def host_copies_s(activity: Activity) -> float:
    """Return the seconds of copies between the device and the host; of all copies where their kinds are not known."""
    to_or_from_host = [seconds for kind, seconds in activity.copies.items() if "H" in kind.removeprefix("Memcpy ")]
    return sum(to_or_from_host) if activity.copies else activity.copies_s


class TimeIsOver(BaseException):
    """The time limit of a traced program; it is no Exception, so that no author's code takes it for an error of its own."""


def end_in_time(*_: object) -> NoReturn:
    """Handle SIGALRM. Raises TimeIsOver."""
    raise TimeIsOver


def warmed(call: Callable[[], object], device: Device) -> float:
    """Call until tuning, compilation and clocks have settled. Return the seconds of the last call."""
    began = time.perf_counter()
    for count in range(1, _WARM_CALLS[1] + 1):
        started = time.perf_counter()
        call()
        settle(device)
        now = time.perf_counter()
        if count >= _WARM_CALLS[0] and now - began > _WARM_S:
            break
    return now - started


def trace(call: Callable[[], object], device: Device) -> Activity:
    """Warm the call up, and trace some calls with torch.profiler, one right after the other."""
    calls = max(1, min(_CALLS, int(_TRACED_S / max(warmed(call, device), 1e-9))))
    events_of(call, device)  # the first one sets the tracer up, and its events are late

    def every() -> None:
        for _ in range(calls):
            call()

    return activity_of(events_of(every, device), calls, device)


def activity_of(events: Iterable[Any], calls: int, device: Device) -> Activity:
    """Sum up torch.profiler's events by name, in seconds; on the CPU an operator's own time, without that of those it calls."""
    kernels: dict[str, float] = defaultdict(float)
    ran: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    copied: Counter[str] = Counter()
    spent: dict[str, float] = defaultdict(float)
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    busy: list[tuple[float, float]] = []
    every: list[tuple[float, float]] = []
    launches = pageable = 0
    copies: dict[str, float] = defaultdict(float)
    for event in events:
        name, span = str(event.name), (event.time_range.start * _US, event.time_range.end * _US)
        every.append(span)
        if "CPU" in str(event.device_type):
            own_s = max(0.0, event.self_cpu_time_total * _US)
            spent[name] += own_s
            if device == "cpu":
                times[name].append((span[0], own_s))
                operators[name] += 1
            launches += name.startswith(_LAUNCHES)
            continue
        if is_gpu_range(event):
            continue
        busy.append(span)
        if name.startswith("Memcpy"):
            kind = name.partition(" (")[0]  # Memcpy DtoD (Device -> Device)
            copies[kind] += span[1] - span[0]
            copied[kind] += 1
            pageable += "Pageable" in name
        else:
            kernels[name] += span[1] - span[0]
            times[name].append((span[0], span[1] - span[0]))
            ran[name] += not name.startswith("Memset")
    return Activity(
        calls=calls,
        wall_s=max((end for _, end in every), default=0.0) - min((start for start, _ in every), default=0.0),
        kernels=dict(kernels) if device == "cuda" else dict(spent),
        per_call={name: _range_of_calls(each, calls) for name, each in times.items() if len(each) % calls == 0},
        ran=dict(+ran + copied if device == "cuda" else operators),
        launches=launches or ran.total(),
        copies_s=sum(copies.values()),
        copies=dict(copies),
        pageable_copies=pageable,
        gaps_s=sum(gaps_between(busy)) if device == "cuda" else None,
        cpu_s=dict(spent),
        allocation_s=sum(seconds for name, seconds in spent.items() if name.startswith(ALLOCATIONS)),
    )


def _range_of_calls(times: list[tuple[float, float]], calls: int) -> tuple[float, float]:
    """Return the least and the most seconds of a call. ``times``: the start and the seconds of each event, alike in all calls."""
    seconds = [each for _, each in sorted(times)]
    length = len(seconds) // calls
    sums = [sum(seconds[first : first + length]) for first in range(0, len(seconds), length)]
    return min(sums), max(sums)


def is_gpu_range(event: Any) -> bool:
    """Return whether an event is a `record_function` as the GPU shows it: around kernels, as in torch.optim, and none itself."""
    return bool(getattr(event, "is_user_annotation", False)) and "CPU" not in str(event.device_type)


def gaps_between(spans: Iterable[tuple[float, float]]) -> list[float]:
    """Return the times between the first start and the last end that no span covers."""
    gaps: list[float] = []
    reached: float | None = None
    for start, end in sorted(spans):
        if reached is not None and start > reached:
            gaps.append(start - reached)
        reached = end if reached is None else max(reached, end)
    return gaps
