"""How the referee of `ratchet evaluate` compares: values in place, ties, and both errors against float64."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from ratchet.lab.numerics import closeness, is_far, is_less_precise, precision_errors  # noqa: E402  after the skip

INF, NAN = math.inf, math.nan


def is_close(found: list[float], expected: list[float], *, dtype: torch.dtype = torch.float32, **more: object) -> bool:
    sides = ({"output": torch.tensor(side, dtype=dtype)} for side in (found, expected))
    return not closeness(*sides, 1e-3, 1e-5, **more).wrong  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "expected", "passes"),
    [
        ([1.0, NAN, -INF], [1.0, NAN, -INF], True),
        ([1.0, NAN, -INF], [1.0005, NAN, -INF], True),
        ([1.0, NAN, 2.0], [1.002, NAN, 2.0], False),
        ([NAN, 1.0], [1.0, NAN], False),
        ([INF, 1.0], [-INF, 1.0], False),
        ([INF, 1.0], [3e38, 1.0], False),
        ([0.0, 1.0], [NAN, 1.0], False),
        ([NAN, NAN], [1.0, 2.0], False),
        ([5e-6], [0.0], True),
        ([2e-5], [0.0], False),
    ],
)
def test_values_match_in_place(found: list[float], expected: list[float], passes: bool) -> None:
    """NaN matches NaN, an infinity itself, and everything else what is within both tolerances."""
    assert is_close(found, expected) == passes


def test_half_types_differ_by_units_in_the_last_place() -> None:
    """Two of bfloat16's units are close, which are more than rtol; four are not."""
    assert is_close([1.015625], [1.0], dtype=torch.bfloat16)
    assert not is_close([1.03125], [1.0], dtype=torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64])
def test_a_wrong_mask_or_index_is_wrong_whatever_the_scale(dtype: torch.dtype) -> None:
    """Values of types without rounding are compared one by one, on inputs of any size too."""
    found, expected = [0.0, 1.0, 1.0], [0.0, 1.0, 0.0]
    assert is_close(expected, expected, dtype=dtype, scaled=True)
    assert not is_close(found, expected, dtype=dtype, scaled=True)


def test_what_is_no_further_from_float64_passes() -> None:
    """A sum in another order passes where the baseline is as far off; a wrong one, or one of a better baseline, does not."""
    exact = torch.randn(4, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 1e-4
    expected, found = (exact + sign * 1e-3 for sign in (1, -1))
    sides = [{"output": side.float()} for side in (found, expected)]
    assert closeness(*sides, 1e-3, 1e-5).wrong == "output"
    assert closeness(*sides, 1e-3, 1e-5, exact={"output": exact}).wrong == ""
    further = {"output": (exact - 1e-1).float()}
    assert closeness(further, sides[1], 1e-3, 1e-5, exact={"output": exact}).wrong == "output"
    one_row = found.clone()
    one_row[2] += 1e-1
    assert closeness({"output": one_row.float()}, sides[1], 1e-3, 1e-5, exact={"output": exact}).wrong == "output"


def test_less_precision_is_noticed_with_and_without_float64() -> None:
    """Half precision inside is thousands of epsilons off; another order of sums is not."""
    exact = torch.rand(256, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 0.5
    baseline, half = exact.float(), exact.half().float()
    other = baseline * (1 + 2 * torch.finfo(torch.float32).eps)
    for truth in ({"output": exact}, None):
        assert is_less_precise(*precision_errors({"output": half}, {"output": baseline}, truth))
        assert not is_less_precise(*precision_errors({"output": other}, {"output": baseline}, truth))


def test_a_number_has_the_precision_of_the_arguments() -> None:
    """A Python number is a float64, in whatever it was computed."""
    found, expected, exact = ({"output": torch.tensor(value, dtype=torch.float64)} for value in (1 + 3e-7, 1 + 1e-8, 1.0))
    assert not is_less_precise(*precision_errors(found, expected, exact, [torch.zeros(1)]))
    assert is_less_precise(*precision_errors(found, expected, exact, [torch.zeros(1, dtype=torch.float64)]))


def test_a_quick_look_finds_what_may_be_less_precise() -> None:
    """Half precision is far, another order of sums is not, and NaN is looked at."""
    exact = torch.rand(64, 64, generator=torch.Generator().manual_seed(3)) + 0.5
    assert is_far({"output": exact.half().float()}, {"output": exact})
    assert not is_far({"output": exact * (1 + 2 * torch.finfo(torch.float32).eps)}, {"output": exact})
    assert is_far({"output": exact}, {"output": exact.masked_fill(exact > 1, NAN)})
