"""Figures that several rules need, and how they are written in a sentence. None wherever the profile does not have them."""

from __future__ import annotations

from collections.abc import Callable

from ratchet.records.profile import KernelProfile

LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORE_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
LOCAL_SECTORS = ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
ATOMICS = ("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum")
THREADS_PER_INSTRUCTION = "smsp__thread_inst_executed_per_inst_executed.ratio"
SM_ACTIVE, SM_ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.avg"
METRICS = (LOAD_SECTORS, STORE_SECTORS, *LOCAL_SECTORS, *ATOMICS, THREADS_PER_INSTRUCTION, SM_ACTIVE, SM_ELAPSED)
"""What rules take from `KernelProfile.metrics`, by Nsight Compute's names (Kernel Profiling Guide, Metrics Reference)."""
SECTOR_BYTES = 32

Figure = Callable[[KernelProfile], float | None]


def ratio(head: float | None, reference: float | None) -> float | None:
    """head / reference; None unless both are there and positive."""
    return head / reference if head and reference and head > 0 and reference > 0 else None


def metric(kernel: KernelProfile, name: str) -> float | None:
    return kernel.metrics.get(name)


def summed(kernel: KernelProfile, *names: str) -> float | None:
    """The sum of those that are there; None where none is."""
    found = [kernel.metrics[name] for name in names if name in kernel.metrics]
    return sum(found) if found else None


def global_sectors(kernel: KernelProfile) -> float | None:
    """32-byte sectors that loads and stores of global memory moved through L1."""
    return summed(kernel, LOAD_SECTORS, STORE_SECTORS)


def blocks(kernel: KernelProfile) -> int | None:
    """Of the grid."""
    return kernel.grid[0] * kernel.grid[1] * kernel.grid[2] if kernel.grid else None


def all_flops(kernel: KernelProfile) -> float:
    return sum(kernel.flops.values())


def tensor_flops(kernel: KernelProfile) -> float:
    """Those of the matrix units."""
    return sum(count for name, count in kernel.flops.items() if name.startswith("tensor_"))


def worst_stall(kernel: KernelProfile) -> str | None:
    """The reason for which warps waited the longest; None where it is not known or nothing was waited for."""
    waits = {reason: cycles for reason, cycles in kernel.stalls.items() if reason not in ("selected", "not_selected")}
    longest = max(waits, key=lambda reason: waits[reason], default=None)
    return longest if longest is not None and waits[longest] > 1 else None


def arrow(reference: object, head: object) -> str:
    """``128 → 255``: the reference first, as time runs."""
    return f"{reference} → {head}"


def whole(value: float) -> str:
    """A count, as people write it: ``65,536`` and ``16.5 million``."""
    if value >= 999_500:
        return f"{value / 1e6:.3g} million" if value < 999.5e6 else f"{value / 1e9:.3g} billion"
    return f"{value:,.0f}"


def points(value: float) -> str:
    """A percentage that is stored as one: ``17 %``; below ten with a decimal."""
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"
