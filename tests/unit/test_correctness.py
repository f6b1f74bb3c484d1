"""Is the result right?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ratchet import Workload
from ratchet.core.bench.child import correctness
from ratchet.core.bench.child.calls import TimedCall
from ratchet.core.bench.child.correctness import WrongResult, relative_error, tolerance_of
from ratchet.core.bench.child.outputs import fill

pytestmark = pytest.mark.no_cover

VALUES = [1.5, -2.0, 3.25, 0.5]


def workload(run: Callable[[], Any], reference: Callable[[], Any], **changes: Any) -> Workload:
    return Workload(run=run, reference=reference, dtype="float32", flops=1, bytes=1, **changes)


def check(made: Workload) -> float:
    return correctness.check(TimedCall(made)).error


def checked(out: Any, ref: Any, **changes: Any) -> float:
    """The check of a run that gives a fresh copy of ``out``."""

    def fresh() -> Any:
        return tuple(each.clone() for each in out) if isinstance(out, tuple) else out.clone()

    return check(workload(fresh, lambda: ref, **changes))


def tensor(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


WIDE = torch.arange(12, dtype=torch.float64).reshape(3, 4)


@pytest.mark.parametrize(
    ("out", "ref"),
    [
        (tensor(3.0, 4.0), tensor(3.0, 4.0, dtype=torch.float64)),
        (tensor(0.0, 0.0), tensor(0.0, 0.0)),
        (torch.empty(0, 4), torch.empty(0, 4)),
        (WIDE.float().t().contiguous().t(), WIDE),  # strides do not matter
        *((tensor(1, 0, 1, dtype=dtype),) * 2 for dtype in (torch.int8, torch.int64, torch.uint8, torch.bool)),
    ],
)
def test_exactly_right(out: torch.Tensor, ref: torch.Tensor) -> None:
    """A result that agrees with its reference, in whatever type and shape, has an error of 0."""
    assert checked(out, ref) == 0.0


def test_right() -> None:
    """Within its tolerance a result passes; the error is the relative one, or the absolute one where the reference is zero."""
    assert checked(tensor(3.0, 4.0 + 5e-5), tensor(3.0, 4.0, dtype=torch.float64)) == pytest.approx(1e-5, rel=0.01)
    assert checked(tensor(3e-5, 4e-5), tensor(0.0, 0.0)) == pytest.approx(5e-5)


@pytest.mark.parametrize(
    ("out", "ref", "said"),
    [
        (tensor(3.0, 4.1), tensor(3.0, 4.0), r"the output is off by 2.00e-02 \(relative; 1.0e-04 allowed\)"),
        (tensor(3.0, math.nan), tensor(3.0, 4.0), "the output holds NaN or infinity, the expected result does not"),
        (tensor(3.0, math.inf), tensor(3.0, 4.0), "NaN or infinity"),
        (tensor(3.0, math.inf), tensor(3.0, -math.inf), "the output and the expected result are infinite in different places"),
        (tensor(3.0, 3.0), tensor(3.0, -math.inf), "the output and the expected result are infinite in different places"),
        (tensor(4.0, math.inf), tensor(3.0, math.inf), "the output is off by"),
        (tensor(3.0), tensor(math.nan), "the reference of the output holds NaN: draw inputs"),
        (tensor(math.nan, math.nan), tensor(3.0, 4.0), "the output is NaN everywhere, .*: run wrote nothing to it, or NaN"),
        (tensor(math.nan), tensor(math.nan), "the reference of the output holds NaN"),
        (tensor(3.0, 4.0), tensor(3.0), r"the output has shape \(2,\), the expected result \(1,\)"),
        (tensor(3.0, 4.0), tensor(3.0, 4.0).reshape(2, 1), r"the expected result \(2, 1\)"),
        (
            (tensor(1.0), tensor(2.0)),
            tensor(1.0),
            r"run returns output \[0\], the expected result does not: it returns the output",
        ),
        ((tensor(1.0), tensor(2.1)), (tensor(1.0), tensor(2.0)), r"output \[1\] is off by 5.00e-02"),
        (tensor(7, 9, dtype=torch.int32), tensor(7, 8, dtype=torch.int32), "is off by"),
        (tensor(2**53 + 1, dtype=torch.int64), tensor(2**53, dtype=torch.int64), "is off by"),
        (tensor(True, False), tensor(True, True), "is off by"),
        (tensor(3 + 1j, dtype=torch.complex64), tensor(3 + 0j, dtype=torch.complex64), "is off by 3.33e-01"),
        (tensor(complex(3, math.nan), dtype=torch.complex64), tensor(3 + 0j, dtype=torch.complex64), "NaN everywhere"),
        (tensor(1e-3), tensor(0.0), "is off by 1.00e-03"),
    ],
)
def test_wrong(out: Any, ref: Any, said: str) -> None:
    """A result beyond its tolerance, not finite, or of another shape or number is refused with a sentence."""
    with pytest.raises(WrongResult, match=said):
        checked(out, ref)


@pytest.mark.parametrize("tolerance", [math.inf, 1e300])
def test_nan_never_passes(tolerance: float) -> None:
    """No tolerance lets NaN through."""
    with pytest.raises(WrongResult, match="NaN"):
        checked(tensor(math.nan), tensor(1.0), tolerance={"float32": tolerance})


def test_infinite_elements_are_compared_in_place() -> None:
    """A mask of minus infinity is a right result, with a reference and without one; elsewhere the limit holds."""
    ref = tensor(3.0, -math.inf, math.inf)
    assert checked(ref, ref) == 0.0
    assert checked(tensor(3.0003, -math.inf, math.inf), ref, tolerance={"float32": 1e-3}) == pytest.approx(1e-4, rel=0.01)
    x, mask = torch.randn(8, 8), torch.ones(8, 8, dtype=torch.bool).triu(1)
    assert check(Workload(run=lambda: x.masked_fill(mask, -math.inf))) == 0.0
    turn = iter([mask, mask.t()] * 9)
    with pytest.raises(WrongResult, match="the output is infinite in different places in the second call and the first one"):
        check(Workload(run=lambda: x.masked_fill(next(turn), -math.inf)))


@pytest.mark.parametrize("made", [torch.randn(4, 2), torch.arange(8).reshape(4, 2)])
def test_a_run_that_returns_its_own_input_is_told_so(made: torch.Tensor) -> None:
    """The check fills each output before the next call, so an input that is returned holds our own filling."""
    with pytest.raises(WrongResult, match=r"run returns one of its inputs, or writes nothing to it. Return a new tensor"):
        check(Workload(run=lambda: made.view(2, 4)))


@pytest.mark.parametrize(
    ("dtype", "passing", "failing"),
    [
        (torch.float64, 1e-11, 1e-9),
        (torch.float32, 5e-5, 2e-4),
        (torch.float16, 1e-3, 5e-3),
        (torch.bfloat16, 8e-3, 3e-2),
        (torch.float8_e4m3fn, 0.0, 0.3),
        (torch.float8_e5m2, 0.0, 0.3),
        (torch.complex64, 5e-5, 2e-4),
        (torch.complex128, 1e-11, 1e-9),
    ],
)
def test_tolerances(dtype: torch.dtype, passing: float, failing: float) -> None:
    """Each output type has a tolerance of its own."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    ref = torch.ones(8, dtype=wide)
    assert checked((ref * (1 + passing)).to(dtype), ref) <= passing + 1e-3
    with pytest.raises(WrongResult):
        checked((ref * (1 + failing)).to(dtype), ref)


