"""A stand-in that speaks amdsmi's API: its functions, enumerations, exceptions and shapes of answers.

They come from `amdsmi_interface.py` and `amdsmi_exception.py` of amdsmi 7.0.2 (https://pypi.org/project/amdsmi/7.0.2/): the
dictionary that each function returns, its arguments, and that it refuses a handle of another kind with AmdSmiParameterException.
Units are those of AMD's reference (https://rocm.docs.amd.com/projects/amdsmi/en/docs-7.0.0/): a power cap in microwatts, power in
watts, clocks in MHz; and those of torch/cuda/__init__.py, which asks amdsmi too: degrees, and memory in units of 2**20 bytes.
The keys were compared on 2026-11-22 with what the functions of that package return on a library whose every call succeeds.
Where the package was older, `OLDER` and the comments say what it had. Nobody has compared it with a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType
from typing import Any

OLDER = {"clk": "cur_clk"}
"""Fields of ROCm 6.1 by their names today."""


class AmdSmiException(Exception):
    """The base of all."""


class AmdSmiLibraryException(AmdSmiException):
    """What the library refuses, by number: 2 is AMDSMI_STATUS_NOT_SUPPORTED."""

    def __init__(self, err_code: int) -> None:
        super().__init__(err_code)
        self.err_code = err_code


class AmdSmiParameterException(AmdSmiException):
    """An argument of another type."""


class AmdSmiClkType(IntEnum):
    SYS = GFX = 0  # one value in amdsmi.h too
    MEM = 4


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0
    HOTSPOT = JUNCTION = 1
    VRAM = 2


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0
    MAX = 1


@dataclass
class FakeCard:
    """A GPU. ``answers`` take the place of the usual ones, by the name of the function; None: the GPU does not support it."""

    bdf: str = "0000:c1:00.0"
    answers: dict[str, Any] = field(default_factory=dict)


def process(pid: int, occupied: int | str, mem: int = 2**30) -> dict[str, Any]:
    """An entry of amdsmi_get_gpu_process_list; before ROCm 6.1 it listed handles, which amdsmi_get_gpu_process_info took."""
    return {
        "name": "python3",
        "pid": pid,
        "mem": mem,
        "engine_usage": {"gfx": 0, "enc": 0},
        "memory_usage": {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": mem},
        "cu_occupancy": occupied,
    }


def violations(**active: bool) -> dict[str, Any]:
    """What amdsmi_get_violation_status returns, without its lists for each compute die."""
    kinds = ("prochot_thrm", "ppt_pwr", "socket_thrm", "vr_thrm", "hbm_thrm", "gfx_clk_below_host_limit")
    found: dict[str, Any] = {"reference_timestamp": 1, "violation_timestamp": 2, "acc_counter": 3}
    for kind in kinds:
        found |= {f"acc_{kind}": 0, f"per_{kind}": 0, f"active_{kind}": active.get(kind, False)}
    return found


def amdsmi(cards: Sequence[FakeCard], *, init_error: int | None = None) -> ModuleType:
    """Return a module with these GPUs, as ``import amdsmi`` gives it. ``init_error``: why it cannot be used (34: no driver)."""
    module = ModuleType("amdsmi")
    usual = {
        "amdsmi_get_gpu_device_uuid": "29ff74a1-0000-1000-80f4-6e5d1d9bd4f9",
        "amdsmi_get_gpu_compute_partition": "SPX",
        "amdsmi_get_gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.12.12", "driver_date": "2015/01/01 00:00"},
        "amdsmi_get_gpu_vbios_info": {"name": "AMD MI300X", "build_date": "2024/01/01", "part_number": "1", "version": "022.040"},
        "amdsmi_get_power_cap_info": {
            "power_cap": 750_000_000,
            "default_power_cap": 750_000_000,
            "dpm_cap": 0,
            "min_power_cap": 0,
            "max_power_cap": 750_000_000,
        },
        "amdsmi_get_power_info": {
            "socket_power": 0,
            "current_socket_power": 612,
            "average_socket_power": "N/A",
            "gfx_voltage": "N/A",
            "soc_voltage": "N/A",
            "mem_voltage": "N/A",
            "power_limit": 750_000_000,
        },
        "amdsmi_get_gpu_activity": {"gfx_activity": 37, "umc_activity": 4, "mm_activity": "N/A"},
        "amdsmi_get_gpu_vram_usage": {"vram_total": 196_592, "vram_used": 592},
        "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 5, "uncorrectable_count": 2, "deferred_count": 0},
        "amdsmi_get_gpu_process_list": [process(7, 304), process(8, 0), process(9, 0, mem=0)],
        "amdsmi_get_violation_status": violations(),
        "amdsmi_get_temp_metric": 61,
    }
    clocks = {AmdSmiClkType.GFX: (2050, 2100), AmdSmiClkType.MEM: (1300, 1300)}

    def answer(name: str, handle: FakeCard) -> Any:
        if not isinstance(handle, FakeCard):
            raise AmdSmiParameterException(handle)
        given = handle.answers.get(name, usual.get(name))
        if given is None:
            raise AmdSmiLibraryException(2)
        return given

    def clock_info(handle: FakeCard, clock_type: AmdSmiClkType) -> Any:
        if not isinstance(clock_type, AmdSmiClkType):
            raise AmdSmiParameterException(clock_type)
        now, most = clocks[clock_type]
        usual["amdsmi_get_clock_info"] = {
            "clk": now,
            "min_clk": 132,
            "max_clk": most,
            "clk_locked": False,
            "clk_deep_sleep": "N/A",
        }
        return answer("amdsmi_get_clock_info", handle)

    def temp_metric(handle: FakeCard, sensor_type: AmdSmiTemperatureType, metric: AmdSmiTemperatureMetric) -> Any:
        if not isinstance(sensor_type, AmdSmiTemperatureType) or not isinstance(metric, AmdSmiTemperatureMetric):
            raise AmdSmiParameterException(sensor_type)
        return answer("amdsmi_get_temp_metric", handle)

    def init() -> None:
        if init_error is not None:
            raise AmdSmiLibraryException(init_error)

    for kind in (AmdSmiException, AmdSmiLibraryException, AmdSmiParameterException):
        setattr(module, kind.__name__, kind)
    for enumeration in (AmdSmiClkType, AmdSmiTemperatureType, AmdSmiTemperatureMetric):
        setattr(module, enumeration.__name__, enumeration)
    for name in usual:
        setattr(module, name, lambda handle, name=name: answer(name, handle))
    functions = {
        "amdsmi_init": init,
        "amdsmi_get_processor_handles": lambda: list(cards),
        "amdsmi_get_gpu_device_bdf": lambda handle: handle.bdf,
        "amdsmi_get_clock_info": clock_info,
        "amdsmi_get_temp_metric": temp_metric,
    }
    for name, function in functions.items():
        setattr(module, name, function)
    return module
