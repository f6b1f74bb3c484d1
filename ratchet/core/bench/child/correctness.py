"""Check a workload's result: relative error in float64 against its own reference; NaN never passes.

Without a reference, two calls in a row must agree, and `evidence` lets the controller compare the two sides of a check. It runs
the author's code, and allocates on the workload's device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ratchet.core.bench.child import outputs
from ratchet.core.bench.child.calls import TimedCall, seed_all
from ratchet.core.bench.child.outputs import Part, Value
from ratchet.core.bench.messages import Evidence, evidence_difference
from ratchet.core.workload import Workload

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

SMALL_BYTES = 16 << 20
"""A result up to this size is copied before it is poisoned: should the next one be wrong, was this one right?"""


class WrongResult(Exception):
    """An output of the workload that disagrees with its reference."""


@dataclass(frozen=True)
class CheckResult:
    """The largest relative error of the outputs (0 without a reference), and all that the call returned or changed."""

    error: float
    parts: Mapping[str, Part]


def check(call: TimedCall, expected: Mapping[str, Part] | None = None) -> CheckResult:
    """Run into poisoned outputs and compare the result with ``expected``, by default that of the workload's reference.

    Without either, compare it with the result of the call before. Raises WrongResult with a sentence where an output is beyond
    its tolerance, of another shape or structure, or not finite; TypeError for a result that cannot be compared. Integers have to
    be equal. Each call draws the same random numbers, and gets its inputs back first.
    """
    workload = call.workload
    expected = expected_of(call) if expected is None and workload.reference is not None else expected
    first = call.evidence(_repeatable(call))
    before = None if expected is not None else evidence(workload, first)
    held = sum(part.nbytes for part in first.values() if isinstance(part, torch.Tensor))
    copies = {} if expected is None or held > SMALL_BYTES else _copies(first)
    outputs.fill(first, math.nan)  # a fresh output reuses this memory, a kept one is this memory
    result = _repeatable(call)
    found = call.evidence(result)
    try:
        if before is None:
            return CheckResult(compare(workload, call.outputs(result), expected or {}), found)
        if place := next((place for place, part in found.items() if _is_all_poison(part)), None):
            raise WrongResult(
                f"{place} holds what it was filled with before the call: run returns one of its inputs, or writes nothing to it. "
                "Return a new tensor, or name the input in mutates=(…) of the Workload"
            )
        if problem := evidence_difference(evidence(workload, found), before, ("the second call", "the first one")).problem:
            raise WrongResult(f"two calls in a row do not agree: {problem}. {_CHANGES}")
    except WrongResult as error:
        if workload.is_restored or _CHANGES in str(error):
            raise
        if _only_first_is_right(workload, copies, found, expected or {}) or _reads_what_it_wrote(call, found):
            raise WrongResult(f"{error}; it depends on what the call before left behind. {_CHANGES}") from None
        raise
    return CheckResult(0.0, found)


def _is_all_poison(part: Part) -> bool:
    if not isinstance(part, torch.Tensor) or part.dtype == torch.bool or not part.numel():
        return False
    return not outputs.is_expanded(part) and bool(outputs.is_poison(part).all())


_CHANGES = "If run changes its inputs, name them in mutates=(…) of the Workload, or restore them in setup=…"


def expected_of(call: TimedCall) -> dict[str, Part]:
    """Return the parts of the reference's result; without a reference, those of the call's own result, which is copied."""
    seed_all(torch.initial_seed())
    if call.before is not None:
        call.before()
    found = outputs.parts(call.workload.reference()) if call.workload.reference else call.outputs(_repeatable(call))
    if call.workload.reference and not call.workload.is_restored:
        return found
    return {place: part.clone() if isinstance(part, torch.Tensor) else part for place, part in found.items()}


def compare(workload: Workload, found: Mapping[str, Part], expected: Mapping[str, Part]) -> float:
    """Return the largest relative error. Raises WrongResult, which names the place, where it is beyond the tolerance."""
    for place in [*found, *expected]:
        if place not in expected:
            raise WrongResult(f"run returns {place}, the expected result does not: it returns {_places(expected)}")
        if place not in found:
            raise WrongResult(f"the reference returns {place}, run does not: it returns {_places(found)}")
    return max(_error(workload, place, part, expected[place]) for place, part in found.items())


def _places(parts: Mapping[str, Part]) -> str:
    return f"{', '.join(list(parts)[:3])}{' …' if len(parts) > 3 else ''}"


def _error(workload: Workload, place: str, part: Part, expected: Part) -> float:
    if isinstance(part, Value) and isinstance(expected, Value):
        if not _equal(part.value, expected.value, place):
            raise WrongResult(f"{place} is {_shown(part)}, the expected result {_shown(expected)}")
        return 0.0
    out, ref = _number(part), _number(expected)
    if out is None or ref is None:
        raise WrongResult(f"{place} is {_shown(part)}, the expected result {_shown(expected)}")
    if out.shape != ref.shape:
        raise WrongResult(f"{place} has shape {tuple(out.shape)}, the expected result {tuple(ref.shape)}")
    error = relative_error(out, ref)
    limit = tolerance_of(workload, outputs.kind(part))
    if not math.isfinite(error):
        raise WrongResult(_not_finite(place, out, ref))
    if not error <= limit:  # nor where the limit is NaN
        raise WrongResult(f"{place} is off by {error:.2e} (relative; {limit:.1e} allowed)")
    return error


def _not_finite(place: str, out: torch.Tensor, ref: torch.Tensor) -> str:
    """Return whose fault it is that there is no error to speak of."""
    if ref.isnan().any():
        return f"the reference of {place} holds NaN: draw inputs for which it holds none"
    if outputs.is_poison(out).all():
        return f"{place} is NaN everywhere, as before the call, when it was filled with that: run wrote nothing to it, or NaN"
    if ref.isinf().any() and not out.isnan().any():
        return f"{place} and the expected result are infinite in different places"
    return f"{place} holds NaN or infinity, the expected result does not"


def _equal(value: object, expected: object, place: str) -> bool:
    try:
        return bool(value == expected)
    except (TypeError, ValueError, RuntimeError):  # as of a table, whose comparison is a table
        name = type(value).__name__
        raise TypeError(f"{place} is a {name}, which cannot be compared: return tensors, arrays, numbers or text") from None


def _number(part: Part) -> torch.Tensor | None:
    """Return a part as a tensor: a number may stand beside a tensor. None for any other value."""
    if isinstance(part, Value):
        return torch.tensor(part.value) if isinstance(part.value, int) else None
    return part


def _shown(part: Part) -> str:
    return outputs.signature(part) if isinstance(part, torch.Tensor) else repr(part.value)[:60]


def _repeatable(call: TimedCall) -> object:
    """Call with the random numbers that every call of a check draws, so that dropout drops the same."""
    seed_all(torch.initial_seed())
    return call()


def _only_first_is_right(
    workload: Workload, first: Mapping[str, Part], found: Mapping[str, Part], expected: Mapping[str, Part]
) -> bool:
    """Return whether the first result was right, and this one is wrong also where it was written."""
    try:
        compare(workload, first, {place: expected[place] for place in first})
    except (WrongResult, KeyError, ValueError):  # ValueError: there is no copy
        return False
    repaired = {place: _repaired(found[place], expected[place]) for place in first if place in found}
    try:
        compare(workload, repaired, expected)
    except WrongResult:
        return True
    return False


def _repaired(part: Part, expected: Part) -> Part:
    """Return a part with the right elements where it holds poison."""
    ref = _number(expected)
    if not isinstance(part, torch.Tensor) or ref is None or part.shape != ref.shape:
        return part
    return expected if part.dtype == torch.bool else torch.where(outputs.is_poison(part), ref.to(part), part)


def _reads_what_it_wrote(call: TimedCall, found: Mapping[str, Part]) -> bool:
    """Return whether a wrong result comes from what the call before it returned or left behind: run changes its inputs.

    It may also be that run leaves elements of its output unwritten: those keep any number that they are filled with.
    """
    try:
        wrong = _copies(found)
        outputs.fill(found, 0.0)
        after_zeros = _copies(call.evidence(_repeatable(call)))
        outputs.fill(call.evidence(_repeatable(call)), 1.0)
        after_ones = _copies(call.evidence(_repeatable(call)))
        return any(_depends(part, after_zeros[place], after_ones[place]) for place, part in wrong.items())
    except Exception:  # noqa: BLE001  an author's code may raise anything, and this only adds a sentence to an error
        return False


def _copies(parts: Mapping[str, Part]) -> dict[str, torch.Tensor]:
    return {place: part.clone() for place, part in parts.items() if isinstance(part, torch.Tensor)}


def _depends(wrong: torch.Tensor, after_zeros: torch.Tensor, after_ones: torch.Tensor) -> bool:
    wide = torch.complex128 if wrong.is_complex() else torch.float64
    nan, zeros, ones = (each.to(wide) for each in (wrong, after_zeros, after_ones))
    written = (zeros != 0) | (ones != 1)
    spoilt = nan.isnan() & zeros.isfinite()
    return bool((written & (spoilt | ~torch.isclose(zeros, ones, rtol=1e-2, equal_nan=True))).any())


def evidence(workload: Workload, found: Mapping[str, Part]) -> tuple[Evidence, ...]:
    """Return what another process needs to compare a result with its own.

    Raises WrongResult where the result holds NaN, TypeError for a value that two processes cannot compare.
    """
    return tuple(_evidence(place, part, tolerance_of(workload, outputs.kind(part))) for place, part in found.items())


def _evidence(place: str, part: Part, limit: float) -> Evidence:
    finite = f"{place} holds NaN or infinity"
    norm, sketch = outputs.sketch(part) if isinstance(part, torch.Tensor) else (0.0, [])
    infinite = ""
    if isinstance(part, torch.Tensor) and not math.isfinite(norm) and not part.is_complex():
        # Infinite elements, as a mask leaves them, have to be the same; all others are close to each other.
        values = part.float() if part.dtype.itemsize == 1 else part  # float8 has no sign()
        infinite = outputs.digest(values.sign().masked_fill(~values.isinf(), 0).to(torch.int8), place)
        norm, sketch = outputs.sketch(values.masked_fill(values.isinf(), 0))
    if not math.isfinite(norm):
        raise WrongResult(finite)
    if limit and sketch:
        kind = outputs.signature(part)
        return Evidence(place=place, kind=kind, limit=limit, norm=norm, sketch=tuple(sketch), digest=infinite)
    try:
        return Evidence(place=place, kind=outputs.signature(part), digest=outputs.digest(part, place))
    except ArithmeticError:
        raise WrongResult(finite) from None


def tolerance_of(workload: Workload, dtype: str) -> float:
    """Return the workload's own limit for an output type, else the default; 0 (exact) for integers."""
    return workload.tolerance.get(dtype, TOLERANCE.get(dtype, 0.0))


def relative_error(out: torch.Tensor, ref: torch.Tensor) -> float:
    """Return ‖out − ref‖ / ‖ref‖ in float64, in slices of 1 Mi elements to bound memory.

    Elements that are infinite in both, with the same sign, are equal; NaN and any other infinity come back as NaN.
    Both have one shape. Integers are subtracted as such. Where the reference is all zeros, this is ‖out‖.
    """
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
        same = b.isinf() & (a == b)
        difference += _squares((a - b).masked_fill(same, 0))
        norm += _squares(b.masked_fill(same, 0))
    off, size = math.sqrt(float(difference)) if float(difference) == float(difference) else math.nan, math.sqrt(float(norm))
    if not (math.isfinite(off) and math.isfinite(size)):
        return math.nan
    return off / size if size > 0 else off


def _squares(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of squared magnitudes, in float64."""
    real = torch.view_as_real(values) if values.is_complex() else values
    return real.to(torch.float64).square().sum()
