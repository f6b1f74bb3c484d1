"""The CPU clock: ``perf_counter_ns`` around each call, caches as the previous call left them."""

from __future__ import annotations

from time import perf_counter_ns  # by name: a benchmark that replaces it in its module does not change this clock
from typing import Literal

from ratchet.measure.clocks import Call, Samples


class CpuClock:
    """Times a call that is finished when it returns."""

    name = "cpu"
    cache: Literal["cold", "warm"] = "warm"

    def __init__(self, call: Call) -> None:
        self._call = call

    def take(self, count: int) -> Samples:
        call, now = self._call, perf_counter_ns
        call()
        times = []
        for _ in range(count):
            start = now()
            call()
            times.append(max(1, now() - start) * 1e-6)
        return Samples(tuple(times))
