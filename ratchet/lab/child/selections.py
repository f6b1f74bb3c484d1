"""Find out what the indices among a function's results select, by the operators that gave them.

`child.runner` calls it for the baseline, whose results are right whatever they are: only it knows the values that it compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 16
"""Operators that are remembered, the last ones."""


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


class _Selections(TorchDispatchMode):
    """Remember the operators that give integers, other than element by element."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its compiler (1.6 s) to keep it from compiling the method below.
        return "torch._dynamo" in sys.modules

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
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
