"""Check a workload's result: relative error in float64 against its own reference; NaN never passes.

`child.worker` calls it before and after timing, `child.trials` for each configuration. It runs the author's code, and allocates
on the workload's device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ratchet.workload import Workload, dtype_name

if TYPE_CHECKING:
    import torch

# Largest ‖out − ref‖ / ‖ref‖ by output type: a few times the rounding of one operation in that type.
TOLERANCE: Mapping[str, float] = {
    "complex128": 1e-10,
    "complex64": 1e-4,
    "float64": 1e-10,
    "float32": 1e-4,
    "float16": 2e-3,
    "bfloat16": 1e-2,
    "float8_e4m3fn": 6e-2,
    "float8_e5m2": 1.2e-1,
}


class WrongResult(Exception):
    """An output of the workload that disagrees with its reference."""


def check(workload: Workload, expected: tuple[torch.Tensor, ...] | None = None) -> float:
    """Run once into poisoned outputs and return the largest relative error of the outputs.

    ``expected`` is the result of the workload's reference, where the caller has it already. Raises WrongResult with a
    sentence where an output is beyond its tolerance, of another shape, or not finite; TypeError for a result that is not
    tensors. Integers have to be equal.
    """
    expected = tensors(workload.reference()) if expected is None else expected
    poison(tensors(workload.run(**workload.tuning)))
    found = tensors(workload.run(**workload.tuning))
    if len(found) != len(expected):
        raise WrongResult(f"run returns {len(found)} tensors, reference {len(expected)}")
    worst = 0.0
    for index, (out, ref) in enumerate(zip(found, expected, strict=True)):
        which = f"output {index}" if len(found) > 1 else "the output"
        if out.shape != ref.shape:
            raise WrongResult(f"{which} has shape {tuple(out.shape)}, its reference {tuple(ref.shape)}")
        error = relative_error(out, ref)
        limit = tolerance_of(workload, dtype_name(out.dtype))
        if not error <= limit:
            what = (
                "or its reference holds NaN or infinity"
                if not math.isfinite(error)
                else f"is off by {error:.2e} (relative; {limit:.1e} allowed)"
            )
            raise WrongResult(f"{which} {what}")
        worst = max(worst, error)
    return worst


def tolerance_of(workload: Workload, dtype: str) -> float:
    """Return the workload's own limit for an output type, else the default; 0 (exact) for integers."""
    return workload.tolerance.get(dtype, TOLERANCE.get(dtype, 0.0))


def tensors(result: Any) -> tuple[torch.Tensor, ...]:
    """Return a result as a tuple of tensors. Raises TypeError for anything else."""
    import torch

    found = tuple(result) if isinstance(result, tuple | list) else (result,)
    if not found or not all(isinstance(each, torch.Tensor) for each in found):
        raise TypeError(f"run and reference return a tensor or a tuple of tensors, not {type(result).__name__}")
    return tuple(each.detach() for each in found)


def poison(outputs: tuple[torch.Tensor, ...]) -> None:
    """Fill outputs with NaN (or the largest integer): a fresh output reuses this memory, a kept one is this memory."""
    import torch

    for out in outputs:
        value = math.nan if out.dtype.is_floating_point or out.dtype.is_complex else True
        if not isinstance(value, float) and out.dtype != torch.bool:
            value = torch.iinfo(out.dtype).max
        out.fill_(value)


def relative_error(out: torch.Tensor, ref: torch.Tensor) -> float:
    """Return ‖out − ref‖ / ‖ref‖ in float64, in slices of 1 Mi elements to bound memory; NaN and infinity come back as NaN.

    Both have one shape. Integers are subtracted as such. Where the reference is all zeros, this is ‖out‖.
    """
    import torch

    flat_out, flat_ref = out.reshape(-1), ref.reshape(-1)
    wide = torch.float64
    if out.is_complex() or ref.is_complex():
        wide = torch.complex128
    elif not (out.is_floating_point() or ref.is_floating_point()):
        wide = torch.int64  # float64 would take 2**53 and 2**53 + 1 for equal
    difference = torch.zeros((), dtype=torch.float64, device=out.device)
    norm = torch.zeros_like(difference)
    step = 1 << 20
    for start in range(0, flat_out.numel(), step):
        a = flat_out[start : start + step].to(wide)
        b = flat_ref[start : start + step].to(device=out.device, dtype=wide)
        difference += _squares(a - b)
        norm += _squares(b)
    off, size = math.sqrt(float(difference)) if float(difference) == float(difference) else math.nan, math.sqrt(float(norm))
    if not (math.isfinite(off) and math.isfinite(size)):
        return math.nan
    return off / size if size > 0 else off


def _squares(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of squared magnitudes, in float64."""
    import torch

    real = torch.view_as_real(values) if values.is_complex() else values
    return real.to(torch.float64).square().sum()
