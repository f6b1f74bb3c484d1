"""The GPU and the machine around it: their description, their fitness for timing, and the lock that gives them to one run.

`ratchet.commands.machine`, `ratchet doctor` and the rest of `measure` use it. It asks NVML, reads /proc, runs small programs for
their versions, and writes lock files. Everything that depends on who made the GPUs asks `vendor_here`.
"""

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
