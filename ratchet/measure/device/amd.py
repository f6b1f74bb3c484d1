"""Describe AMD GPUs as torch on ROCm lists them, and watch them through amdsmi where it is installed. Untested on AMD hardware.

`vendor.vendor_here` offers `Amd`, behind the seam in `gpu`. torch is asked in a process of its own: it knows HIP's order and all
three variables that hide GPUs, and needs no further package. amdsmi, AMD's counterpart of NVML, then tells what torch does not.
Its answers are those of the Python package 7.0.2; ``"N/A"`` stands for a value that a GPU does not have. Nothing is ever set.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.measure.device.environment import ask, last_json
from ratchet.measure.device.gpu import ComputeProcess, Reading, numbered
from ratchet.records.environment import Card
from ratchet.untrusted import clean

HIDING = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that hide GPUs from HIP. It reads the second where the first is unset or empty; both count within the third."""
# Fields of a violation status, which MI300 and later have. The power cap (active_ppt_pwr) is absent, as in `nvml`.
_SLOWDOWNS = {
    "active_prochot_thrm": "processor too hot",
    "active_socket_thrm": "socket too hot",
    "active_vr_thrm": "voltage regulator too hot",
    "active_hbm_thrm": "memory too hot",
}
_ABSENT = (0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
"""What the library has in the place of a number that a GPU does not have; not every function turns all of them into "N/A"."""
_LIST = """
import json, torch
def listed(number):
    one = torch.cuda.get_device_properties(number)
    pci = [getattr(one, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    return {"name": one.name, "memory_bytes": one.total_memory, "architecture": one.gcnArchName, "pci": pci}
print(json.dumps({"gpus": [listed(number) for number in range(torch.cuda.device_count())]}))
"""


@dataclass(frozen=True)
class ListedGpu:
    """A GPU as torch lists it."""

    name: str
    memory_bytes: int
    architecture: str
    pci: str | None
    """``0000:c1:00``: domain, bus and device, without the function. None in a torch that does not tell it."""


@functools.cache
def listed_by_torch(visible: tuple[tuple[str, str], ...]) -> tuple[ListedGpu, ...]:
    """Return the GPUs that torch sees with these variables, in its order; none where it does not import. Takes some seconds."""
    kept = {name: value for name, value in os.environ.items() if name not in HIDING}
    told = last_json(ask([sys.executable, "-P", "-c", _LIST], timeout_s=180.0, environ=kept | dict(visible)).stdout) or {}
    return tuple(
        ListedGpu(clean(one["name"]), one["memory_bytes"], clean(one["architecture"]), _pci(one["pci"]))
        for one in told.get("gpus", ())
    )


def _pci(parts: Sequence[int | None]) -> str | None:
    domain, bus, device = parts
    return None if domain is None or bus is None or device is None else f"{domain:04x}:{bus:02x}:{device:02x}"


def load_amdsmi() -> Any:
    """Return amdsmi, ready to be asked; None where it is not installed, or finds neither its library nor a driver."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # it prints that it misses its library
            smi = importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError, AttributeError):  # the last two: no library, or one that is older than the package
        return None
    try:
        smi.amdsmi_init()
    except smi.AmdSmiException:
        return None
    return smi


class AmdGpu:
    """One GPU as HIP counts them, a `gpu.Gpu`. Without a ``handle`` of amdsmi only what torch told of it is known."""

    def __init__(self, listed: ListedGpu, index: int, address: str, smi: Any = None, handle: Any = None) -> None:
        self._smi: Any = None if handle is None else smi
        self._handle = handle
        power_uw = self._number("amdsmi_get_power_cap_info", "power_cap")
        self.name = listed.name
        self.uuid: str = _text(self._ask("amdsmi_get_gpu_device_uuid")) or listed.pci or f"AMD-{address}"
        self.address = address
        self.index = index
        self.memory_bytes: int | None = listed.memory_bytes
        self.power_limit_w: float | None = power_uw / 1e6 if power_uw else None
        self.mig: str | None = _text(self._ask("amdsmi_get_gpu_compute_partition"))
        self.driver: str | None = self._field("amdsmi_get_gpu_driver_info", "driver_version", _text)
        self.sm_clock_max_mhz: int | None = self._clock("GFX", "max_clk")
        self.compute_capability: str | None = listed.architecture or None

    def reading(self) -> Reading:
        """Return clocks, temperature, power and slowdowns now. Takes a tenth of a second: amdsmi looks twice for slowdowns."""
        now, smi = time.monotonic(), self._smi
        sensors = smi and (smi.AmdSmiTemperatureType.JUNCTION, smi.AmdSmiTemperatureMetric.CURRENT)
        power_w = self._number("amdsmi_get_power_info", "current_socket_power")  # MI300 and later
        if power_w is None:
            power_w = self._number("amdsmi_get_power_info", "average_socket_power")
        violations = self._ask("amdsmi_get_violation_status") or {}
        capped = violations.get("active_ppt_pwr")
        return Reading(
            at_s=now,
            sm_clock_mhz=self._clock("GFX", "clk", "cur_clk"),
            temperature_c=_number(self._ask("amdsmi_get_temp_metric", *sensors or ())),
            power_w=power_w,
            slowdown=tuple(words for field, words in _SLOWDOWNS.items() if violations.get(field) is True),
            memory_clock_mhz=self._clock("MEM", "clk", "cur_clk"),
            power_capped=capped if isinstance(capped, bool) else None,
        )

    def card(self) -> Card:
        vbios = self._field("amdsmi_get_gpu_vbios_info", "version", _text)
        return Card(uuid=self.uuid, vbios=vbios, uncorrected_ecc=self.uncorrected_ecc())

    def free_memory_bytes(self) -> int | None:
        total = self._number("amdsmi_get_gpu_vram_usage", "vram_total")  # MB of 2**20 bytes, as the used ones
        used = self._number("amdsmi_get_gpu_vram_usage", "vram_used")
        return None if total is None or used is None else (total - used) << 20

    def compute_processes(self) -> list[ComputeProcess]:
        return [ComputeProcess(int(one["pid"]), _number(one["memory_usage"]["vram_mem"])) for one in self._processes()]

    def busy_pids(self) -> frozenset[int]:
        """Return the PIDs that occupy compute units now, as far as amdsmi tells."""
        return frozenset(int(one["pid"]) for one in self._processes() if _number(one.get("cu_occupancy")))

    def utilization(self) -> float | None:
        percent = self._number("amdsmi_get_gpu_activity", "gfx_activity")
        return None if percent is None else percent / 100

    def uncorrected_ecc(self) -> int | None:
        return self._number("amdsmi_get_gpu_total_ecc_count", "uncorrectable_count")

    def _processes(self) -> list[dict[str, Any]]:
        """Return the processes that hold memory here or compute here. HIP opens also GPUs that a variable hides from it."""
        listed = self._ask("amdsmi_get_gpu_process_list") or []
        known = [one for one in listed if isinstance(one, dict)]  # handles in ROCm before 6.1
        return [one for one in known if one["memory_usage"]["vram_mem"] or _number(one.get("cu_occupancy"))]

    def _clock(self, kind: str, *fields: str) -> int | None:
        """Return the first of these fields of a clock, in MHz: ROCm 6.2 renamed one."""
        clocks = self._ask("amdsmi_get_clock_info", getattr(self._smi.AmdSmiClkType, kind)) if self._smi else None
        return next((_number(clocks[field]) for field in fields if field in clocks), None) if clocks else None

    def _number(self, name: str, field: str) -> int | None:
        number: int | None = self._field(name, field, _number)
        return number

    def _field(self, name: str, field: str, read: Callable[[Any], Any]) -> Any:
        return read((self._ask(name) or {}).get(field))

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Ask amdsmi about this GPU. Return None where it is absent, older, or the GPU or the driver does not support it."""
        call = getattr(self._smi, name, None)
        if call is None:
            return None
        try:
            return call(self._handle, *arguments)
        except self._smi.AmdSmiException:
            return None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and value not in _ABSENT else None


def _text(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) and value not in ("", "N/A") else None


class Amd:
    """AMD, a `gpu.Vendor`: torch on ROCm with HIP events, sensors of amdsmi, neither counters nor machine code."""

    name = "AMD"
    warning = (
        "Untested on AMD hardware: ratchet measures through torch on ROCm with HIP events, and none of its figures of accuracy "
        "were taken on such a GPU (docs/devices.md)."
    )
    no_counters = "ratchet reads no counters on AMD GPUs: ncu is NVIDIA's."
    no_machine_code = "on AMD GPUs neither launches nor machine code are compared"
    has_datasheets = False

    def __init__(
        self,
        listed: Callable[[tuple[tuple[str, str], ...]], Sequence[ListedGpu]] = listed_by_torch,
        load: Callable[[], Any] = load_amdsmi,
    ) -> None:
        self._listed = listed
        self._load = load

    def choose_gpu(self, index: int | None, environ: Mapping[str, str]) -> AmdGpu | None:
        variable = next((name for name in HIDING if environ.get(name)), HIDING[0])
        return numbered(self.visible_gpus(environ), index, self.name, variable, environ.get(variable))

    def visible_gpus(self, environ: Mapping[str, str]) -> Sequence[AmdGpu]:
        listed = self._listed(tuple((name, environ[name]) for name in HIDING if name in environ))
        smi = self._load() if listed else None
        handles = _handles(smi) if smi else {}
        shown = [entry.strip() for entry in (environ.get(HIDING[0]) or environ.get(HIDING[1]) or "").split(",")]
        addresses = [entry or str(number) for number, entry in enumerate([*shown, *[""] * len(listed)])]
        return [AmdGpu(one, number, addresses[number], smi, _handle(one, listed, handles)) for number, one in enumerate(listed)]

    def environ(self, address: str | None) -> dict[str, str]:
        return {HIDING[0]: "-1" if address is None else address}  # HIP takes an empty value for none at all


def _handles(smi: Any) -> dict[str, list[Any]]:
    """Return amdsmi's handles by PCI address without the function, which differs between partitions of one GPU."""
    handles: dict[str, list[Any]] = {}
    try:
        for handle in smi.amdsmi_get_processor_handles():
            handles.setdefault(smi.amdsmi_get_gpu_device_bdf(handle).lower().partition(".")[0], []).append(handle)
    except smi.AmdSmiException:
        return {}
    return handles


def _handle(one: ListedGpu, listed: Sequence[ListedGpu], handles: Mapping[str, Sequence[Any]]) -> Any:
    """Return amdsmi's handle of a GPU; None rather than one that may be another's, as among partitions of one GPU."""
    every = [handle for group in handles.values() for handle in group]
    found = handles.get(one.pci, ()) if one.pci else every if len(listed) == 1 else ()
    return found[0] if len(found) == 1 else None
