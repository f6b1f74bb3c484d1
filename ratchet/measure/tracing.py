"""Calls under torch.profiler → an `Activity`. Runs in the process that holds the workload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ratchet.records.profile import Activity
from ratchet.workload import Device

ALLOCATIONS = ("aten::empty", "aten::new_empty", "aten::resize_", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cuMem")
"""How the names of calls begin that allocate or free memory."""
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch")
_US = 1e-6


def trace(call: Callable[[], object], calls: int, device: Device) -> Activity:
    """What torch.profiler sees of ``calls`` calls, one right after the other. The call has to be warm."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    wanted = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    settle: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    with profile(activities=wanted):  # the first one sets the tracer up, and its events are late
        call()
        settle()
    with profile(activities=wanted) as taken:
        for _ in range(calls):
            call()
        settle()
    return activity_of(taken.events(), calls, device)


def activity_of(events: Iterable[Any], calls: int, device: Device) -> Activity:
    """Times of torch.profiler's events by name; on the CPU an operator's own time, without that of those it calls."""
    kernels: dict[str, float] = defaultdict(float)
    spent: dict[str, float] = defaultdict(float)
    busy: list[tuple[float, float]] = []
    every: list[tuple[float, float]] = []
    launches = kernel_count = pageable = 0
    copies_s = 0.0
    for event in events:
        name, span = str(event.name), (event.time_range.start * _US, event.time_range.end * _US)
        every.append(span)
        if "CPU" in str(event.device_type):
            spent[name] += max(0.0, event.self_cpu_time_total * _US)
            launches += name.startswith(_LAUNCHES)
            continue
        busy.append(span)
        if name.startswith("Memcpy"):
            copies_s += span[1] - span[0]
            pageable += "Pageable" in name
        else:
            kernels[name] += span[1] - span[0]
            kernel_count += not name.startswith("Memset")
    return Activity(
        calls=calls,
        wall_s=max((end for _, end in every), default=0.0) - min((start for start, _ in every), default=0.0),
        kernels=dict(kernels) if device == "cuda" else dict(spent),
        launches=launches or kernel_count,
        copies_s=copies_s,
        pageable_copies=pageable,
        gaps_s=idle_between(busy) if device == "cuda" else None,
        cpu_s=dict(spent),
        allocation_s=sum(seconds for name, seconds in spent.items() if name.startswith(ALLOCATIONS)),
    )


def idle_between(spans: Iterable[tuple[float, float]]) -> float:
    """Time between the first start and the last end that no span covers."""
    idle, reached = 0.0, None
    for start, end in sorted(spans):
        if reached is not None and start > reached:
            idle += start - reached
        reached = end if reached is None else max(reached, end)
    return idle
