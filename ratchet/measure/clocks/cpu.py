"""Time calls on the CPU: ``perf_counter_ns`` around each call, caches as the previous call or its preparation left them.

`child.worker` uses it for benchmarks on the CPU. It runs the author's code, and touches nothing else.
"""

from __future__ import annotations

from time import perf_counter_ns  # by name: a benchmark that replaces it in its module does not change this clock
from typing import Literal

from ratchet.measure.clocks import Call, Samples


class CpuClock:
    """A clock for calls that are finished when they return; ``settle`` waits for what a call has left running."""

    name = "cpu"
    cache: Literal["cold", "warm"] = "warm"

    def __init__(self, call: Call, before: Call | None = None, settle: Call | None = None) -> None:
        self._call = call
        self._before = before
        self._settle = settle

    def take(self, count: int) -> Samples:
        """Take ``count`` samples after one call that is not timed."""
        call, before, settle, now = self._call, self._before, self._settle, perf_counter_ns
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
            times.append(max(1, now() - start) * 1e-6)  # a sample of 0 is not valid: `records.run.SampleMs`
        return Samples(tuple(times))
