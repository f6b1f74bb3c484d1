"""Keep the GPU busy until the host has queued a whole block, so that no sample contains launch latency.

nvbench does this with a blocking kernel; a device-side sleep needs no host round trip to end it.
"""

from __future__ import annotations

import time

import torch

_CYCLES_PER_SECOND = 2e9  # about the boost clock; a slower clock only sleeps longer
_LONGEST_S = 0.05


class Lead:
    """Head start for the host, adapted to how long it takes to queue a block."""

    def __init__(self) -> None:
        self._needed_s = 0.0
        self._started = 0.0

    def give(self) -> None:
        """Queue the sleep. Call before queueing a block."""
        torch.cuda._sleep(int(max(20e-6, self._needed_s) * _CYCLES_PER_SECOND))
        self._started = time.perf_counter()

    def judge(self, last_but_one: torch.cuda.Event) -> bool:
        """Call once the block is queued: True if the GPU has already caught up with the host.

        Then the next block gets a longer lead, up to what queueing took and a half more.
        """
        caught_up = bool(last_but_one.query())
        if caught_up:
            took = time.perf_counter() - self._started
            self._needed_s = min(_LONGEST_S, max(self._needed_s * 1.5, took * 1.5))
        return caught_up
