"""Tests of what is remembered of the GPU while it is timed."""

from __future__ import annotations

import threading

import pytest

from ratchet.core.device.gpu import ComputeProcess, Reading
from ratchet.core.device.telemetry import Sampler, Tick, most_foreign, pids_comparable


class FakeGpu:
    """Shows the readings it is given, one for each look, and the processes that the test sets."""

    uuid = "GPU-0aaa-bbb"

    def __init__(self, *readings: Reading) -> None:
        self._readings = iter(readings)
        self.pids: list[int] = []
        self.busy: frozenset[int] = frozenset()
        self.looked = threading.Event()
        self.asked_busy = 0

    def reading(self) -> Reading:
        self.looked.set()
        return next(self._readings, Reading(at_s=1e9))

    def compute_processes(self) -> list[ComputeProcess]:
        return [ComputeProcess(pid) for pid in self.pids]

    def busy_pids(self) -> frozenset[int]:
        self.asked_busy += 1
        return self.busy


def after(gpu: FakeGpu, looks: int) -> Sampler:
    sampler = Sampler(gpu)
    for _ in range(looks):
        sampler.look()
    return sampler


def tick(listed: set[int], own: set[int]) -> Tick:
    return Tick(Reading(at_s=0.0), frozenset(listed), frozenset(own))


HOT = "hardware thermal slowdown"


def test_summary() -> None:
    """A summary covers the looks within the windows and no others."""
    gpu = FakeGpu(*(Reading(float(second), 1000 + second, 50 + second, 100.0 + second) for second in range(10)))
    told = after(gpu, 10).summary([(1.5, 3.5), (3.0, 5.0)])
    assert told.readings == 4
    assert (told.sm_clock_mhz_min, told.sm_clock_mhz_median, told.sm_clock_mhz_max) == (1002, 1003.5, 1005)
    assert (told.temperature_c_max, told.power_w_max, told.slowdown_reasons, told.foreign_processes) == (55, 105, (), 0)


def test_load() -> None:
    """A summary has the power and the memory clock under load, how often the power limit held, and whose figures they are."""
    gpu = FakeGpu(
        *(Reading(float(second), power_w=690.0 + second, memory_clock_mhz=3201, power_capped=second < 3) for second in range(4))
    )
    told = after(gpu, 4).summary([(0.0, 3.0)])
    assert (told.power_w_median, told.memory_clock_mhz_median, told.power_capped) == (691.5, 3201, 0.75)
    assert told.gpu_uuid == gpu.uuid
    silent = after(FakeGpu(Reading(0.0)), 1).summary([(0.0, 1.0)])
    assert (silent.power_w_median, silent.memory_clock_mhz_median, silent.power_capped) == (None, None, None)


def test_short_window() -> None:
    """A window between two looks takes both of them."""
    gpu = FakeGpu(Reading(1.0, 900), Reading(2.0, 1100), Reading(3.0, 1300))
    told = after(gpu, 3).summary([(2.1, 2.2)])
    assert (told.readings, told.sm_clock_mhz_min, told.sm_clock_mhz_max) == (2, 1100, 1300)


@pytest.mark.parametrize("looks", [0, 1])
def test_silent_gpu(looks: int) -> None:
    """Without a look, or from a GPU that shows nothing, the figures are 0 and nothing fails."""
    told = after(FakeGpu(Reading(1.0)), looks).summary([(0.5, 1.5)])
    assert (told.readings, told.sm_clock_mhz_max, told.power_w_max) == (looks, 0, 0)


@pytest.mark.parametrize(
    ("window", "slowed"),
    [((0.0, 0.5), False), ((1.1, 1.2), True), ((1.9, 2.1), True), ((2.1, 2.2), True), ((3.0, 3.5), True), ((3.1, 3.5), False)],
)
def test_slowed(window: tuple[float, float], slowed: bool) -> None:
    """A window was slowed if a look within it, or the nearest before or after it, saw a slowdown."""
    gpu = FakeGpu(Reading(1.0), Reading(2.0, slowdown=(HOT,)), Reading(3.0), Reading(4.0))
    assert after(gpu, 4).slowed(window) is slowed


