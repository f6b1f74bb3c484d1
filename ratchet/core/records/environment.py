"""The machine and software that a measurement depends on (the fingerprint), and what was merely observed during it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.units import listed


class Fingerprint(Record):
    """Times are compared only where all of this is equal."""

    device: str
    """``cuda`` or ``cpu``."""
    gpu: str | None = None
    gpu_memory_bytes: Count | None = None
    gpu_power_limit_w: NotNegative | None = None
    mig: str | None = None
    """MIG mode of the GPU: ``off``, ``on``, or None where the GPU has no such mode; on AMD its partition: ``SPX``."""
    driver: str | None = None
    cuda: str | None = None
    """CUDA version that torch was built with; ``HIP 6.4.1`` for torch on ROCm."""
    torch: str
    triton: str | None = None
    cpu: str
    cpu_threads: Count | None = None
    """Threads that a CPU measurement uses; None on a GPU, where it does not matter."""

    @property
    def key(self) -> str:
        """A short name for this fingerprint, stable between machines and releases of Python: ``h200.0123456789``."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        slug = re.sub(r"[\W_]+", "-", self.processor.replace("NVIDIA ", "").lower()).strip("-")
        return f"{slug[:40].rstrip('-')}.{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    @property
    def processor(self) -> str:
        """The name of the GPU, such as ``NVIDIA H200``; without a GPU, that of the CPU."""
        return self.gpu or self.cpu

    @property
    def toolkit(self) -> str:
        """The toolkit that torch was built with: ``CUDA 13.0``, ``HIP 6.4.1``, or nothing."""
        return f"CUDA {self.cuda}" if self.cuda and not self.cuda.startswith("HIP ") else self.cuda or ""

    @property
    def hardware(self) -> str:
        """Facts that only a new machine changes, and no update of a driver or of torch: as JSON, to be compared."""
        parts = {"device", "gpu", "gpu_memory_bytes", "mig", "cpu_threads"} | (set() if self.gpu else {"cpu"})
        return json.dumps(self.model_dump(include=parts), sort_keys=True)

    def differences(self, other: Fingerprint) -> list[str]:
        """Return one line for each part that differs: ``driver: 580.1 here, 575.2 there``."""
        mine, theirs = self.model_dump(), other.model_dump()
        return [f"{name}: {mine[name]} here, {theirs[name]} there" for name in mine if mine[name] != theirs[name]]


class Card(Record):
    """One GPU of all that look alike, and its health. None where it does not say. Never part of what may be compared."""

    uuid: str
    vbios: str | None = None
    ecc: bool | None = None
    """Whether the memory corrects errors."""
    uncorrected_ecc: Count | None = None
    """Uncorrected memory errors since the driver was loaded."""
    uncorrected_ecc_ever: Count | None = None
    """The same, in the life of the GPU."""
    remapped_rows: Count | None = None
    """Rows of the memory that failed and were replaced by spare ones."""
    remap_pending: bool | None = None
    """A row waits to be replaced: the GPU needs a reset."""
    remap_failed: bool | None = None
    """A row could not be replaced: the GPU is broken."""

    @property
    def problem(self) -> str | None:
        """Return why nothing should be measured on it, and what to do; None where nothing is known against it."""
        if self.remap_failed:
            return "a row of its memory failed and cannot be replaced; return it to its vendor."
        if self.remap_pending:
            return "a row of its memory waits to be replaced; reset it."
        return None


class PackageDifference(Record):
    """A package that the environments of the two sides have in other versions; None where a side lacks it."""

    name: str
    head: str | None
    reference: str | None


def summary(differs: Sequence[PackageDifference], most: int = 3) -> str:
    """Return what differs, as words for a line: ``torch 2.11.0 against 2.10.0, triton 3.6.0 against 3.5.0``."""
    return listed([f"{each.name} {each.head or 'missing'} against {each.reference or 'none'}" for each in differs], most)


class Environment(Record):
    """The machine and software of one run. Only ``fingerprint`` decides what may be compared."""

    fingerprint: Fingerprint
    python: str
    platform: str
    ratchet: str
    gpu_index: Count | None = None
    sm_clock_max_mhz: Count | None = None
    l2_bytes: Count | None = None
    """Size of the GPU's L2 cache; None on a CPU, and where nobody asked."""
    compute_capability: str | None = None
    nvcc: str | None = None
    cards: tuple[Card, ...] = ()
    """The GPUs that the cases were measured on, each on one."""
    differs: tuple[PackageDifference, ...] = ()
    """Packages that differ between the sides of a check that gave each an environment of its own, the most important ones first.

    The fingerprint is then that of the head's, and no baseline is moved."""


class Telemetry(Record):
    """Readings of the GPU while one case was measured, over all pairs."""

    readings: Count
    sm_clock_mhz_min: NotNegative
    sm_clock_mhz_median: NotNegative
    sm_clock_mhz_max: NotNegative
    temperature_c_max: float
    power_w_max: NotNegative
    slowdown_reasons: tuple[str, ...] = ()
    """Heat or hardware brakes seen; the ordinary power cap is not one."""
    foreign_processes: Count = 0
    """Most other processes seen computing on the GPU at one moment."""
    gpu_uuid: str | None = None
    """The GPU that was watched."""
    power_w_median: NotNegative | None = None
    memory_clock_mhz_median: NotNegative | None = None
    power_capped: NotNegative | None = None
    """Share of the readings in which the power limit held the clock down, which is how a GPU works at full load."""


class Peaks(Record):
    """The rates of a GPU, of its data sheet or as a profile has them at the clocks of the measurement. None: not known."""

    dram_bytes_per_s: Positive | None = None
    l2_bytes_per_s: Positive | None = None
    flops_per_s: dict[str, Positive] = {}
    """Precision (``fp64``, ``fp32``, ``fp16``, ``bf16``, ``tf32``, ``fp8``; ``tensor_`` before those of the matrix units)."""
