"""Ask a function by the operators that it calls: what its indices select, and what it gives in float64.

`child.runner` calls it for the baseline, whose results are right whatever they are: only it knows the values that it compared.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 16
"""Operators that are remembered, the last ones."""
WIDE = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}
"""A type → the one of float64 that takes its place."""


def watched(call: Callable[[], Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return ``chosen PLACE`` and ``source PLACE`` of results that are indices: as an operator gave them, and what it took."""
    with _Selections() as seen:
        results = call()
    found: dict[str, torch.Tensor] = {}
    for place, value in results.items():
        for chosen, source in reversed(seen.pairs):
            if value.dtype in (torch.int64, torch.int32) and _counts(value, chosen):
                found |= {f"chosen {place}": chosen, f"source {place}": source}
                break
    return found


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Let operators make float64, also where they are asked for a shorter type by name."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64():
            yield
    finally:
        torch.set_default_dtype(before)


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its compiler (1.6 s) to keep it from compiling the methods below.
        return "torch._dynamo" in sys.modules

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types


class _Float64(_Mode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = _pytree.tree_map_only(torch.dtype, lambda one: WIDE.get(one, one), (args, kwargs or {}))
        return func(*args, **kwargs)


class _Selections(_Mode):
    """Remember the operators that give integers, other than element by element."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        source = args[0] if args else None
        is_bound = bool(kwargs and kwargs.get("stable"))  # the operator promises the order of equal values
        if not isinstance(source, torch.Tensor) or is_bound or torch.Tag.pointwise in func.tags:
            return results
        for one in results if isinstance(results, tuple | list) else (results,):
            is_new = isinstance(one, torch.Tensor) and one.untyped_storage() is not source.untyped_storage()
            if is_new and one.dtype == torch.int64 and not torch.equal(one, source.to(torch.int64)):  # no change of type
                self.pairs = [*self.pairs[1 - MOST :], (one.clone(), source.clone())]
        return results


def _counts(value: torch.Tensor, chosen: torch.Tensor) -> bool:
    """Return whether a result has these indices, perhaps counted from another number."""
    if value.numel() != chosen.numel() or not value.numel():
        return False
    away = value.reshape(-1) - chosen.reshape(-1)
    return bool((away == away[0]).all())
