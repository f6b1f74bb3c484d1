"""All rules about kernels. A new one goes into the file of its theme; this table only joins the themes."""

from __future__ import annotations

from ratchet.profile.diagnosis import arithmetic, figures, memory, occupancy, registers, shared
from ratchet.profile.diagnosis.rule import ChangeRule, StateRule

CHANGES: tuple[ChangeRule, ...] = (
    *registers.CHANGES,
    *arithmetic.CHANGES,
    *memory.CHANGES,
    *shared.CHANGES,
    *occupancy.CHANGES,
)
STATES: tuple[StateRule, ...] = (
    *registers.STATES,
    *arithmetic.STATES,
    *memory.STATES,
    *shared.STATES,
    *occupancy.STATES,
)
METRICS = (*figures.METRICS, *shared.METRICS)
"""What rules read besides the fields of `KernelProfile`."""
SUBSUMED: dict[str, tuple[str, ...]] = {
    "spills": ("DRAM bytes", "L2 hits", "instructions", "occupancy"),
    "extra pass": ("DRAM bytes", "L2 hits"),
    "L2 hits": ("DRAM bytes",),
    "tensor cores": ("instructions", "precision", "steps"),
    "precision": ("instructions",),
    "divergence": ("instructions",),
    "tile": ("instructions", "steps"),
    "steps": ("instructions",),
    "bytes in flight": ("throughput",),
    "occupancy": ("throughput",),
    "atomics": ("bytes in flight", "throughput"),
}
"""Key → what follows from it, and is not said again of the same kernel."""
