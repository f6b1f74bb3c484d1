"""One file a clock. Each takes ``n`` samples of a callable and says whether launch latency could have leaked in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Call = Callable[[], object]


@dataclass(frozen=True)
class Samples:
    """Milliseconds per call. ``exposed``: the GPU ran out of queued work, so launch latency may be among them."""

    times_ms: tuple[float, ...]
    exposed: bool = False


class Clock(Protocol):
    """What a worker times with."""

    name: str
    cache: Literal["cold", "warm"]

    def take(self, count: int) -> Samples:
        """Take ``count`` samples after one call that is not timed."""
        ...


def make_clock(name: str, cache: Literal["cold", "warm"], call: Call) -> Clock:
    """``event``, ``graph`` or ``cpu``."""
    if name == "event":
        from ratchet.measure.clocks.gpu import EventClock

        return EventClock(call, cache)
    if name == "graph":
        from ratchet.measure.clocks.gpu import GraphClock

        return GraphClock(call)
    from ratchet.measure.clocks.cpu import CpuClock

    return CpuClock(call)
