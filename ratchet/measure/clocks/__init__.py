"""Clocks, one file for each device. A clock takes samples of a callable, and says whether launch latency may be in them.

`child.worker.make_clock` chooses one.
"""

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
    """The means by which a worker times a call."""

    name: str
    cache: Literal["cold", "warm"]

    def take(self, count: int) -> Samples:
        """Take ``count`` samples after one call that is not timed."""
        ...
