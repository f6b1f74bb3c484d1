"""Compare results as numerics people do: values in place, ties of indices, and both errors against float64.

`lab.referee` calls it, in its own process, with plain tensors. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

FACTOR = 16.0
"""A result may be this many times as far from the float64 result as the baseline's is, in its row."""
SHORT_ROW = 16
"""Rows of fewer elements are taken together: in a few, the baseline's error can be nothing by chance."""
ULPS = 2
"""Results may differ by so many units in the last place of their type, where that is more than rtol."""
LESS_PRECISE, LEAST_EPS = 16.0, 64.0
"""A result is much less precise if its error against float64 is so many times the baseline's, and more than so many epsilons."""
LEAST_DIGIT = 0.1
"""An absolute tolerance of more than this share of a result's size would take zeros for it."""
RARE = 0.1
"""Largest share of other places with an equal value, of a tensor that tells what an index selects."""
NUDGES, STEPS, SHORT_BYTES = 20, 16, 4
"""Times that arguments are changed, by up to so many roundings; those of types of fewer bytes by one."""
LEAST_EPS_APART = 512.0
"""The same, where the baseline does not run in float64 (its distance from the baseline), or has no error at all."""

Results = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Closeness:
    """How far two results are apart."""

    largest: float = 0.0
    """The largest absolute difference of two elements that are no NaN or infinity."""
    wrong: str = ""
    """The first part that differs."""
    not_finite: bool = False
    """Whether only one of the two is NaN or infinite somewhere."""


def closeness(
    found: Results,
    expected: Results,
    rtol: float,
    atol: float,
    *,
    scaled: bool = False,
    exact: Results | None = None,
) -> Closeness:
    """Compare results that have the same places, types and shapes.

    ``scaled``: the absolute tolerance is at least rtol of a part's size. ``exact`` is the baseline's result in float64.
    """
    largest, wrong, not_finite = 0.0, "", False
    for place, value in expected.items():
        other = found[place]
        if torch.equal(other, value):
            continue
        is_number = value.dtype.is_floating_point or value.dtype.is_complex
        away, close = apart(other, value, rtol, max(atol, rtol * _rms(value)) if scaled and is_number else atol)
        if not bool(close.all()) and exact is not None and place in exact:
            close |= _no_further(other, value, exact[place]) if is_number else other == exact[place]
        largest = max(largest, away)
        if not bool(close.all()):
            wrong = wrong or place
            not_finite = not_finite or bool((other.isfinite() != value.isfinite()).any())
    return Closeness(largest, wrong, not_finite)


