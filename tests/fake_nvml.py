"""A fake NVML, the library of NVIDIA's driver: it answers only what a test gives it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NotSupported(Exception):
    """The fake driver's NVMLError."""


def refuse(*_: Any) -> Any:
    raise NotSupported


def driver(count: int = 1, **answers: Any) -> SimpleNamespace:
    """A fake NVML with ``count`` GPUs; ``answers`` are its functions without their prefix."""
    base = {
        "Init": lambda: None,
        "DeviceGetCount": lambda: count,
        "DeviceGetHandleByIndex": lambda index: index,
        "DeviceGetIndex": lambda handle: handle,
        "DeviceGetUUID": lambda handle: f"GPU-{handle}aaa-bbb",
    }
    functions = {f"nvml{name}": answer for name, answer in (base | answers).items()}
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0}
    constants |= {"NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1, "NVML_VOLATILE_ECC": 0, "NVML_AGGREGATE_ECC": 1}
    return SimpleNamespace(NVMLError=NotSupported, NVMLLibraryMismatchError=NotSupported, **constants, **functions)
