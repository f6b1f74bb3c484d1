"""Define the seam to GPUs of any vendor: what ratchet asks of a GPU (`Gpu`), and what depends on who made it (`Vendor`).

`vendor` implements it and says whose GPUs are here. docs/scale.md names what is outside of it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ratchet.core.records.environment import Card


@dataclass(frozen=True)
class Reading:
    """The state of the GPU at one moment. None where it does not report a value."""

    at_s: float
    """`time.monotonic`, which all processes of a machine share."""
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    slowdown: tuple[str, ...] = ()
    """Heat or hardware brakes; the ordinary power cap is not one."""
    memory_clock_mhz: int | None = None
    power_capped: bool | None = None
    """The power limit holds the clock down."""


@dataclass(frozen=True)
class ComputeProcess:
    """A process with a context on the GPU. In a container its number may belong to another namespace."""

    pid: int
    used_memory_bytes: int | None = None


class Gpu(Protocol):
    """One GPU, or a part of one that is used like one. Its identity is read once; values that change are read at each call.

    A fact that the GPU, its driver or the library does not give is None, and a list is empty. No question raises, and nothing is
    ever set: no clock, mode or limit.
    """

    name: str
    uuid: str
    """Names the card in records and locks; the same for all users of the machine."""
    address: str
    """The entry of the variable in `Vendor.environ` that shows this GPU alone."""
    index: int
    memory_bytes: int | None
    power_limit_w: float | None
    mig: str | None
    """How it is partitioned: `records.environment.Fingerprint.mig`."""
    driver: str | None
    sm_clock_max_mhz: int | None
    compute_capability: str | None
    """The architecture that code is compiled for: ``9.0``."""

    def reading(self) -> Reading:
        """Return clocks, temperature, power and slowdowns now."""

    def card(self) -> Card:
        """Return which GPU this is, and its health now."""

    def free_memory_bytes(self) -> int | None:
        """Return the free device memory in bytes."""

    def compute_processes(self) -> list[ComputeProcess]:
        """Return the processes with a context here."""

    def busy_pids(self) -> frozenset[int]:
        """Return the PIDs that are known to compute here, now or a moment ago."""

    def utilization(self) -> float | None:
        """Return the fraction of the last moments in which some kernel ran, 0 to 1."""

    def uncorrected_ecc(self) -> int | None:
        """Return the number of uncorrected memory errors since the driver was loaded."""


class Vendor(Protocol):
    """The maker of the GPUs of this machine, and what ratchet can and cannot do with them."""

    name: str
    """As people write it: ``NVIDIA``."""
    unsupported: str
    """Why there is none of its GPUs to choose from, as a clause; empty where ratchet measures on them."""
    no_counters: str
    """Why no profiler counts on its GPUs, as a sentence; empty where ncu does."""
    no_machine_code: str
    """Why launches have no identity, so that every case is timed; empty where the driver shows them."""

    def choose_gpu(self, index: int | None, environ: Mapping[str, str]) -> Gpu | None:
        """Return the GPU to measure on; ``index`` counts within those that ``environ`` shows.

        None: there is no GPU, and the caller asked for none by number, or its GPUs are not supported. Raises UsageError where
        there is none of that number.
        """

    def visible_gpus(self, environ: Mapping[str, str]) -> Sequence[Gpu]:
        """Return the GPUs to choose from, in the order in which ``--gpu`` counts them. Raises UsageError."""

    def environ(self, address: str | None) -> dict[str, str]:
        """Return the variables with which a process sees this GPU alone, or none for None."""