def apart(found: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> tuple[float, torch.Tensor]:
    """Return the largest difference, and which elements are close: as in allclose, with NaN and infinities in place.

    The absolute tolerance is at most a tenth of the size of all that is expected, if that is not zero.
    """
    if not expected.numel():
        return 0.0, torch.ones_like(expected, dtype=torch.bool)
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        away = (found.to(torch.float64) - expected.to(torch.float64)).abs()
        return float(away.max()), found == expected
    if expected.dtype.is_complex:  # part by part: a large real one hides nothing
        most, close = apart(torch.view_as_real(found), torch.view_as_real(expected), rtol, atol)
        return most, close.all(-1)
    atol = min(atol, max(LEAST_DIGIT, rtol) * _rms(expected) or atol)
    rtol = max(rtol, ULPS * torch.finfo(expected.dtype).eps)
    wide = torch.promote_types(expected.dtype, torch.float32)
    found, expected = found.to(wide), expected.to(wide)
    away, limit = (found - expected).abs(), expected.abs().mul_(rtol).add_(atol)
    close = away <= limit
    if math.isfinite(most := float(away.max())) and bool(close.all()):
        return most, close
    same = (found == expected) | (found.isnan() & expected.isnan())
    away = torch.where(same, torch.zeros_like(away), away)
    finite = away[away.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0, same | ((away <= limit) & limit.isfinite())


def _no_further(found: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return which elements are as near to the float64 result as the baseline's are in the same row, times a factor."""
    if exact.dtype.is_complex:
        close = _no_further(*(_real(side.to(exact.dtype)) for side in (found, expected, exact)))
        return close.view(*exact.shape, 2).all(-1)
    mine, own = ((side.to(exact.dtype) - exact).abs() for side in (found, expected))
    own = torch.where(own.isfinite(), own, torch.zeros_like(own))
    of_row = own.amax(-1, keepdim=True) if own.dim() > 1 and own.shape[-1] >= SHORT_ROW else own.max()
    return mine <= FACTOR * of_row


def ties(found: torch.Tensor, expected: torch.Tensor, chosen: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Return which indices select the same value of a tensor as the baseline's do, none of them twice.

    ``chosen`` are the baseline's as an operator gave them: ``expected`` may have another shape, and count from another number.
    """
    start = (expected.reshape(-1)[:1] - chosen.reshape(-1)[:1]).to(torch.int64)
    mine, own = (side.to(torch.int64).reshape(chosen.shape) - start for side in (found, expected))
    same = [found == expected]
    for values, (found_at, expected_at), dim in _selections(source, (mine, own)):
        is_tie = values.gather(dim, found_at) == values.gather(dim, expected_at)
        is_once = _repeats(found_at, dim) <= _repeats(expected_at, dim)
        same.append((is_tie & is_once).reshape(found.shape))
    return max(same, key=lambda each: int(each.sum()))  # along which dimension is not known, and not for each element another


def tells(chosen: torch.Tensor, source: torch.Tensor) -> bool:
    """Return whether the baseline's indices may be places in a tensor: other places have other values, nearly everywhere.

    In a mask they do not, whatever was selected by it.
    """
    for values, (places,), dim in _selections(source, (chosen.to(torch.int64),)):
        size = values.shape[dim]
        other = (places + torch.randint(1, max(size, 2), places.shape, device=places.device)) % size
        return float((values.gather(dim, places) == values.gather(dim, other)).double().mean()) < RARE
    return False


_Selection = tuple[torch.Tensor, list[torch.Tensor], int]


def _selections(source: torch.Tensor, indices: Sequence[torch.Tensor]) -> Iterator[_Selection]:
    """Yield the ways in which indices are places along one dimension: they have that one or not, or it is several as one."""
    with_dim = [(source, list(indices), dim) for dim in range(source.dim()) if indices[0].dim() == source.dim()]
    reduced = [(source, [one.unsqueeze(dim) for one in indices], dim) for dim in range(source.dim())]
    flat = [
        (source.flatten(first), [one.flatten(first) if one.dim() > first else one.unsqueeze(-1) for one in indices], first)
        for first in reversed(range(source.dim() - 1))
    ]
    is_plain = False
    for values, places, dim in (*with_dim, *reduced, *flat):
        if is_plain and values is not source:
            return  # counted through several dimensions only where one alone does not fit
        shapes = [[size for place, size in enumerate(one.shape) if place != dim] for one in (values, places[0])]
        is_within = all(one.numel() > 0 and int(one.min()) >= 0 and int(one.max()) < values.shape[dim] for one in places)
        if places[0].dim() == values.dim() and shapes[0] == shapes[1] and is_within:
            is_plain = True
            yield values, places, dim


def _repeats(indices: torch.Tensor, dim: int) -> torch.Tensor:
    ordered = indices.sort(dim).values
    return (ordered.diff(dim=dim) == 0).sum(dim, keepdim=True)


def nudge(tensors: Sequence[torch.Tensor], number: int) -> None:
    """Change arguments by a few roundings, in place: at first all up or all down, later each element by itself.

    Only the latter changes what is divided by its own size; it also counts roundings of the size of a row, in which a small
    element is lost where something is added to it.
    """
    for one in tensors:
        if one.dtype.is_floating_point:
            most = torch.finfo(one.dtype).eps * (STEPS if one.element_size() >= SHORT_BYTES else 1)
            if number in (0, 2):
                one.add_(one * ((1 - number) * most))
            else:
                wide = one.to(torch.promote_types(one.dtype, torch.float32)).nan_to_num(0, 0, 0)
                size = one.abs() + wide.square().mean(-1, keepdim=True).sqrt().to(one.dtype)
                one.add_(size.mul_(torch.rand_like(one).mul_(2).sub_(1)).mul_(most))


def precision_errors(
    found: Results, expected: Results, exact: Results | None, sources: Sequence[torch.Tensor] = ()
) -> tuple[float, float | None]:
    """Return both errors against float64, relative to the size of a part, in units of its type's epsilon.

    A Python number has the epsilon of the arguments: it is a float64 whatever it was computed in.

    Where the baseline does not compute in float64, its error is None and the other one is the distance from the baseline.
    """
    found, expected, exact = ({place: _real(one) for place, one in side.items()} for side in (found, expected, exact or {}))
    errors = [0.0, 0.0]
    least = min((torch.finfo(one.dtype).eps for one in sources if one.dtype.is_floating_point), default=0.0)
    for place, value in expected.items():
        if not value.dtype.is_floating_point or not value.numel():
            continue
        truth = exact.get(place, value).to(torch.float64)
        size, own = _rms(truth), torch.finfo(value.dtype).eps
        epsilon = max(least, own) if value.dtype == torch.float64 else own
        for number, side in enumerate((found[place], value)):
            off = _rms(side.to(torch.float64) - truth)
            if size and math.isfinite(off):
                errors[number] = max(errors[number], off / size / epsilon)
    return errors[0], errors[1] if exact else None


def is_same_function(expected: Results, exact: Results) -> bool:
    """Return whether results on random inputs are near those in float64: else it read other bytes, or drew other numbers."""
    for place, value in expected.items():
        if value.dtype.is_floating_point or value.dtype.is_complex:
            most = max(LEAST_DIGIT, LEAST_EPS * torch.finfo(value.dtype).eps)
            if _rms(value.to(exact[place].dtype) - exact[place]) > most * _rms(exact[place]):
                return False
    return True


def differ_in_numbers(found: Results, expected: Results) -> bool:
    """Return whether any numbers differ that are not whole: what float64 rounds less."""
    parts = ((found[place], value) for place, value in expected.items())
    return any((own.is_floating_point() or own.is_complex()) and not torch.equal(other, own) for other, own in parts)


def is_far(found: Results, expected: Results) -> bool:
    """Return whether results are so far apart that one of them may be much less precise: a quick look at every call."""
    for place, value in expected.items():
        if not (value.dtype.is_floating_point or value.dtype.is_complex) or torch.equal(found[place], value):
            continue
        size, off = (float(_real(side).float().norm()) for side in (value, found[place] - value))
        if not off <= LEAST_EPS * torch.finfo(value.dtype).eps * size:  # also where one of them is no number
            return True
    return False


def is_less_precise(error: float, own: float | None) -> bool:
    """Return whether an error is much larger than the baseline's or, where that is unknown or nothing, large by itself."""
    return error > LEAST_EPS_APART if not own else error > max(LESS_PRECISE * own, LEAST_EPS)


def _real(part: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as twice as many real ones in each row."""
    return torch.view_as_real(part).flatten(max(part.dim() - 1, 0)) if part.dtype.is_complex else part


def _rms(part: torch.Tensor) -> float:
    wide = part.abs().to(torch.float64)
    finite = wide[wide.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0