def test_a_tolerance_that_is_no_number_lets_nothing_through() -> None:
    """Without a limit to compare an error with, a wrong result is wrong."""
    with pytest.raises(WrongResult, match="off by"):
        checked(tensor(9.0), tensor(1.0), tolerance={"float32": math.nan})


def test_own_tolerance() -> None:
    """A workload's own tolerance wins for the type it names; an unknown type is exact."""
    made = workload(lambda: None, lambda: None, tolerance={"float32": 0.5})
    limits = [tolerance_of(made, dtype) for dtype in ("float32", "bfloat16", "int32", "bool")]
    assert limits == [0.5, 1e-2, 0.0, 0.0]
    assert checked(tensor(1.4), tensor(1.0), tolerance={"float32": 0.5}) == pytest.approx(0.4)


def test_an_unwritten_element_of_a_kept_output() -> None:
    """An element that a kernel leaves from the call before is found, if the output is the same memory each time."""
    ref = tensor(*VALUES)
    kept = ref.clone()

    def run() -> torch.Tensor:
        kept[:3] = ref[:3]
        return kept

    with pytest.raises(WrongResult, match="NaN"):
        check(workload(run, lambda: ref))


def test_an_unwritten_element_of_a_fresh_output() -> None:
    """An element that nobody writes is found in fresh memory too: what the call before left there was overwritten."""
    ref = torch.full((256,), 1.2345)

    def run() -> torch.Tensor:
        out = torch.empty(256)
        out[:255] = ref[:255]
        return out

    with pytest.raises(WrongResult):
        check(workload(run, lambda: ref))


def test_an_unwritten_integer() -> None:
    """Integers have no NaN; the largest one stands in for it."""
    kept = tensor(1, 2, 3, dtype=torch.int32)
    with pytest.raises(WrongResult, match="is off by"):
        check(workload(lambda: kept, lambda: tensor(1, 2, 3, dtype=torch.int32)))


def test_the_reference_is_not_poisoned() -> None:
    """The reference is computed before anything is overwritten, with the tuning left out."""
    made = Workload(
        run=lambda BLOCK: torch.full((3,), float(BLOCK)),  # noqa: N803
        reference=lambda: torch.full((3,), 16.0),
        dtype="float32",
        flops=1,
        bytes=1,
        tune={"BLOCK": (16, 32)},
        tuning={"BLOCK": 16},
    )
    assert check(made) == 0.0


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.float32, math.nan),
        (torch.bfloat16, math.nan),
        (torch.float8_e4m3fn, math.nan),
        (torch.complex64, math.nan),
        (torch.int8, 127),
        (torch.uint8, 255),
        (torch.uint64, 2**64 - 1),
        (torch.bool, True),
    ],
)
def test_poison(dtype: torch.dtype, value: float) -> None:
    """Outputs are filled with NaN, the largest integer, or True."""
    out = torch.zeros(4, dtype=dtype)
    fill({"the output": out}, math.nan)
    for element in out.tolist() if dtype != torch.float8_e4m3fn else out.float().tolist():
        assert element == value or (math.isnan(value) and element != element)


def test_results_with_gradients() -> None:
    """A result that autograd follows is checked like any other."""
    weight = tensor(*VALUES).requires_grad_()
    assert check(workload(lambda: weight * 2, lambda: weight * 2)) == 0.0


def test_slices() -> None:
    """A result of more elements than one slice is measured as a whole."""
    out, ref = torch.ones(3 << 19), torch.ones(3 << 19)
    out[-1] = 2.0
    assert relative_error(out, ref) == pytest.approx(1 / math.sqrt(3 << 19))
