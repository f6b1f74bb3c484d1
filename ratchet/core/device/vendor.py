"""Say who made the GPUs that the installed torch measures on. Everything that depends on the maker asks `vendor_here`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from ratchet.core.datasheets import highest
from ratchet.core.device.environment import told_by_torch
from ratchet.core.device.gpu import Gpu, Vendor
from ratchet.core.device.nvml import Nvidia
from ratchet.core.records.environment import Peaks


def vendor_here() -> Vendor:
    """Return the vendor that torch was built for, as its build says: AMD for ROCm, else NVIDIA. This imports no torch."""
    torch = sys.modules.get("torch")
    return Amd() if (torch.version.hip if torch else told_by_torch("hip")) else Nvidia()


def peaks_of(gpu: Gpu | None) -> Peaks | None:
    """Return rates that a GPU cannot exceed; None for no GPU, and where no datasheet of its vendor is known."""
    return highest(gpu.name) if gpu and vendor_here().has_datasheets else None


class Amd:
    """AMD, a `gpu.Vendor` that is not implemented: it offers no GPU, and hides those that torch would use."""

    name = "AMD"
    unsupported = "ratchet does not support AMD GPUs"
    no_counters = no_machine_code = f"{unsupported}."
    has_datasheets = False

    def choose_gpu(self, index: int | None, environ: Mapping[str, str]) -> Gpu | None:  # noqa: ARG002  the seam's interface
        return None

    def visible_gpus(self, environ: Mapping[str, str]) -> Sequence[Gpu]:  # noqa: ARG002  likewise
        return ()

    def environ(self, address: str | None) -> dict[str, str]:  # noqa: ARG002  likewise
        return {"HIP_VISIBLE_DEVICES": "-1"}  # HIP takes an empty value for none at all
