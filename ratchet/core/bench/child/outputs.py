"""Take a result apart into tensors and values, each with its place, and reduce it to a few numbers that processes can compare.

A sketch of a tensor is short and says how far two tensors are apart, so that the tensors never leave their processes. It runs on
the device of each tensor.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import math
import pathlib
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ratchet.core.untrusted import clean
from ratchet.core.workload import dtype_name

MOST_PARTS = 4096
"""Most parts of one result."""
DEEPEST = 64
"""Most levels of tuples, dicts and the like within each other."""
JOINED = 64
"""A list of more numbers than this is one part."""
SKETCH = 61
"""Numbers in a sketch. Prime, so that every column of a matrix whose width is a round number is spread over all of them."""
_SLICE = SKETCH << 14
"""Elements at a time, about a million: it bounds the memory of float64 copies."""

_NUMBERS = frozenset({bool, int, float})
_TEXTS = frozenset({bool, int, str, bytes, type(None)})
_VALUES = (
    bool, int, str, bytes, type(None), tuple, range, fractions.Fraction, decimal.Decimal, datetime.date, datetime.time,
    datetime.timedelta, pathlib.PurePath, enum.Enum, torch.dtype, torch.device,
)  # fmt: skip
"""Types whose repr() is the whole value and the same in every process."""


@dataclass(frozen=True)
class Value:
    """A part that is no tensor: it is compared by equality."""

    value: object


Part = torch.Tensor | Value


def parts(tree: object, what: str = "output") -> dict[str, Part]:
    """Return place → part: ``the output`` for a single one, ``output [1]``, ``output ['loss']``, ``output .state.mean`` …

    Tensors come without their gradient and share memory with the original. NumPy arrays and floating-point numbers become
    tensors. A tuple or list of one element is that element. Raises TypeError, naming the place, for what cannot be compared, and
    for a tree that is cyclic or too large.
    """
    return {place: part(node, place) for place, node in leaves(tree, what)}


def leaves(tree: object, what: str) -> Iterator[tuple[str, object]]:
    """Yield the place and the object of each leaf of a tree of tuples, lists, dicts, dataclasses, modules and optimizers."""
    while isinstance(tree, tuple | list) and len(tree) == 1 and tree[0] is not tree:
        tree = tree[0]
    seen: set[str] = set()
    for path, node in _leaves(tree, what, "", ()):
        place = clean(f"{what} {path}" if path else f"the {what}")
        if place in seen:
            raise TypeError(f"two parts of the {what} are called {place}: give their keys names that differ")
        if len(seen) == MOST_PARTS:
            raise TypeError(f"the {what} has more than {MOST_PARTS} parts: join them, or return only what is to be checked")
        seen.add(place)
        yield place, node


def _leaves(node: object, what: str, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, object]]:
    children = _children(node)
    if children is None:
        yield path, node
        return
    if id(node) in above or len(above) == DEEPEST:
        how = "holds itself" if id(node) in above else f"is nested more than {DEEPEST} levels deep"
        raise TypeError(f"{what} {path[:60]} {how}: return a flat tuple or dict of tensors")
    for step, child in children:
        yield from _leaves(child, what, path + step, (*above, id(node)))


def _children(node: object) -> Iterable[tuple[str, object]] | None:
    """Return step and object of each child; None for a leaf. An empty container is a leaf, since its presence is compared."""
    items: Iterable[object] = ()
    if isinstance(node, torch.nn.Module):
        return [(f".{name}", each) for name, each in (*node.named_parameters(), *node.named_buffers())]
    if isinstance(node, torch.optim.Optimizer):
        states = (node.state.get(each, {}) for group in node.param_groups for each in group["params"])
        held = ((index, key, each) for index, state in enumerate(states) for key, each in state.items())
        return [(f"[{index}][{key!r}]", each) for index, key, each in held if isinstance(each, torch.Tensor)]
    if isinstance(node, Mapping):
        return [(f"[{repr(key)[:60]}]", each) for key, each in node.items()] or None
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return [(f".{field.name}", getattr(node, field.name)) for field in dataclasses.fields(node)]
    if isinstance(node, set | frozenset):
        items = sorted(node, key=repr)
    elif isinstance(node, np.ndarray) and node.dtype.kind not in "biufc":  # texts, dates, objects
        items = node.reshape(-1).tolist()
    elif isinstance(node, tuple | list) and not (len(node) > JOINED and _joined(node)):
        items = node
    return [(f"[{index}]", each) for index, each in enumerate(items)] or None


def _joined(items: tuple[object, ...] | list[object]) -> bool:
    types = set(map(type, items))
    return types <= _NUMBERS or types <= _TEXTS


def is_on_host(result: object) -> bool:
    """Return whether a result has arrays, and none of them is on a GPU."""
    arrays = [leaf for _, leaf in _leaves(result, "result", "", ()) if isinstance(leaf, torch.Tensor | np.ndarray)]
    return bool(arrays) and not any(isinstance(array, torch.Tensor) and array.is_cuda for array in arrays)


def part(node: object, place: str) -> Part:
    """Return one leaf as a tensor or a value. Raises TypeError for what cannot be compared."""
    if isinstance(node, np.generic) and node.dtype.kind not in "biufc":
        return Value(node.item())
    if isinstance(node, torch.Tensor | np.ndarray | np.generic):
        return tensor(node, place)
    if isinstance(node, float | complex):
        return torch.tensor(node, dtype=torch.complex128 if isinstance(node, complex) else torch.float64)
    if isinstance(node, tuple | list):  # of many numbers or texts, or empty
        return torch.tensor(node, dtype=torch.float64) if float in set(map(type, node)) else Value(tuple(node))
    if isinstance(node, Iterator | Awaitable):
        raise TypeError(f"{place} is a {type(node).__name__}, whose work is not done yet: return its result, such as list(…)")
    if node is None or isinstance(node, Mapping) or type(node).__eq__ is not object.__eq__:
        return Value({} if isinstance(node, Mapping) else node)
    raise TypeError(f"{place} is a {type(node).__name__}, which cannot be compared: return its tensors, arrays or numbers")


def tensor(node: torch.Tensor | np.ndarray[Any, Any] | np.generic, place: str) -> torch.Tensor:
    """Return a tensor without gradient that shares memory with a tensor or, where torch can, with an array. Raises TypeError."""
    if isinstance(node, torch.Tensor):
        if node.is_quantized:
            raise TypeError(f"{place} is a quantised tensor: return its .int_repr(), which is exact, or its .dequantize()")
        if node.layout != torch.strided or node.is_nested or node.is_meta:
            raise TypeError(f"{place} is a tensor that is not stored element by element: return its .to_dense() or its parts")
        return node.detach()
    array = np.asarray(node)
    if array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):  # long double
        array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    shared = array.flags.writeable and array.dtype.isnative and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def kind(part: Part) -> str:
    """Return the dtype of a tensor, or the type of a value."""
    return dtype_name(part.dtype) if isinstance(part, torch.Tensor) else type(part.value).__name__


def signature(part: Part) -> str:
    """Return the kind of a part and, of a tensor, its shape: ``float32 (3, 4)``."""
    return f"{kind(part)} {tuple(part.shape)}" if isinstance(part, torch.Tensor) else kind(part)


def fill(found: Mapping[str, Part], value: float) -> None:
    """Fill the tensors with a number; NaN stands for the largest integer, or True. Expanded views are left alone."""
    for out in found.values():
        if not isinstance(out, torch.Tensor) or is_expanded(out):
            continue
        number: float | int | bool = value
        if math.isnan(value) and not (out.dtype.is_floating_point or out.dtype.is_complex):
            number = True if out.dtype == torch.bool else torch.iinfo(out.dtype).max
        with torch.inference_mode():  # only here may results of inference mode be changed, and all others may be, too
            out.fill_(number)


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Return where a tensor of numbers holds what `fill` puts there for NaN."""
    floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return tensor.isnan() if floating else tensor == torch.iinfo(tensor.dtype).max


