"""Say who made the GPUs that the installed torch measures on, and ask them: NVIDIA's through NVML, which nothing else here calls.

`gpu` has the seam that `Nvidia` and `Amd` are behind; all else asks `vendor_here`. It only reads: no clock, mode or limit is set.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.core.device.environment import told_by_torch
from ratchet.core.device.gpu import ComputeProcess, Gpu, Reading, Vendor
from ratchet.core.errors import UsageError
from ratchet.core.records.environment import Card


def vendor_here() -> Vendor:
    """Return the vendor that torch was built for, as its build says: AMD for ROCm, else NVIDIA. This imports no torch."""
    torch = sys.modules.get("torch")
    return Amd() if (torch.version.hip if torch else told_by_torch("hip")) else Nvidia()


class Amd:
    """AMD, a `gpu.Vendor` that is not implemented: it offers no GPU, and hides those that torch would use."""

    name = "AMD"
    unsupported = "ratchet does not support AMD GPUs"
    no_counters = no_machine_code = f"{unsupported}."

    def choose_gpu(self, index: int | None, environ: Mapping[str, str]) -> Gpu | None:  # noqa: ARG002  the seam's interface
        return None

    def visible_gpus(self, environ: Mapping[str, str]) -> Sequence[Gpu]:  # noqa: ARG002  likewise
        return ()

    def environ(self, address: str | None) -> dict[str, str]:  # noqa: ARG002  likewise
        return {"HIP_VISIBLE_DEVICES": "-1"}  # HIP takes an empty value for none at all


# Bits of the clock event reasons that spoil a measurement. The software power cap is absent: it is how a GPU works at full load.
_SLOWDOWNS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_POWER_CAP = 0x04
_BUSY_PERCENT = 5  # as `fitness.BUSY`, for one process
_RECENT_S = 2.0


class NvidiaGpu:
    """One GPU or MIG slice, a `gpu.Gpu`. Its identity is read once, here; values that change are read at each call."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        # A slice has memory and processes of its own; clocks, heat and power belong to the chip around it.
        answer = self._ask("nvmlDeviceIsMigDeviceHandle")
        is_slice = getattr(answer, "value", answer)  # the binding hands out the C integer itself
        chip = self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle") if is_slice else None
        self._chip = handle if chip is None else chip
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        power_mw = self._ask_chip("nvmlDeviceGetPowerManagementLimit") or self._ask_chip("nvmlDeviceGetEnforcedPowerLimit")
        capability = self._ask_chip("nvmlDeviceGetCudaComputeCapability")
        mig = self._ask_chip("nvmlDeviceGetMigMode")
        self.name: str = self._ask("nvmlDeviceGetName") or "unknown GPU"
        self.uuid: str = self._ask("nvmlDeviceGetUUID") or ""
        self.address = self.uuid
        self.index: int = self._ask_chip("nvmlDeviceGetIndex") or 0
        self.memory_bytes: int | None = None if memory is None else int(memory.total)
        self.power_limit_w: float | None = power_mw / 1000 if power_mw else None
        self.mig: str | None = None if mig is None else ("on" if mig[0] else "off")
        self.driver: str | None = ask(nvml, "nvmlSystemGetDriverVersion")
        self.sm_clock_max_mhz: int | None = self._ask_chip("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM)
        self.compute_capability: str | None = None if capability is None else f"{capability[0]}.{capability[1]}"

    def _ask(self, name: str, *arguments: Any) -> Any:
        return ask(self._nvml, name, self._handle, *arguments)

    def _ask_chip(self, name: str, *arguments: Any) -> Any:
        return ask(self._nvml, name, self._chip, *arguments)

    def reading(self) -> Reading:
        nvml, now = self._nvml, time.monotonic()
        power_mw = self._ask_chip("nvmlDeviceGetPowerUsage")
        reasons = self._ask_chip("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # a driver or binding from before the functions were renamed
            reasons = self._ask_chip("nvmlDeviceGetCurrentClocksThrottleReasons")
        return Reading(
            at_s=now,
            sm_clock_mhz=self._ask_chip("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            temperature_c=self._ask_chip("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_w=power_mw / 1000 if power_mw else None,  # 0 W, as some drivers say under load, is no reading
            slowdown=tuple(word for bit, word in _SLOWDOWNS.items() if (reasons or 0) & bit),
            memory_clock_mhz=self._ask_chip("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            power_capped=None if reasons is None else bool(reasons & _POWER_CAP),
        )

    def card(self) -> Card:
        ecc, ever = self._ask_chip("nvmlDeviceGetEccMode"), self._nvml.NVML_AGGREGATE_ECC
        rows = self._ask_chip("nvmlDeviceGetRemappedRows")  # corrected, uncorrected, is one pending, did one fail
        return Card(
            uuid=self.uuid,
            vbios=self._ask_chip("nvmlDeviceGetVbiosVersion"),
            ecc=None if ecc is None else bool(ecc[0]),
            uncorrected_ecc=self.uncorrected_ecc(),
            uncorrected_ecc_ever=self.uncorrected_ecc(ever),
            remapped_rows=None if rows is None else int(rows[0]) + int(rows[1]),
            remap_pending=None if rows is None else bool(rows[2]),
            remap_failed=None if rows is None else bool(rows[3]),
        )

    def free_memory_bytes(self) -> int | None:
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        return None if memory is None else int(memory.free)

    def compute_processes(self) -> list[ComputeProcess]:
        """Return the processes with a CUDA context here; also empty where the driver does not list them."""
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses")
        if listed is None:
            listed = self._ask("nvmlDeviceGetComputeRunningProcesses_v2") or []
        return [ComputeProcess(int(entry.pid), entry.usedGpuMemory) for entry in listed]

    def busy_pids(self) -> frozenset[int]:
        """Return the PIDs that kept the SMs more than 5 % busy in the last two seconds, as far as the driver reports them."""
        since_us = int((time.time() - _RECENT_S) * 1e6)
        samples = self._ask("nvmlDeviceGetProcessUtilization", since_us) or []
        return frozenset(int(sample.pid) for sample in samples if sample.smUtil > _BUSY_PERCENT)

    def utilization(self) -> float | None:
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        return None if rates is None else rates.gpu / 100

    def uncorrected_ecc(self, since: int | None = None) -> int | None:
        """Return the number of uncorrected memory errors since the driver was loaded, or of another of NVML's counters."""
        kind, since = self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self._nvml.NVML_VOLATILE_ECC if since is None else since
        count: int | None = self._ask_chip("nvmlDeviceGetTotalEccErrors", kind, since)
        return count


def ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """Make one NVML call. Return None where the GPU, the driver or the binding does not support it."""
    call = getattr(nvml, name, None)
    if call is None:
        return None
    try:
        return call(*arguments)
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError):
        return None


_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Nvidia:
    """NVIDIA, a `gpu.Vendor`: NVML, counters of ncu, machine code and launches through the CUDA driver."""

    name = "NVIDIA"
    unsupported = no_counters = no_machine_code = ""

    def __init__(self, nvml: Any = None) -> None:
        self._nvml = nvml

    def choose_gpu(self, index: int | None, environ: Mapping[str, str]) -> NvidiaGpu | None:
        """As `gpu.Vendor` says. CUDA may number GPUs of different speeds in its own order, so hand the GPU on by its UUID."""
        gpus, visible = self.visible_gpus(environ), environ.get(_VISIBLE)
        if index is None:
            return gpus[0] if gpus else None
        if 0 <= index < len(gpus):
            return gpus[index]
        where = "on this machine" if visible is None else f"within {_VISIBLE}={visible!r}"
        there = {0: "there is no usable NVIDIA GPU", 1: "there is 1 GPU, number 0,"}.get(len(gpus), f"there are {len(gpus)} GPUs")
        raise UsageError(f"There is no GPU {index}: {there} {where}.", "Choose another with --gpu, or leave it out.")

    def visible_gpus(self, environ: Mapping[str, str]) -> Sequence[NvidiaGpu]:
        import pynvml

        nvml, visible = self._nvml or pynvml, environ.get(_VISIBLE)
        gpus = find_gpus(nvml)
        return gpus if visible is None else _visible(nvml, gpus, visible)

    def environ(self, address: str | None) -> dict[str, str]:
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", _VISIBLE: address or ""}


def find_gpus(nvml: Any) -> list[NvidiaGpu]:
    """Return all GPUs in the order of nvidia-smi; none where there is no driver."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    handles = [ask(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(ask(nvml, "nvmlDeviceGetCount") or 0)]
    return [NvidiaGpu(nvml, handle) for handle in handles if handle is not None]


def _visible(nvml: Any, gpus: Sequence[NvidiaGpu], visible: str) -> list[NvidiaGpu]:
    """Return the GPUs that CUDA would show: entries up to the first that names none."""
    entries = [entry.strip() for entry in visible.split(",")]
    if not gpus or entries[0] in ("", "-1", "NoDevFiles"):  # the last is how Slurm says none
        return []
    chosen: list[NvidiaGpu] = []
    for entry in entries:
        gpu = _named(nvml, gpus, entry)
        if gpu is None:
            break
        chosen.append(gpu)
    if not chosen:
        raise UsageError(
            f"CUDA_VISIBLE_DEVICES={visible!r} names none of the {len(gpus)} GPUs of this machine.",
            "Unset it, or set it to a number or UUID that `nvidia-smi -L` lists.",
        )
    return chosen


def _named(nvml: Any, gpus: Sequence[NvidiaGpu], entry: str) -> NvidiaGpu | None:
    if entry.isdecimal():
        return gpus[int(entry)] if int(entry) < len(gpus) else None
    if entry.startswith("GPU-"):
        matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    elif entry.startswith("MIG-"):
        matches = [part for gpu in gpus for part in _slices(nvml, gpu) if part.uuid.startswith(entry)]
    else:
        return None
    return matches[0] if len(matches) == 1 else None


def _slices(nvml: Any, gpu: NvidiaGpu) -> list[NvidiaGpu]:
    count = ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", gpu._handle) or 0
    handles = [ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", gpu._handle, number) for number in range(count)]
    return [NvidiaGpu(nvml, handle) for handle in handles if handle is not None]
