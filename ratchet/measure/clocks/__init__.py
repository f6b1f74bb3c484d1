"""Define a clock: it takes samples of a callable, and reports whether launch latency may be in them. One file for each device.

`child.worker.make_clock` chooses one. This file is pure; `cpu` and `gpu` call what they time, and so run in a worker only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
