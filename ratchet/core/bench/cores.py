"""Choose the two cores of the host on which both workers of a pair are timed, where the GPU waits for the host.

`duet.Duet` asks before each such pair. Reads /proc and /sys; each worker moves its own threads (`keep_to`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path

FEWEST_CORES = 4
"""On a machine with fewer, two cores are not left alone by the controller and by what else runs."""
_BUSY = (1, 2, 3, 6, 7, 8)
"""Fields of a line of /proc/stat in which a core was at work: user, nice, system, irq, softirq, steal (proc_stat(5))."""


def part_of_cores(number: int, of: int) -> list[int]:
    """Return the cores of this process for part ``number``, from 0, of as many parts; all have some, if need be the same."""
    cores = sorted(os.sched_getaffinity(0))
    first, after = (len(cores) * part // of for part in (number, number + 1))
    return cores[first:after] or cores[:1]


class HostCores:
    """The cores of the host in twos: the two threads of one core, or else neighbours.

    One is for the main thread of a worker, which launches, the other for those that take turns with it, as autograd's does. A
    core that is slow for a while, as those of virtual machines are, then slows both sides (docs/decisions/0019-at-once.md).
    """

    def __init__(
        self,
        cores: Collection[int],
        topology: Path = Path("/sys/devices/system/cpu"),
        statistics: Path = Path("/proc/stat"),
    ) -> None:
        self._twos = _in_twos(sorted(cores), topology)
        self._statistics = statistics
        self._busy = self._read()

    def idlest(self) -> tuple[int, ...]:
        """Return the two cores that were least at work since the last call; none where there are too few to choose from."""
        before, self._busy = self._busy, self._read()

        def at_work(two: Sequence[int]) -> int:
            return sum(self._busy.get(core, 0) - before.get(core, 0) for core in two)

        return min(self._twos, key=at_work, default=())

    def _read(self) -> dict[int, int]:
        """Return the ticks in which each core was at work; nothing where that cannot be read."""
        busy = {}
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in self._statistics.read_text(encoding="ascii").splitlines():
                fields = line.split()
                if fields and fields[0].startswith("cpu") and fields[0] != "cpu":
                    busy[int(fields[0][3:])] = sum(int(fields[place]) for place in _BUSY)
        return busy


def _in_twos(cores: Sequence[int], topology: Path) -> Sequence[tuple[int, ...]]:
    """Return the cores in twos, without the first two if others are left: interrupts and the controller are often there."""
    if len(cores) < FEWEST_CORES:
        return []
    left, twos = list(cores), []
    while len(left) > 1:
        first = left.pop(0)
        second = next((core for core in _threads_of_core(first, topology) if core in left), left[0])
        left.remove(second)
        twos.append((first, second))
    return twos[1:]


def _threads_of_core(core: int, topology: Path) -> list[int]:
    """Return the numbers of all threads of the physical core with this one, as in ``0,16`` or ``0-1``."""
    with contextlib.suppress(OSError, ValueError):
        text = (topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text(encoding="ascii")
        ranges = [part.split("-") for part in text.strip().split(",")]
        return [number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)]
    return []


def keep_to(main: Collection[int], others: Collection[int]) -> None:
    """Keep the main thread of this process to some cores and all other threads to others, as far as the system allows."""
    seen: set[str] = set()
    while started := set(os.listdir("/proc/self/task")) - seen:  # noqa: PTH208  a thread may start another meanwhile
        for thread in started:
            with contextlib.suppress(OSError):  # it has ended, or these cores were taken from this process
                os.sched_setaffinity(int(thread), main if int(thread) == os.getpid() else others)
        seen |= started
