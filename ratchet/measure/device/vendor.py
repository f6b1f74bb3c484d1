"""Say who made the GPUs that the installed torch measures on. Everything that depends on the maker asks `vendor_here`."""

from __future__ import annotations

import sys

from ratchet.measure.device.amd import Amd
from ratchet.measure.device.environment import told_by_torch
from ratchet.measure.device.gpu import Vendor
from ratchet.measure.device.nvml import Nvidia


def vendor_here() -> Vendor:
    """Return the vendor that torch was built for, as its build says: AMD for ROCm, else NVIDIA. This imports no torch."""
    torch = sys.modules.get("torch")
    return Amd() if (torch.version.hip if torch else told_by_torch("hip")) else Nvidia()
