"""Clocks take samples of a callable, and report whether launch latency may be in them: that for the CPU here, `gpu` beside it.

`child.worker.make_clock` chooses one. They run the author's code, and so in a worker only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns  # by name: a benchmark that replaces it in its module does not change this clock
from typing import Literal, Protocol

Call = Callable[[], object]


@dataclass(frozen=True)
class Samples:
    """Times of a block, in milliseconds per call.

    ``exposed``: the GPU ran out of queued work, so launch latency may be in them.
    """

    times_ms: tuple[float, ...]
    exposed: bool = False


class Clock(Protocol):
    """The means by which a worker times a call."""

    name: str
    cache: Literal["cold", "warm"]

    def take(self, count: int) -> Samples:
        """Take ``count`` samples after one call that is not timed."""
        ...


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
            times.append(max(1, now() - start) * 1e-6)  # a sample of 0 is not valid: `records.run.SampleMs`
        return Samples(tuple(times))
