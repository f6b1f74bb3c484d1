"""Keep the GPU busy until the host has queued a whole block, so that no sample contains launch latency; and the events around it.

nvbench does this with a blocking kernel; a device-side sleep needs no host round trip to end it. What is used of torch and time
is bound when this module is imported, before any benchmark is: one that replaces these functions changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch

current_stream, synchronize = torch.cuda.current_stream, torch.cuda.synchronize
_Event = torch.cuda.Event
_sleep: Callable[[int], None] = torch.cuda._sleep
_record: Callable[[torch.cuda.Event, torch.cuda.Stream], None] = _Event.record
_query: Callable[[torch.cuda.Event], bool] = _Event.query
_elapsed_ms: Callable[[torch.cuda.Event, torch.cuda.Event], float] = _Event.elapsed_time
_CYCLES_PER_SECOND = 2e9  # about the boost clock; a slower clock only sleeps longer
_LONGEST_S = 0.05


class TimedEvent:
    """A CUDA event that keeps its time."""

    def __init__(self) -> None:
        self._event = _Event(enable_timing=True)

    def record(self, stream: torch.cuda.Stream) -> None:
        """Take the time when the stream gets here."""
        _record(self._event, stream)

    def has_passed(self) -> bool:
        """Whether the stream has got here."""
        return _query(self._event)

    def elapsed_ms(self, end: TimedEvent) -> float:
        """Milliseconds on the device from this event to a later one."""
        return _elapsed_ms(self._event, end._event)


class Lead:
    """Head start for the host, adapted to how long it takes to queue a block."""

    def __init__(self) -> None:
        self._needed_s = 0.0
        self._started = 0.0

    def give(self) -> None:
        """Queue the sleep. Call before queueing a block."""
        _sleep(int(max(20e-6, self._needed_s) * _CYCLES_PER_SECOND))
        self._started = perf_counter()

    def judge(self, last_but_one: TimedEvent) -> bool:
        """Call once the block is queued: True if the GPU has already caught up with the host.

        Then the next block gets a longer lead, up to what queueing took and a half more.
        """
        caught_up = last_but_one.has_passed()
        if caught_up:
            took = perf_counter() - self._started
            self._needed_s = min(_LONGEST_S, max(self._needed_s * 1.5, took * 1.5))
        return caught_up
