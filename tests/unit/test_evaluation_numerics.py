"""How `ratchet evaluate` tells a tie, and a value on a border, from a wrong result."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ratchet.lab import numerics  # noqa: E402  after the skip
from ratchet.lab.child.selections import watched  # noqa: E402

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


def test_a_rounded_number_is_no_index() -> None:
    """What an operator computes element by element selects nothing."""
    x = 10 * torch.rand(8, 16)
    assert watched(lambda: {"codes": x.round().to(torch.int64)}) == {}


def test_changes_are_a_few_roundings() -> None:
    """Arguments stay what they are but for 16 roundings, those of short types but for one; integers stay."""
    for number in range(numerics.NUDGES):
        for dtype, most in ((torch.float32, 17), (torch.bfloat16, 2)):
            before, whole = torch.randn(1000).to(dtype), torch.arange(5)
            after = before.clone()
            numerics.nudge([after, whole], number)
            assert bool(((after - before).abs().double() <= most * torch.finfo(dtype).eps * before.abs().double()).all())
            assert whole.tolist() == [0, 1, 2, 3, 4]
