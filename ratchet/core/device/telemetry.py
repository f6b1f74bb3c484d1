"""Watch the GPU while something is timed: clock, heat, power, slowdowns and foreign processes, ten times a second.

It asks in a daemon thread of the controller, so that nothing runs in the process that is timed; the functions below `Sampler` are
pure.
"""

from __future__ import annotations

import statistics
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ratchet.core.device.gpu import Gpu, Reading
from ratchet.core.records.environment import Telemetry

Window = tuple[float, float]
"""Start and end in `time.monotonic` seconds."""


@dataclass(frozen=True)
class Tick:
    """One look at the GPU."""

    reading: Reading
    listed: frozenset[int] = frozenset()
    """Processes that the driver lists, those excused as idle left out."""
    own: frozenset[int] = frozenset()
    """Our workers that lived at that moment."""


class Sampler:
    """A daemon thread that looks at the GPU while this context manager is entered."""

    def __init__(self, gpu: Gpu, *, idle: Collection[int] = (), period_s: float = 0.1) -> None:
        """``idle``: processes present before the first worker that computed nothing; they count only once they compute."""
        self._gpu = gpu
        self._idle = frozenset(idle)
        self._period_s = period_s
        self._ticks: list[Tick] = []
        self._own: frozenset[int] = frozenset()
        """The PIDs of our live workers."""
        self._ever_own: frozenset[int] = frozenset()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ratchet-telemetry", daemon=True)

    def note_worker(self, pid: int, *, alive: bool) -> None:
        """Note that a worker of ours began, or ended and was waited for: until then the driver may list it. For any thread."""
        with self._lock:
            self._own = self._own | {pid} if alive else self._own - {pid}
            self._ever_own |= self._own

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(self._period_s)

    def look(self) -> None:
        """Take one look now. The thread does this by itself."""
        before = self._own
        reading = self._gpu.reading()
        listed = frozenset(process.pid for process in self._gpu.compute_processes())
        if listed & self._idle:  # asked only then: it is the slowest question, and few machines need it
            listed -= self._idle - self._gpu.busy_pids()
        self._ticks.append(Tick(reading, listed, before | self._own))  # a worker may have come or gone while we asked

    def summary(self, windows: Sequence[Window]) -> Telemetry:
        """Sum up what the GPU showed within the windows.

        A window too short for a look takes the nearest before and after it. Figures that the GPU does not report are 0.
        """
        ticks = list(self._ticks)
        own = frozenset(self._ever_own)
        inside = _pick(ticks, windows, around=False) or _pick(ticks, windows, around=True)
        clocks = [tick.reading.sm_clock_mhz for tick in inside if tick.reading.sm_clock_mhz is not None]
        heats = [tick.reading.temperature_c for tick in inside if tick.reading.temperature_c is not None]
        powers = [tick.reading.power_w for tick in inside if tick.reading.power_w is not None]
        memory = [tick.reading.memory_clock_mhz for tick in inside if tick.reading.memory_clock_mhz is not None]
        capped = [tick.reading.power_capped for tick in inside if tick.reading.power_capped is not None]
        reasons = {reason for tick in _pick(ticks, windows, around=True) for reason in tick.reading.slowdown}
        return Telemetry(
            readings=len(inside),
            sm_clock_mhz_min=min(clocks, default=0),
            sm_clock_mhz_median=statistics.median(clocks) if clocks else 0,
            sm_clock_mhz_max=max(clocks, default=0),
            temperature_c_max=max(heats, default=0),
            power_w_max=max(powers, default=0),
            slowdown_reasons=tuple(sorted(reasons)),
            foreign_processes=most_foreign(inside, own, comparable=pids_comparable(ticks, own)),
            gpu_uuid=self._gpu.uuid,
            power_w_median=statistics.median(powers) if powers else None,
            memory_clock_mhz_median=statistics.median(memory) if memory else None,
            power_capped=statistics.fmean(capped) if capped else None,
        )

    def slowed(self, window: Window) -> bool:
        """Return whether heat or a hardware brake slowed the GPU within the window, or at the nearest look before or after it.

        Ask once the look after the window was taken (a period later), or the last moments go unseen.
        """
        return any(tick.reading.slowdown for tick in _pick(list(self._ticks), [window], around=True))


def pids_comparable(ticks: Iterable[Tick], own: frozenset[int]) -> bool:
    """Return whether the driver knows our PIDs. In a container it may list numbers of the host, or nothing at all."""
    return any(tick.listed & own for tick in ticks)


def most_foreign(ticks: Iterable[Tick], own: frozenset[int], *, comparable: bool) -> int:
    """Return the largest number of processes at one moment that are not ours.

    Where numbers compare, those listed that were never ours. Otherwise only counts compare: those listed beyond
    our live workers. That can miss a process while a worker has no context yet, and never accuses one of ours.
    """
    if comparable:
        return max((len(tick.listed - own) for tick in ticks), default=0)
    return max((max(0, len(tick.listed) - len(tick.own)) for tick in ticks), default=0)


def _pick(ticks: Sequence[Tick], windows: Iterable[Window], *, around: bool) -> list[Tick]:
    """Return the looks within any window, each once; ``around`` adds the nearest before and after each window."""
    times = [tick.reading.at_s for tick in ticks]
    chosen: set[int] = set()
    for start, end in windows:
        first, last = bisect_left(times, start), bisect_right(times, end)
        if around:
            first, last = max(0, first - 1), min(len(ticks), last + 1)
        chosen.update(range(first, last))
    return [ticks[position] for position in sorted(chosen)]
