"""Tests of NVML, telemetry and description on a real GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import torch

from ratchet.core.device.environment import describe
from ratchet.core.device.fitness import inspect, problem_during, problems_before
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.telemetry import Sampler, pids_comparable
from ratchet.core.device.vendor import vendor_here

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

WORKER = """
import sys, torch
x = torch.randn(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(200):
        x = torch.nn.functional.normalize(x @ x)
    torch.cuda.synchronize()
    print("done", flush=True)
"""


@pytest.fixture
def gpu() -> Gpu:
    """The GPU that torch would use."""
    chosen = vendor_here().choose_gpu(None, os.environ)
    assert chosen is not None
    return chosen


@pytest.fixture
def worker(gpu: Gpu) -> Iterator[subprocess.Popen[str]]:
    """A process with a context on that GPU; it computes for a while for each line it gets."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpu.uuid}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WORKER], env=environment, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield child
        finally:
            child.kill()


def work(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    assert worker.stdout.readline() == "done\n"


def test_identity(gpu: Gpu) -> None:
    """A real GPU names itself, its memory, driver and capability as torch does."""
    properties = torch.cuda.get_device_properties(0)
    assert "NVIDIA" in gpu.name
    assert gpu.uuid.startswith(("GPU-", "MIG-"))
    assert gpu.driver
    assert gpu.compute_capability == f"{properties.major}.{properties.minor}"
    assert gpu.memory_bytes is not None
    assert abs(gpu.memory_bytes / properties.total_memory - 1) < 0.1
    again = vendor_here().choose_gpu(None, {"CUDA_VISIBLE_DEVICES": gpu.uuid})
    assert again is not None
    assert again.uuid == gpu.uuid


def test_card(gpu: Gpu) -> None:
    """A record of a run names this very GPU, its firmware, and the state of its memory."""
    (card,) = describe(gpu, "cuda").cards
    assert card.uuid == gpu.uuid
    assert card.vbios
    assert card.problem is None
    assert card.remapped_rows is None or card.remapped_rows < 600


def test_reading(gpu: Gpu) -> None:
    """A reading is plausible and takes little of the tenth of a second between two of them."""
    start = time.monotonic()
    reading = gpu.reading()
    assert time.monotonic() - start < 0.1
    assert reading.sm_clock_mhz is None or 100 < reading.sm_clock_mhz < 5000
    assert reading.temperature_c is None or 5 < reading.temperature_c < 120
    assert reading.power_w is None or 5 < reading.power_w < 3000


def test_telemetry(gpu: Gpu, worker: subprocess.Popen[str]) -> None:
    """While only our worker computes, no process is foreign: its number is listed, or numbers are not comparable."""
    with Sampler(gpu, idle={process.pid for process in gpu.compute_processes()} - {worker.pid}) as sampler:
        sampler.note_worker(worker.pid, alive=True)
        start = time.monotonic()
        while time.monotonic() - start < 0.5:
            work(worker)
        window = (start, time.monotonic())
    told = sampler.summary([window])
    own = frozenset({worker.pid})
    assert told.readings >= 2
    assert 0 < told.sm_clock_mhz_min <= told.sm_clock_mhz_median <= told.sm_clock_mhz_max
    assert pids_comparable(sampler._ticks, own) or not any(own & tick.listed for tick in sampler._ticks)
    assert told.foreign_processes == 0
    assert told.gpu_uuid == gpu.uuid
    assert told.power_w_median is None or 5 < told.power_w_median <= told.power_w_max
    assert told.memory_clock_mhz_median is None or 100 < told.memory_clock_mhz_median < 20_000
    assert told.power_capped is None or 0 <= told.power_capped <= 1
    assert problem_during(told, 0, 10, 0, 0) is None


def test_foreign_worker(gpu: Gpu, worker: subprocess.Popen[str]) -> None:
    """A process that is not ours is foreign wherever the driver lists it."""
    with Sampler(gpu) as sampler:
        start = time.monotonic()
        work(worker)
        sampler.look()
        window = (start, time.monotonic())
    listed = len(gpu.compute_processes())
    assert sampler.summary([window]).foreign_processes == listed


def test_fitness(gpu: Gpu) -> None:
    """A GPU that nobody else uses is fit, and says how much memory is free."""
    assert problems_before(inspect(gpu)) == []
    assert gpu.free_memory_bytes() is not None


def test_fingerprint(gpu: Gpu) -> None:
    """The key of a machine does not change from one look to the next."""
    keys = {describe(each, "cuda", cuda_version=torch.version.cuda).fingerprint.key for each in (gpu, gpu)}
    again = vendor_here().choose_gpu(None, os.environ)
    keys.add(describe(again, "cuda", cuda_version=torch.version.cuda).fingerprint.key)
    assert len(keys) == 1
    assert next(iter(keys)).split(".")[0] in gpu.name.lower().replace(" ", "-")
