"""Time calls on the CPU: ``perf_counter_ns`` around each call, caches as the previous call left them.

`child.worker` uses it for benchmarks on the CPU. It runs the author's code, and touches nothing else.
"""

from __future__ import annotations

from time import perf_counter_ns  # by name: a benchmark that replaces it in its module does not change this clock
from typing import Literal

from ratchet.measure.clocks import Call, Samples


class CpuClock:
    """A clock for calls that are finished when they return."""

    name = "cpu"
    cache: Literal["cold", "warm"] = "warm"

    def __init__(self, call: Call) -> None:
        self._call = call

    def take(self, count: int) -> Samples:
        """Take ``count`` samples after one call that is not timed."""
        call, now = self._call, perf_counter_ns
        call()
        times = []
        for _ in range(count):
            start = now()
            call()
            times.append(max(1, now() - start) * 1e-6)  # a sample of 0 is not valid: `records.run.SampleMs`
        return Samples(tuple(times))
