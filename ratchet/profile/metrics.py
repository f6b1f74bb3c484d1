"""The metrics of one launch, by Nsight Compute's names → `KernelProfile`. Pure.

Names differ between chips and versions, so a figure may have several; the first that the report has is taken. What it has
under none of them is None. (Nsight Compute, Kernel Profiling Guide, Metrics Reference.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ratchet.profile.names import bare
from ratchet.profile.rates import flops, peaks
from ratchet.profile.raw import RawKernel
from ratchet.records.profile import KernelProfile, Rule

NAMES: dict[str, tuple[str, ...]] = {
    "sm_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "memory_percent": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
    "dram_percent": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1_hit_percent": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "occupancy_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "occupancy_limit_percent": ("sm__maximum_warps_per_active_cycle_pct",),
    "waves": ("launch__waves_per_multiprocessor",),
    "registers": ("launch__registers_per_thread",),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "tensor_percent": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum"),
    "passes": ("profiler__replayer_passes",),
}
"""Field of `KernelProfile` → the metrics that give it as it stands."""
_DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration_measured_user.sum")
_LIMITS = {"registers": "registers", "shared_mem": "shared memory", "warps": "warps", "blocks": "blocks"}
"""In this order where several allow equally few blocks: the ones that an author can change first."""
_SHARED = tuple(f"launch__shared_mem_per_block_{part}" for part in ("static", "dynamic", "driver"))
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_SECTOR_BYTES = 32

Metrics = Mapping[str, float]


def kernel_profile(raw: RawKernel, index: int) -> KernelProfile:
    """The record of the ``index``-th launch. The metrics must be finite."""
    metrics = raw.metrics
    duration = first(metrics, _DURATION)
    given: dict[str, Any] = {field: first(metrics, names) for field, names in NAMES.items()}
    for field in ("registers", "passes"):
        given[field] = None if given[field] is None else round(given[field])
    return KernelProfile(
        name=raw.name,
        function=bare(raw.name),
        index=index,
        grid=_extent(metrics, "grid"),
        block=_extent(metrics, "block"),
        duration_s=duration / 1e9 if duration else None,
        occupancy_limiter=limiter(metrics),
        shared_bytes=_shared(metrics),
        spill_bytes=_spilled(metrics),
        load_sectors_per_request=_per_request(metrics, "ld"),
        store_sectors_per_request=_per_request(metrics, "st"),
        coalesced_percent=_coalesced(metrics),
        **_shared_wavefronts(metrics),
        stalls=_stalls(metrics),
        flops=flops(metrics, raw.constant_moves),
        peaks=peaks(metrics),
        rules=_ranked(raw.rules),
        metrics=metrics,
        **given,
    )


def first(metrics: Metrics, names: tuple[str, ...]) -> float | None:
    """The figure under the first of these names that the report has."""
    return next((metrics[name] for name in names if name in metrics), None)


def limiter(metrics: Metrics) -> str | None:
    """What allows the fewest blocks at once on an SM; None where the report does not say."""
    allowed = {
        words: metrics[f"launch__occupancy_limit_{name}"]
        for name, words in _LIMITS.items()
        if f"launch__occupancy_limit_{name}" in metrics
    }
    return min(allowed, key=allowed.__getitem__, default=None)


def _extent(metrics: Metrics, what: str) -> tuple[int, int, int] | None:
    x, y, z = (metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz")
    return None if x is None or y is None or z is None else (round(x), round(y), round(z))


def _shared(metrics: Metrics) -> int | None:
    """Of the whole block: what the code declares, what the launch adds, and what the driver keeps for itself."""
    whole = metrics.get("launch__shared_mem_per_block")
    parts = [metrics[name] for name in _SHARED if name in metrics]
    if whole is None and len(parts) < 2:  # the driver's part is unknown to older versions
        return None
    return round(sum(parts) if whole is None else whole)


def _spilled(metrics: Metrics) -> float | None:
    """Bytes of local memory that moved for registers; without local arrays, where the report tells them apart."""
    sectors = _both(metrics, "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
    if sectors is None:
        return None
    spilling = metrics.get("sass__inst_executed_register_spilling", metrics.get("derived__local_spilling_requests"))
    accesses = _both(metrics, "smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum")
    share = 1.0 if spilling is None or not accesses else min(1.0, spilling / accesses)
    return share * sectors * _SECTOR_BYTES


def _per_request(metrics: Metrics, operation: str) -> float | None:
    counter = f"l1tex__t_{{}}_pipe_lsu_mem_global_op_{operation}.sum"
    return _share(metrics.get(counter.format("sectors")), metrics.get(counter.format("requests")))


def _coalesced(metrics: Metrics) -> float | None:
    """From the addresses that each access had, else from the bytes that were used of each sector."""
    total = metrics.get("memory_l2_theoretical_sectors_global")
    share = _share(metrics.get("memory_l2_theoretical_sectors_global_ideal"), total)
    if share is not None:
        return 100 * share
    used = moved = 0.0
    for operation in ("ld", "st"):
        sectors = metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum")
        used_of_each = metrics.get(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{operation}.ratio")
        if sectors and used_of_each is not None:
            used += sectors * used_of_each
            moved += sectors * _SECTOR_BYTES
    return 100 * used / moved if moved else None


def _shared_wavefronts(metrics: Metrics) -> dict[str, float | None]:
    """From the addresses that each access had, else from the memory's own counter, which counts other delays as conflicts too."""
    wavefronts, ideal = (metrics.get(f"memory_l1_wavefronts_shared{which}") for which in ("", "_ideal"))
    if wavefronts is not None and ideal is not None:
        return {"bank_conflicts": max(0.0, wavefronts - ideal), "shared_wavefronts": wavefronts}
    return {
        "bank_conflicts": metrics.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
        "shared_wavefronts": metrics.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    }


def _stalls(metrics: Metrics) -> dict[str, float]:
    """The longest first. ``selected`` is the cycle in which an instruction issues: no wait."""
    found = {match[1]: value for name, value in metrics.items() if (match := _STALL.fullmatch(name))}
    found.pop("selected", None)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _ranked(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: (rule.scope != "global", -(rule.speedup_percent or 0.0))))


def _both(metrics: Metrics, first_name: str, second_name: str) -> float | None:
    one, other = metrics.get(first_name), metrics.get(second_name)
    return None if one is None or other is None else one + other


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