def is_expanded(tensor: torch.Tensor) -> bool:
    """Return whether several elements are one place in memory."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


def sketch(out: torch.Tensor) -> tuple[float, list[float]]:
    """Return the norm of a tensor and its sketch; both hold NaN or infinity if the tensor does.

    Each element is added to one of `SKETCH` sums with a sign that a hash of its index draws. The sketch of a difference is the
    difference of the sketches, and its norm estimates that of the difference without bias, to about 10 % (the count sketch of
    M. Charikar, K. Chen and M. Farach-Colton 2002; K. Weinberger et al. 2009). A single wrong element shows in full.
    """
    flat = (torch.view_as_real(out.resolve_conj()) if out.is_complex() else out).reshape(-1)
    sums = torch.zeros(SKETCH, dtype=torch.float64, device=out.device)
    squares = torch.zeros((), dtype=torch.float64, device=out.device)
    for start in range(0, flat.numel(), _SLICE):
        values = flat[start : start + _SLICE].to(torch.float64)
        signed = values * ((index_hash(start, len(values), out.device) >> 33 & 1) * 2 - 1)
        sums += torch.nn.functional.pad(signed, (0, -len(values) % SKETCH)).reshape(-1, SKETCH).sum(0)
        squares += values.square().sum()
    return math.sqrt(squares.item()), sums.tolist()


def digest(part: Part, place: str) -> str:
    """Return a digest of an exact part. Raises TypeError for a value whose text two processes cannot compare."""
    if isinstance(part, torch.Tensor):
        return f"{_checksum(part):016x}"
    if not isinstance(part.value, (*_VALUES, dict)):
        raise TypeError(
            f"{place} is a {type(part.value).__name__}, which two processes cannot compare: return tensors, arrays, numbers or "
            "text, or give the workload a reference= that computes what is expected"
        )
    if part.value != part.value:
        raise ArithmeticError(f"{place} holds NaN or infinity")
    return hashlib.sha256(repr(part.value).encode("utf-8", "surrogateescape")).hexdigest()


def _checksum(out: torch.Tensor) -> int:
    """Return the sum of all elements, each times an odd number of its own, modulo 2⁶⁴: the order of summation does not matter."""
    if out.dtype.is_floating_point or out.dtype.is_complex:
        out = out.resolve_conj().resolve_neg().contiguous()
        out = out.as_strided((out.numel(),), (1,)).view(torch.uint8)  # a single element may have any stride
    elif out.dtype == torch.uint64:
        out = out.contiguous().view(torch.int64)
    flat = out.reshape(-1)
    total = torch.zeros((), dtype=torch.int64, device=out.device)
    for start in range(0, flat.numel(), _SLICE):
        values = flat[start : start + _SLICE].to(torch.int64)
        total += (values * (index_hash(start, len(values), out.device) | 1)).sum()
    return int(total.item()) % 2**64


def index_hash(start: int, count: int, device: torch.device) -> torch.Tensor:
    """Return pseudo-random 64-bit numbers, one for each index from ``start`` on, the same in every process (after splitmix64)."""
    mixed = torch.arange(start + 1, start + count + 1, dtype=torch.int64, device=device) * -0x61C8864680B583EB
    mixed = (mixed ^ (mixed >> 30)) * -0x40A7B892E31B1A47
    mixed = (mixed ^ (mixed >> 27)) * -0x6B2FB644ECCEEE15
    return mixed ^ (mixed >> 31)
