"""Metrics of a launch, by Nsight Compute's names, as a `KernelProfile`. The only file that turns counters into figures.

Readers of reports give a `RawKernel` to `kernel_profile`; readers and rules of diagnosis also take `bare` and names of counters
from here. Sections: names of kernels, operations and peaks, what readers return, one launch. Pure.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from ratchet.core.records.environment import Peaks
from ratchet.core.records.profile import KernelProfile, ProfilerRule

_OPENING, _CLOSING = "<([{", ">)]}"


def bare(name: str) -> str:
    """Convert ``void ns::softmax<float, (int)4>(float *, int)`` to ``softmax``: no type, namespace, template, parameters.

    A name that is nothing but brackets stays as it is.
    """
    kept = _outside_brackets(name.replace("(anonymous namespace)", "").replace("operator()", "operator")).strip()
    word = kept.rpartition(" ")[2].rpartition("::")[2].lstrip("*&")
    return word or name.strip()


def _outside_brackets(name: str) -> str:
    """Cut at the parameters and drop template arguments. The ``>`` of an arrow (``operator->``) closes no bracket."""
    depth = 0
    kept: list[str] = []
    for position, letter in enumerate(name):
        if letter in _OPENING:
            if letter == "(" and depth == 0 and "".join(kept).strip():
                break
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - (name[max(0, position - 1)] != "-"))
        elif depth == 0:
            kept.append(letter)
    return "".join(kept)


# Operations of a launch and the peaks in its own report, both by precision.
#
# Vector operations are counted per thread: a multiply-add is two, and a half-precision instruction works on two lanes. Matrix
# units count operations themselves (``sm__ops_path_tensor_*``). Where a report has only a rate per cycle, the
# cycles give the sum. (Nsight Compute, Kernel Profiling Guide, Metrics Reference; the weights are those of its own roofline
# sections.)


Metrics = Mapping[str, float]

_VECTOR = {"fp64": ("d", 1), "fp32": ("f", 1), "fp16": ("h", 2)}
"""Precision → the letter before its instructions, and the lanes that one instruction works on."""
_TENSOR = "sm__ops_path_tensor_"
_FLOATING = ("fp64", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4")


def flops(metrics: Metrics, constant_moves: float | None) -> dict[str, float]:
    """Return precision → operations of the whole launch; a precision whose counters are not all there is left out.

    ``constant_moves`` are the multiply-adds of half precision that only put a constant into a register: ncu counts them, and
    they are no work. Where they are unknown, half precision is left out, unless it has no multiply-adds at all.
    """
    moves = {"fp64": 0.0, "fp32": 0.0, "fp16": constant_moves}
    counts = {precision: _vector(metrics, letter, lanes, moves[precision]) for precision, (letter, lanes) in _VECTOR.items()}
    counts |= {f"tensor_{source}": _tensor(metrics, source) for source in _FLOATING}
    return {precision: count for precision, count in counts.items() if count is not None}


def peaks(metrics: Metrics) -> Peaks:
    """Return the rates that can be sustained at the clocks of the measurement, in bytes and FLOP per second."""
    dram = _both(metrics, "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second", operator.mul)
    l2 = _both(metrics, "derived__lts__lts2xbar_bytes.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second", operator.mul)
    clock = first(metrics, ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")) or 0.0
    fma = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
    rates = {name: 2 * lanes * clock * metrics.get(fma.format(letter), 0.0) for name, (letter, lanes) in _VECTOR.items()}
    rates |= {f"tensor_{source}": _tensor_peak(metrics, source, clock) for source in _FLOATING}
    known = {precision: rate for precision, rate in rates.items() if rate}
    return Peaks(dram_bytes_per_s=dram or None, l2_bytes_per_s=l2 or None, flops_per_s=known)


def _vector(metrics: Metrics, letter: str, lanes: int, moves: float | None) -> float | None:
    add, mul, fma = (_count(metrics, f"op_{letter}{operation}_pred_on") for operation in ("add", "mul", "fma"))
    if add is None or mul is None or fma is None or (fma and moves is None):
        return None
    return lanes * (add + mul + 2 * max(0.0, fma - (moves or 0.0)))


def _tensor(metrics: Metrics, source: str) -> float | None:
    """Count operations of the matrix units on operands of one type: by the counter for all of them, else by its parts."""
    for parts in _counters(metrics, source):
        counts = [_sum(metrics, part, "sm") for part in parts]
        known = [count for count in counts if count is not None]
        if known:
            return sum(known)
    return None


def _tensor_peak(metrics: Metrics, source: str, clock: float) -> float:
    """Return operations per second of the fastest dense instruction. Counters that include sparse work have twice the peak."""
    for parts in reversed(_counters(metrics, source)):
        dense = [f"{part}.sum.peak_sustained" for part in parts if not part.endswith("_sparsity_on")]
        rates = [metrics.get(f"{peak}_elapsed.per_second") or metrics.get(peak, 0.0) * clock for peak in dense]
        if best := max([0.0, *rates]):
            return best
    return 0.0


def _counters(metrics: Metrics, source: str) -> list[list[str]]:
    """Group the counters of one type of operand by how much each covers: all, by result and sparsity, by instruction."""
    pattern = re.compile(
        rf"{_TENSOR}(?P<op>op_[a-z]+_)?src_{source}(?P<part>_(?:dst|sparsity)_\w+)?\.sum(?:\.per_cycle_elapsed)?"
    )
    counters = {match[0].partition(".")[0]: match for name in metrics if (match := pattern.fullmatch(name))}
    by_result = {name: match["part"] for name, match in counters.items() if not match["op"]}
    whole = [name for name, part in by_result.items() if not part]
    merged = [name for name, part in by_result.items() if part and "sparsity" not in part]
    split = [name for name, part in by_result.items() if part and "sparsity" in part]
    return [group for group in (whole, merged, split, [name for name, match in counters.items() if match["op"]]) if group]


def _count(metrics: Metrics, operation: str) -> float | None:
    """Count thread instructions of the launch, from a sum or else from a rate per cycle."""
    for unit in ("smsp", "sm"):
        if (count := _sum(metrics, f"{unit}__sass_thread_inst_executed_{operation}", unit)) is not None:
            return count
    for weight in (4, 2):
        rate = metrics.get(f"derived__smsp__sass_thread_inst_executed_{operation}_x{weight}")
        cycles = _cycles(metrics, "smsp")
        if rate is not None and cycles is not None:
            return float(round(rate * cycles / weight))
    return None


def _sum(metrics: Metrics, counter: str, unit: str) -> float | None:
    if (total := metrics.get(f"{counter}.sum")) is not None:
        return total
    rate, cycles = metrics.get(f"{counter}.sum.per_cycle_elapsed"), _cycles(metrics, unit)
    return None if rate is None or cycles is None else float(round(rate * cycles))


def _cycles(metrics: Metrics, unit: str) -> float | None:
    """Return the elapsed cycles of a unit, by which its rates per cycle are multiplied."""
    return metrics.get(f"{unit}__cycles_elapsed.avg", metrics.get(f"{unit}__cycles_elapsed.max"))


def _both(metrics: Metrics, first: str, second: str, join: Callable[[float, float], float] = operator.add) -> float | None:
    one, other = metrics.get(first), metrics.get(second)
    return None if one is None or other is None else join(one, other)


# What readers of reports return.


class RawKernel(BaseModel):
    """One launch as it is in the report. The metrics are in base units; some may be NaN or infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    metrics: dict[str, float] = {}
    texts: dict[str, str] = {}
    """Metrics that are words: the GPU's name, the cache preference."""
    constant_moves: float | None = None
    """Thread instructions of half precision that only put a constant into a register; None where nothing says how many."""
    rules: tuple[ProfilerRule, ...] = ()


