"""Is an answer what was asked for, and can it be true? Pure.

A benchmark's code runs in the process that times it, so what comes back is held to what the controller knows by itself:
how many samples it asked for, how long it waited for them, and what the hardware can do.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ratchet import units
from ratchet.records.profile import Peaks
from ratchet.records.run import WorkloadIdentity

LEAST_MS = {"cpu": 1e-5, "event": 1e-4, "graph": 1e-5}
"""No call takes less: two readings of the CPU's clock lie 20 ns apart, and two events on an empty stream about 1 µs; a graph's
sample is a twentieth of that."""
ABOVE_PEAK = 3.0
"""A call may seem so many times faster than the datasheet allows: declared bytes and FLOPs are the authors' own count."""
ABOVE_PEAK_WARM = 10.0
"""The same for bytes that stay in the L2 cache, which is up to five times as fast as the memory behind it."""
SLACK, SLACK_S = 1.05, 1e-3
"""Samples may add up to this much more than the time of the request: a GPU's clock and the host's are not one."""


def problem_of(samples_ms: Sequence[float], asked: int, waited_s: float, clock: str) -> str | None:
    """Why a block's samples cannot be what was asked for, as a clause, or None."""
    if len(samples_ms) != asked:
        return f"{len(samples_ms)} samples came back where {asked} were asked for"
    total_s = sum(samples_ms) * 1e-3
    if total_s > waited_s * SLACK + SLACK_S:
        return f"its samples add up to {units.duration(total_s)}, but all of them came within {units.duration(waited_s)}"
    least = LEAST_MS.get(clock, 0.0)
    if min(samples_ms) < least:
        return f"a call of {units.duration(min(samples_ms) * 1e-3)} is shorter than any that this clock can see"
    return None


def beyond_hardware(samples_ms: Sequence[float], workload: WorkloadIdentity, peaks: Peaks | None) -> str | None:
    """Why no GPU could do the declared work in the median of these times, as a clause, or None. ``peaks`` is None on a CPU."""
    if peaks is None:
        return None
    seconds = statistics.median(samples_ms) * 1e-3
    peak_bytes, peak_flops = peaks.dram_bytes_per_s or 0.0, max(peaks.flops_per_s.values(), default=0.0)
    within = ABOVE_PEAK if workload.cache == "cold" else ABOVE_PEAK_WARM
    if peak_bytes and workload.bytes / seconds > within * peak_bytes:
        what, times = "move its declared bytes", workload.bytes / seconds / peak_bytes
    elif peak_flops and workload.flops / seconds > ABOVE_PEAK * peak_flops:
        what, times = "do its declared FLOPs", workload.flops / seconds / peak_flops
    else:
        return None
    return (
        f"a call of {units.duration(seconds)} would {what} {times:.3g} times as fast as this GPU can: check what the workload "
        "declares, and that run() queues its work on the current stream"
    )