def test_summary_agrees_with_slowed() -> None:
    """A slowdown that marks a block stands in the summary of its case as well."""
    gpu = FakeGpu(Reading(1.0), Reading(1.4), Reading(2.0, slowdown=(HOT,)))
    sampler = after(gpu, 3)
    assert sampler.slowed((1.3, 1.5))
    assert sampler.summary([(1.3, 1.5)]).slowdown_reasons == (HOT,)


@pytest.mark.parametrize(
    ("ticks", "own", "foreign"),
    [
        ([tick({1, 2, 9}, {1, 2})], {1, 2}, 1),
        ([tick({1, 2}, {1, 2}), tick({2}, set())], {1, 2}, 0),  # a worker that the driver still lists
        ([tick({1, 8, 9}, {1}), tick({1, 9}, {1})], {1}, 2),
        ([tick({9}, {1, 2}), tick({1, 2}, {1, 2})], {1, 2}, 1),  # seen before our workers had a context
    ],
)
def test_comparable(ticks: list[Tick], own: set[int], foreign: int) -> None:
    """Where the driver names our workers as we do, every listed process that was never ours is foreign."""
    assert pids_comparable(ticks, frozenset(own))
    assert most_foreign(ticks, frozenset(own), comparable=True) == foreign


@pytest.mark.parametrize(
    ("ticks", "foreign"),
    [
        ([tick({5001, 5002}, {1, 2})], 0),
        ([tick({5001, 5002, 7000}, {1, 2})], 1),
        ([tick(set(), {1, 2})], 0),
        ([tick({7000}, set())], 1),
        ([tick({5001}, {1, 2}), tick({5001, 5002}, {1, 2})], 0),
        ([], 0),
    ],
)
def test_not_comparable(ticks: list[Tick], foreign: int) -> None:
    """Where no worker of ours is ever named, as in a container, only processes beyond our live workers are foreign."""
    own = frozenset({1, 2})
    assert not pids_comparable(ticks, own)
    assert most_foreign(ticks, own, comparable=False) == foreign


def test_own_is_followed() -> None:
    """Workers that the caller names are never foreign, before and after they end; all others are."""
    gpu = FakeGpu(Reading(1.0), Reading(2.0), Reading(3.0))
    sampler = Sampler(gpu)
    sampler.note_worker(11, alive=True)
    sampler.note_worker(12, alive=True)
    for ended, listed in ((None, [11, 12]), (11, [11, 12]), (12, [12, 40])):
        gpu.pids = listed
        if ended:
            sampler.note_worker(ended, alive=False)
        sampler.look()
    assert sampler.summary([(0.0, 2.5)]).foreign_processes == 0
    assert sampler.summary([(0.0, 3.5)]).foreign_processes == 1


def test_worker_that_ends_during_a_look() -> None:
    """A worker that the caller takes out in the middle of a look still counts as alive in it."""
    gpu = FakeGpu(Reading(1.0))
    sampler = Sampler(gpu)
    sampler.note_worker(1, alive=True)
    gpu.pids = [5001]

    def listing() -> list[ComputeProcess]:
        sampler.note_worker(1, alive=False)
        return [ComputeProcess(5001)]

    gpu.compute_processes = listing  # type: ignore[method-assign]
    sampler.look()
    assert sampler.summary([(0.0, 2.0)]).foreign_processes == 0


def test_idle_process() -> None:
    """A process that was idle before the run counts from when it computes; the driver is asked only where one exists."""
    gpu = FakeGpu(Reading(1.0), Reading(2.0))
    sampler = Sampler(gpu, idle={30})
    gpu.pids = [30]
    sampler.look()
    assert sampler.summary([(0.0, 1.5)]).foreign_processes == 0
    gpu.busy = frozenset({30})
    sampler.look()
    assert sampler.summary([(0.0, 2.5)]).foreign_processes == 1
    gpu.pids = [31]
    sampler.look()
    assert gpu.asked_busy == 2


def test_thread() -> None:
    """The thread looks by itself while the sampler is open, and has ended when it is closed."""
    gpu = FakeGpu(Reading(1.0, 1500))
    with Sampler(gpu, period_s=0.01) as sampler:
        assert gpu.looked.wait(60)
        gpu.looked.clear()
        assert gpu.looked.wait(60)
    assert not any(thread.name == sampler._thread.name and thread is sampler._thread for thread in threading.enumerate())
    assert sampler.summary([(0.0, 2.0)]).sm_clock_mhz_max == 1500
