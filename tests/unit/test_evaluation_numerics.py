"""How `ratchet evaluate` tells a tie, and a value on a border, from a wrong result."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from ratchet.lab import numerics  # noqa: E402  after the skip
from ratchet.lab.child.memory import HostMemory, new_pages  # noqa: E402
from ratchet.lab.child.selections import in_float64, watched  # noqa: E402

SOURCE = torch.tensor([[3.0, 1.0, 3.0, 2.0], [0.0, 5.0, 5.0, 5.0]])
LARGEST = torch.tensor([0, 1])


def test_an_index_of_an_equal_value_is_a_tie() -> None:
    """Another place of the largest is as right; a place of another value is not."""
    assert numerics.ties(torch.tensor([2, 3]), LARGEST, LARGEST, SOURCE).tolist() == [True, True]
    assert numerics.ties(torch.tensor([3, 3]), LARGEST, LARGEST, SOURCE).tolist() == [False, True]
    assert not numerics.ties(torch.tensor([4, 1]), LARGEST, LARGEST, SOURCE).all()


def test_no_place_is_named_twice() -> None:
    """Of the two largest, one place may not stand for both."""
    both = torch.tensor([[0, 2], [1, 2]])
    assert numerics.ties(torch.tensor([[2, 0], [3, 1]]), both, both, SOURCE).all()
    assert not numerics.ties(torch.tensor([[0, 0], [1, 2]]), both, both, SOURCE).all()


def test_a_mask_does_not_tell_what_an_index_selects() -> None:
    """All places of a mask are alike, so any index would be a tie; random values tell."""
    places = torch.randint(0, 64, (256,))
    assert not numerics.tells(places, torch.ones(256, 64))
    assert numerics.tells(places, torch.rand(256, 64))


@pytest.mark.parametrize(
    "select",
    [
        lambda x: x.argmax(-1),
        lambda x: x.argmax(-1).int() + 1,
        lambda x: x.topk(2, -1).indices,
        lambda x: x.flatten().argmax(),
        lambda x: x.sort(-1).indices,
    ],
)
def test_what_an_operator_took_is_seen(select: object) -> None:
    """Whatever is computed before, the tensor that indices select from is the one that the operator had."""
    x = torch.randn(8, 16)
    found = watched(lambda: {"place": select(torch.round(2 * x))})  # type: ignore[operator]
    assert torch.equal(found["source place"].reshape(-1), torch.round(2 * x).reshape(-1))


def test_a_stable_order_is_promised() -> None:
    """Where an operator was asked for a stable order, equal values give nobody another choice."""
    assert watched(lambda: {"place": torch.round(torch.randn(8, 16)).sort(dim=-1, stable=True).indices}) == {}


def test_a_rounded_number_is_no_index() -> None:
    """What an operator computes element by element selects nothing."""
    x = 10 * torch.rand(8, 16)
    assert watched(lambda: {"codes": x.round().to(torch.int64)}) == {}


def test_a_small_element_may_round_as_a_large_one_does() -> None:
    """Where 4 is added to an argument near 0.1, a step on whose other side it is rounded is found by one of the changes."""
    x, steps = torch.full((4, 16), -0.10000024), []
    for number in range(numerics.NUDGES):
        changed = torch.cat([x, torch.randn(4, 240)], -1)
        numerics.nudge([changed], number)
        steps.append(torch.floor((changed[:, :16] + 4) / 0.1))
    assert bool((torch.stack(steps) == 39).any(0).all())
    assert bool((torch.stack(steps) == 38).any(0).all())


def test_zeros_are_no_small_result() -> None:
    """Where all of a result is smaller than the absolute tolerance, it still has to be right in its first digit."""
    expected, zeros = {"out": 1e-6 * torch.randn(8, 16)}, {"out": torch.zeros(8, 16)}
    assert numerics.closeness(zeros, expected, 1e-3, 1e-5).wrong == "out"
    assert numerics.closeness({"out": expected["out"] + 1e-8}, expected, 1e-3, 1e-5).wrong == ""


def test_a_large_real_part_hides_no_imaginary_one() -> None:
    """Both parts of complex numbers are compared, and so is their precision."""
    x = torch.randn(8, 16)
    expected = {"z": torch.complex(x.abs() + 1000, torch.sin(x))}
    found = {"z": torch.complex(x.abs() + 1000, torch.zeros_like(x))}
    exact = {"z": expected["z"].to(torch.complex128)}
    assert numerics.closeness(found, expected, 1e-3, 1e-5, exact=exact).wrong == "z"
    assert numerics.closeness(expected, expected, 1e-3, 1e-5, exact=exact).wrong == ""
    assert numerics.is_less_precise(*numerics.precision_errors(found, expected, exact))


@pytest.mark.parametrize(
    "narrow",
    [
        lambda x: x.float() * 2,
        lambda x: (x.to(torch.bfloat16) @ x.half().mT).half(),
        lambda x: torch.softmax(x, -1, dtype=torch.float32),
        lambda x: torch.arange(4).float() + torch.ones(4) * torch.linspace(0, 1, 4),
        lambda x: torch.complex(x, x).to(torch.complex64).real,
    ],
)
def test_what_names_a_shorter_type_is_computed_in_float64(narrow: object) -> None:
    """A baseline that asks for float32 or half precision by name does it in float64 all the same."""
    with in_float64():
        assert narrow(torch.randn(4, 4)).dtype == torch.float64  # type: ignore[operator]
    assert torch.ones(1).dtype == torch.float32


def test_more_memory_than_there_is_is_refused_before_any_is_taken() -> None:
    """Inputs that the machine cannot hold are an error at once: the kernel would end some process first."""
    pages = new_pages()
    with pytest.raises(OSError, match="allocate memory"):
        HostMemory(pages, 1 << 50)
    assert os.fstat(pages).st_size == 0
    os.close(pages)


def test_other_random_numbers_are_another_function() -> None:
    """A result in float64 counts if it is nearly the baseline's own; rounding of a short type is no other function."""
    exact = {"out": torch.randn(64, 64, dtype=torch.float64), "places": torch.arange(3)}
    assert numerics.is_same_function({"out": exact["out"].bfloat16(), "places": torch.arange(3)}, exact)
    assert not numerics.is_same_function({"out": torch.randn(64, 64), "places": torch.arange(3)}, exact)


def test_changes_are_a_few_roundings() -> None:
    """Arguments change by 16 roundings of theirs and of their row's size, those of short types by one; integers stay."""
    for number in range(numerics.NUDGES):
        for dtype, most in ((torch.float32, 17), (torch.bfloat16, 2)):
            before, whole = torch.randn(1000).to(dtype), torch.arange(5)
            after = before.clone()
            numerics.nudge([after, whole], number)
            size = before.abs().double() + (before.double().square().mean().sqrt() if number not in (0, 2) else 0)
            assert bool(((after - before).abs().double() <= most * torch.finfo(dtype).eps * size).all())
            assert whole.tolist() == [0, 1, 2, 3, 4]
