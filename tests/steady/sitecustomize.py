"""A clock for workers under test: it counts what code waits, not what the machine does meanwhile.

A call that waits 2 ms takes 2 ms by it, on an idle machine as on one with a hundred other processes; what it computes takes no
time. So no verdict of a test depends on who else uses the machine. Python imports a file of this name when it starts, where it
finds one: `tests/integration/playground.py` puts this folder on the path, and forks of `tests/warm.py` call `keep_time`.
The real clock has tests of its own: tests/unit/test_cpu_clock.py, and tests/gpu.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from random import Random

HOST = "ratchet.core.bench.child.host"
REAL_CLOCK = "TESTS_REAL_CLOCK"
"""A variable for tests of code that really computes longer."""
READING_NS = 1000
"""What the clock goes on whenever it is read: less than that takes."""


def steady_clock() -> tuple[Callable[[], int], Callable[[float], None]]:
    """Return functions to put in place of `time.perf_counter_ns` and `time.sleep`. They wait as long as the real ones."""
    really_sleep, waited_ns, reader, jitter = time.sleep, 0, 0, Random(0)

    def now() -> int:
        nonlocal waited_ns, reader, jitter
        if reader != (reader := os.getpid()):
            jitter = Random(reader)  # times that are all alike are nothing that was measured
        waited_ns += READING_NS + int(jitter.random() * READING_NS / 50)
        return waited_ns

    def sleep(seconds: float, /) -> None:
        nonlocal waited_ns
        really_sleep(seconds)
        waited_ns += round(seconds * 1e9)

    return now, sleep


def keep_time() -> None:
    """Have this process and its forks, a host and its workers, keep this time."""
    now, sleep = steady_clock()
    time.perf_counter_ns, time.sleep = now, sleep  # type: ignore[assignment]
    if clocks := sys.modules.get("ratchet.core.bench.clocks"):
        clocks.perf_counter_ns = now  # type: ignore[attr-defined]


if HOST in sys.orig_argv and REAL_CLOCK not in os.environ:
    keep_time()