# One launch → `KernelProfile`.
#
# Names differ between chips and versions, so a figure may have several; the first one in the report counts. A figure that the
# report has under none of them is None. (Nsight Compute, Kernel Profiling Guide, Metrics Reference.)


LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORE_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
LOCAL_SECTORS = ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
REQUESTS = ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum")
ATOMICS = ("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum")
THREADS_PER_INSTRUCTION = "smsp__thread_inst_executed_per_inst_executed.ratio"
SM_ACTIVE, SM_ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.avg"
SECTOR_BYTES = 32
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
"""Field of `KernelProfile` → the metrics that are its value without any arithmetic."""
_DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration_measured_user.sum")
_LIMITS = {"registers": "registers", "shared_mem": "shared memory", "warps": "warps", "blocks": "blocks"}
"""Where several allow equally few blocks, the first is named: what an author can change comes first."""
_SHARED = tuple(f"launch__shared_mem_per_block_{part}" for part in ("static", "dynamic", "driver"))
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def kernel_profile(raw: RawKernel, index: int) -> KernelProfile:
    """Return the record of the ``index``-th launch (from 0). The metrics must be finite."""
    metrics = raw.metrics
    duration = first(metrics, _DURATION)
    figures: dict[str, Any] = {field: first(metrics, names) for field, names in NAMES.items()}
    for field in ("registers", "passes"):
        figures[field] = None if figures[field] is None else round(figures[field])
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
        rules=tuple(sorted(raw.rules, key=lambda rule: (rule.scope != "global", -(rule.speedup_percent or 0.0)))),
        metrics=metrics,
        **figures,
    )


