"""Tests of the edge to NVML, on a fake driver that answers only what a test gives it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from ratchet.core.bench.build import benchmark_environ
from ratchet.core.config import Settings
from ratchet.core.device.gpu import ComputeProcess
from ratchet.core.device.vendor import Nvidia, NvidiaGpu, find_gpus
from ratchet.core.errors import UsageError
from ratchet.core.machine import Machine, joined
from ratchet.core.trees import tree_spec
from tests.fake_nvml import driver, refuse


def choose_gpu(index: int | None, visible: str | None, nvml: Any) -> NvidiaGpu | None:
    return Nvidia(nvml).choose_gpu(index, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})


def process(pid: int, memory: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def with_slices(**answers: Any) -> SimpleNamespace:
    """A driver whose GPU 1 is cut into two MIG slices, with the handles 10 and 11."""
    slices = {
        "DeviceGetMaxMigDeviceCount": lambda handle: 7 if handle == 1 else 0,
        "DeviceGetMigDeviceHandleByIndex": lambda _, number: 10 + number if number < 2 else refuse(),
        "DeviceIsMigDeviceHandle": lambda handle: SimpleNamespace(value=int(handle >= 10)),
        "DeviceGetDeviceHandleFromMigDeviceHandle": lambda _: 1,
        "DeviceGetUUID": lambda handle: f"MIG-{handle}" if handle >= 10 else f"GPU-{handle}",
    }
    return driver(2, **(slices | answers))


def test_identity() -> None:
    """What identifies a GPU is read once, in bytes and watts."""
    nvml = driver(
        DeviceGetName=lambda _: "NVIDIA H200",
        DeviceGetMemoryInfo=lambda _: SimpleNamespace(total=100, free=40),
        DeviceGetPowerManagementLimit=lambda _: 700_000,
        DeviceGetMigMode=lambda _: [0, 0],
        DeviceGetMaxClockInfo=lambda _, kind: 1980,
        DeviceGetCudaComputeCapability=lambda _: (9, 0),
        SystemGetDriverVersion=lambda: "580.1",
    )
    gpu = NvidiaGpu(nvml, 0)
    assert (gpu.name, gpu.index, gpu.uuid) == ("NVIDIA H200", 0, "GPU-0aaa-bbb")
    assert (gpu.memory_bytes, gpu.power_limit_w, gpu.mig) == (100, 700.0, "off")
    assert (gpu.sm_clock_max_mhz, gpu.compute_capability, gpu.driver) == (1980, "9.0", "580.1")
    assert gpu.free_memory_bytes() == 40


def test_the_card() -> None:
    """A record says which GPU it was, and how its memory is."""
    counts = {0: 1, 1: 7}  # since the driver was loaded, ever
    nvml = driver(
        DeviceGetVbiosVersion=lambda _: "96.00.A5.00.01",
        DeviceGetEccMode=lambda _: [1, 1],
        DeviceGetTotalEccErrors=lambda _, kind, since: counts[since],
        DeviceGetRemappedRows=lambda _: [2, 1, 0, 0],
    )
    card = NvidiaGpu(nvml, 0).card()
    assert (card.uuid, card.vbios, card.ecc) == ("GPU-0aaa-bbb", "96.00.A5.00.01", True)
    assert (card.uncorrected_ecc, card.uncorrected_ecc_ever, card.remapped_rows) == (1, 7, 3)
    assert (card.remap_pending, card.remap_failed, card.problem) == (False, False, None)
    assert NvidiaGpu(driver(), 0).card().model_dump(exclude_none=True) == {"uuid": "GPU-0aaa-bbb"}


def test_nothing_supported() -> None:
    """A GPU that answers no question says None everywhere, lists nobody, and never raises."""
    names = [name for name in dir(pynvml) if name.startswith(("nvmlDeviceGet", "nvmlSystemGet"))]
    gpu = NvidiaGpu(driver(**{name.removeprefix("nvml"): refuse for name in names}), 0)
    identity = (gpu.memory_bytes, gpu.power_limit_w, gpu.mig, gpu.driver, gpu.sm_clock_max_mhz, gpu.compute_capability)
    assert identity == (None,) * 6
    assert (gpu.name, gpu.index, gpu.uuid) == ("unknown GPU", 0, "")
    assert (gpu.utilization(), gpu.uncorrected_ecc(), gpu.free_memory_bytes()) == (None, None, None)
    assert (gpu.compute_processes(), gpu.busy_pids()) == ([], frozenset())
    reading = gpu.reading()
    assert (reading.sm_clock_mhz, reading.temperature_c, reading.power_w, reading.slowdown) == (None, None, None, ())


def test_reading() -> None:
    """A reading carries its moment, megahertz, degrees and watts."""
    nvml = driver(
        DeviceGetClockInfo=lambda _, kind: 1755, DeviceGetTemperature=lambda _, sensor: 61, DeviceGetPowerUsage=lambda _: 512_500
    )
    before = time.monotonic()
    reading = NvidiaGpu(nvml, 0).reading()
    assert before <= reading.at_s <= time.monotonic()
    assert (reading.sm_clock_mhz, reading.temperature_c, reading.power_w) == (1755, 61, 512.5)


def test_no_power_is_no_reading() -> None:
    """A driver that says 0 W of a GPU under load has said nothing."""
    assert NvidiaGpu(driver(DeviceGetPowerUsage=lambda _: 0), 0).reading().power_w is None


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1, ()),
        (0x4, ()),
        (0x8, ("hardware slowdown",)),
        (0x20, ("software thermal slowdown",)),
        (0x40 | 0x4, ("hardware thermal slowdown",)),
        (0x80, ("hardware power brake",)),
        (0x1FF, ("hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake")),
    ],
)
def test_slowdown(bits: int, words: tuple[str, ...]) -> None:
    """Heat and hardware brakes are slowdowns; idling and the ordinary power cap are not."""
    nvml = driver(DeviceGetCurrentClocksEventReasons=lambda _: bits)
    assert NvidiaGpu(nvml, 0).reading().slowdown == words


def test_slowdown_bits() -> None:
    """The bits are those of NVML."""
    names = ["HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown"]
    assert [getattr(pynvml, f"nvmlClocksEventReason{name}") for name in names] == [0x8, 0x20, 0x40, 0x80]


@pytest.mark.parametrize("new", [{}, {"DeviceGetCurrentClocksEventReasons": refuse}])
def test_old_name(new: dict[str, Any]) -> None:
    """Where the binding or the driver lacks the new name of the clock event reasons, the old one is asked."""
    nvml = driver(DeviceGetCurrentClocksThrottleReasons=lambda _: 0x40, **new)
    assert NvidiaGpu(nvml, 0).reading().slowdown == ("hardware thermal slowdown",)


def test_processes() -> None:
    """Processes come with their memory, or None where it is hidden, also from a driver that knows only the older call."""
    listed = [process(7, 2**30), process(8, None)]
    expected = [ComputeProcess(7, 2**30), ComputeProcess(8, None)]
    assert NvidiaGpu(driver(DeviceGetComputeRunningProcesses=lambda _: listed), 0).compute_processes() == expected
    older = driver(DeviceGetComputeRunningProcesses=refuse, DeviceGetComputeRunningProcesses_v2=lambda _: listed)
    assert NvidiaGpu(older, 0).compute_processes() == expected


def test_busy_pids() -> None:
    """Only processes that kept the SMs busy of late count as busy."""
    samples = [SimpleNamespace(pid=7, smUtil=80), SimpleNamespace(pid=8, smUtil=0)]
    assert NvidiaGpu(driver(DeviceGetProcessUtilization=lambda _, since: samples), 0).busy_pids() == {7}


def test_utilization_and_ecc() -> None:
    """Utilization is a fraction and ECC errors a count."""
    nvml = driver(
        DeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=37),
        DeviceGetTotalEccErrors=lambda _, kind, since: 2 * kind + since,
    )
    assert NvidiaGpu(nvml, 0).utilization() == 0.37
    assert NvidiaGpu(nvml, 0).uncorrected_ecc() == 2


def test_no_driver() -> None:
    """Without a driver there are no GPUs, and only who asks for one by number meets an error."""
    nvml = driver(Init=refuse)
    assert find_gpus(nvml) == []
    assert choose_gpu(None, None, nvml) is None
    assert choose_gpu(None, "3", nvml) is None
    with pytest.raises(UsageError, match="no GPU 1: there is no usable NVIDIA GPU on this machine"):
        choose_gpu(1, None, nvml)


def test_real_binding() -> None:
    """The real binding answers with a list, whether this machine has a driver or not."""
    assert isinstance(find_gpus(pynvml), list)


@pytest.mark.parametrize(
    ("index", "visible", "chosen"),
    [
        (None, None, 0),
        (2, None, 2),
        (None, "1", 1),
        (None, " 2 ,0", 2),
        (1, "2,0", 0),
        (None, "GPU-1aaa-bbb", 1),
        (None, "GPU-2", 2),
        (1, "0,GPU-2,7", 2),
        (None, "0,rubbish", 0),
    ],
)
def test_choice(index: int | None, visible: str | None, chosen: int) -> None:
    """CUDA_VISIBLE_DEVICES names GPUs by number or by the start of a UUID, and an index counts within it."""
    gpu = choose_gpu(index, visible, driver(3))
    assert gpu.index == chosen


@pytest.mark.parametrize("visible", ["", " ", "-1", "-1,0", "NoDevFiles"])
def test_hidden(visible: str) -> None:
    """An empty CUDA_VISIBLE_DEVICES, or −1, means no GPU."""
    assert choose_gpu(None, visible, driver(3)) is None
    with pytest.raises(UsageError):
        choose_gpu(0, visible, driver(3))


@pytest.mark.parametrize(
    ("index", "visible", "message"),
    [
        (5, None, "There is no GPU 5: there are 3 GPUs on this machine"),
        (-1, None, "There is no GPU -1: there are 3 GPUs"),
        (1, "2", "There is no GPU 1: there is 1 GPU, number 0, within CUDA_VISIBLE_DEVICES='2'"),
        (2, "0,1,9", "there are 2 GPUs within"),
        (None, "9", "names none of the 3 GPUs"),
        (None, "GPU-", "names none of the 3 GPUs"),
        (None, "\x1b[31m", r"CUDA_VISIBLE_DEVICES='\\x1b\[31m' names none"),
    ],
)
def test_wrong_choice(index: int | None, visible: str | None, message: str) -> None:
    """A GPU that is not there is a usage error that says how many there are."""
    with pytest.raises(UsageError, match=message):
        choose_gpu(index, visible, driver(3))


def test_a_command_sees_all_gpus_of_its_check() -> None:
    """Each process of a command may use every GPU that the check holds, and no other."""
    machine = joined([Machine("cuda", NvidiaGpu(driver(3), number)) for number in (0, 2)])
    tree = tree_spec(Settings(), machine, Path("checkout"), Path("tree"))
    assert benchmark_environ({"CUDA_VISIBLE_DEVICES": "0,1,2"}, tree)["CUDA_VISIBLE_DEVICES"] == "GPU-0aaa-bbb,GPU-2aaa-bbb"


def test_slice() -> None:
    """A MIG slice has its own memory and the clocks and number of its chip."""
    nvml = with_slices(
        DeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=10 if handle >= 10 else 80, free=5),
        DeviceGetMigMode=lambda handle: [1, 1] if handle == 1 else refuse(),
        DeviceGetClockInfo=lambda handle, kind: 1410 if handle == 1 else refuse(),
    )
    gpu = choose_gpu(None, "MIG-11", nvml)
    assert (gpu.uuid, gpu.index, gpu.memory_bytes, gpu.mig) == ("MIG-11", 1, 10, "on")
    assert gpu.reading().sm_clock_mhz == 1410
