"""Operations of a launch and the peaks that its own report holds the GPU to, both by precision. Pure.

Vector operations are counted per thread: a multiply-add is two, and a half-precision instruction works on two lanes. Matrix
units count operations themselves (``sm__ops_path_tensor_*``). Where a report has a rate per cycle alone, the cycles give the sum.
(Nsight Compute, Kernel Profiling Guide, Metrics Reference; the weights are those of its own roofline sections.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ratchet.records.profile import Peaks

Metrics = Mapping[str, float]

_VECTOR = {"fp64": ("d", 1), "fp32": ("f", 1), "fp16": ("h", 2)}
"""Precision → the letter before its instructions, and the lanes that one instruction works on."""
_TENSOR = "sm__ops_path_tensor_"
_FLOATING = ("fp64", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4")


def flops(metrics: Metrics, constant_moves: float | None) -> dict[str, float]:
    """Precision → operations of the whole launch; a precision whose counters are not all there is left out.

    ``constant_moves`` are the multiply-adds of half precision that only put a constant into a register: ncu counts them, and
    they are no work. Where they are unknown, half precision is left out, unless it has no multiply-adds at all.
    """
    moves = {"fp64": 0.0, "fp32": 0.0, "fp16": constant_moves}
    found = {precision: _vector(metrics, letter, lanes, moves[precision]) for precision, (letter, lanes) in _VECTOR.items()}
    found |= {f"tensor_{source}": _tensor(metrics, source) for source in _FLOATING}
    return {precision: count for precision, count in found.items() if count is not None}


def peaks(metrics: Metrics) -> Peaks:
    """The rates that can be sustained at the clocks of the measurement."""
    dram = _product(metrics, "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second")
    l2 = _product(metrics, "derived__lts__lts2xbar_bytes.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second")
    clock = metrics.get("sm__cycles_elapsed.avg.per_second", metrics.get("smsp__cycles_elapsed.avg.per_second"))
    rates = {
        precision: 2
        * lanes
        * clock
        * metrics.get(f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum.peak_sustained", 0.0)
        for precision, (letter, lanes) in _VECTOR.items()
        if clock
    }
    rates |= {f"tensor_{source}": _tensor_peak(metrics, source, clock) or 0.0 for source in _FLOATING}
    known = {precision: rate for precision, rate in rates.items() if rate}
    return Peaks(dram_bytes_per_s=dram or None, l2_bytes_per_s=l2 or None, flops_per_s=known)


def _vector(metrics: Metrics, letter: str, lanes: int, moves: float | None) -> float | None:
    add, mul, fma = (_count(metrics, f"op_{letter}{operation}_pred_on") for operation in ("add", "mul", "fma"))
    if add is None or mul is None or fma is None or (fma and moves is None):
        return None
    return lanes * (add + mul + 2 * max(0.0, fma - (moves or 0.0)))


def _tensor(metrics: Metrics, source: str) -> float | None:
    """Operations of the matrix units on operands of one type: of the counter for all of them, else of its parts together."""
    for parts in _counters(metrics, source):
        counts = [_sum(metrics, part, "sm") for part in parts]
        known = [count for count in counts if count is not None]
        if known:
            return sum(known)
    return None


def _tensor_peak(metrics: Metrics, source: str, clock: float | None) -> float | None:
    """Of the fastest dense instruction, per second. A counter for sparse work too has the sparse peak, twice as high."""
    best = 0.0
    for parts in reversed(_counters(metrics, source)):
        for part in parts:
            per_cycle = metrics.get(f"{part}.sum.peak_sustained")
            per_second = metrics.get(f"{part}.sum.peak_sustained_elapsed.per_second")
            rate = per_second or (per_cycle * clock if per_cycle and clock else 0.0)
            best = max(best, 0.0 if part.endswith("_sparsity_on") else rate)
        if best:
            return best
    return None


def _counters(metrics: Metrics, source: str) -> list[list[str]]:
    """The counters of one type of operand, by how much each of them covers: all, by result and sparsity, by instruction."""
    pattern = re.compile(
        rf"{_TENSOR}(?P<op>op_[a-z]+_)?src_{source}(?P<part>_(?:dst|sparsity)_\w+)?\.sum(?:\.per_cycle_elapsed)?"
    )
    found = {match[0].partition(".")[0]: match for name in metrics if (match := pattern.fullmatch(name))}
    by_result = {name: match["part"] for name, match in found.items() if not match["op"]}
    whole = [name for name, part in by_result.items() if not part]
    merged = [name for name, part in by_result.items() if part and "sparsity" not in part]
    split = [name for name, part in by_result.items() if part and "sparsity" in part]
    return [each for each in (whole, merged, split, [name for name, match in found.items() if match["op"]]) if each]


def _count(metrics: Metrics, operation: str) -> float | None:
    """Thread instructions of the launch."""
    for unit in ("smsp", "sm"):
        if (found := _sum(metrics, f"{unit}__sass_thread_inst_executed_{operation}", unit)) is not None:
            return found
    for weight in (4, 2):
        rate = metrics.get(f"derived__smsp__sass_thread_inst_executed_{operation}_x{weight}")
        cycles = _cycles(metrics, "smsp")
        if rate is not None and cycles is not None:
            return float(round(rate * cycles / weight))
    return None


def _sum(metrics: Metrics, counter: str, unit: str) -> float | None:
    if (found := metrics.get(f"{counter}.sum")) is not None:
        return found
    rate, cycles = metrics.get(f"{counter}.sum.per_cycle_elapsed"), _cycles(metrics, unit)
    return None if rate is None or cycles is None else float(round(rate * cycles))


def _cycles(metrics: Metrics, unit: str) -> float | None:
    """Elapsed cycles of a unit, as its rates per cycle have them."""
    return metrics.get(f"{unit}__cycles_elapsed.avg", metrics.get(f"{unit}__cycles_elapsed.max"))


def _product(metrics: Metrics, first: str, second: str) -> float | None:
    one, other = metrics.get(first), metrics.get(second)
    return None if one is None or other is None else one * other