def first(metrics: Metrics, names: tuple[str, ...]) -> float | None:
    """Return the figure under the first of these names that the report has; None if it has none of them."""
    return next((metrics[name] for name in names if name in metrics), None)


def limiter(metrics: Metrics) -> str | None:
    """Return the resource that allows the fewest blocks at once on an SM; None where the report does not say."""
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
    """Return the shared memory of a block in bytes: declared by the code, added by the launch, and kept by the driver."""
    whole = metrics.get("launch__shared_mem_per_block")
    parts = [metrics[name] for name in _SHARED if name in metrics]
    if whole is None and len(parts) < 2:  # the driver's part is unknown to older versions
        return None
    return round(sum(parts) if whole is None else whole)


def _spilled(metrics: Metrics) -> float | None:
    """Return the bytes of local memory that spills moved; local arrays are left out where the report counts them separately."""
    sectors = _both(metrics, *LOCAL_SECTORS)
    if sectors is None:
        return None
    spilling = metrics.get("sass__inst_executed_register_spilling", metrics.get("derived__local_spilling_requests"))
    accesses = _both(metrics, "smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum")
    share = 1.0 if spilling is None or not accesses else min(1.0, spilling / accesses)
    return share * sectors * SECTOR_BYTES


def _per_request(metrics: Metrics, operation: str) -> float | None:
    counter = f"l1tex__t_{{}}_pipe_lsu_mem_global_op_{operation}.sum"
    return _share(metrics.get(counter.format("sectors")), metrics.get(counter.format("requests")))


def _coalesced(metrics: Metrics) -> float | None:
    """Return the used part of sectors in percent: from the addresses of each access, else from the bytes used of each sector."""
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
            moved += sectors * SECTOR_BYTES
    return 100 * used / moved if moved else None


def _shared_wavefronts(metrics: Metrics) -> dict[str, float | None]:
    """Return wavefronts and conflicts by the addresses of accesses; else by a counter that counts other delays too."""
    wavefronts, ideal = (metrics.get(f"memory_l1_wavefronts_shared{which}") for which in ("", "_ideal"))
    if wavefronts is not None and ideal is not None:
        return {"bank_conflicts": max(0.0, wavefronts - ideal), "shared_wavefronts": wavefronts}
    return {
        "bank_conflicts": metrics.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
        "shared_wavefronts": metrics.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    }


def _stalls(metrics: Metrics) -> dict[str, float]:
    """Return the stall reasons, the longest first. ``selected`` is left out: it is the cycle in which an instruction issues."""
    stalls = {match[1]: value for name, value in metrics.items() if (match := _STALL.fullmatch(name))}
    stalls.pop("selected", None)
    return dict(sorted(stalls.items(), key=lambda item: (-item[1], item[0])))


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
