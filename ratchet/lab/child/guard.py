"""Notice whether the code under evaluation has replaced what times it, checks it or reports it.

`child.evaluation` takes a `Guard` in the worker, before any file of the user is imported, and asks it again after each step.
It reads attributes, and changes nothing. Native code can write anywhere: this is for what Python can do (SECURITY.md).
"""

from __future__ import annotations

import builtins
import gc
import inspect
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from types import FunctionType, MappingProxyType, ModuleType
from typing import NamedTuple

import numpy as np
import torch
import torch.overrides
from torch.utils import _python_dispatch

_WHOLE = (time, statistics, json, builtins)
"""Modules of which every function counts."""
_NAMED: tuple[tuple[object, str], ...] = (
    (torch, "allclose isclose equal empty zeros empty_like randn from_dlpack initial_seed as_tensor"),
    (
        torch.cuda,
        "Event Stream CUDAGraph graph synchronize current_stream stream max_memory_allocated memory_allocated "
        "reset_peak_memory_stats empty_cache get_device_properties _sleep",
    ),
    (torch.cuda.Event, "record elapsed_time query synchronize"),
    (torch.cuda.Stream, "synchronize wait_stream wait_event record_event"),
    (
        torch.Tensor,
        "abs clone contiguous copy_ cpu data data_ptr detach double dtype equal fill_ is_contiguous item max nbytes norm numel "
        "numpy reshape shape square sum to tolist untyped_storage view zero_ __torch_function__",
    ),
    (np.ndarray, "tofile"),
    (os, "_exit fork read write sched_getaffinity"),
    (random, "Random"),
    (gc, "collect disable enable"),
)
_NEVER_HERE = tuple(
    f"ratchet.{package}" for package in ("adopt", "cli", "commands", "forge", "history", "judge", "profile", "report", "tune")
)
"""Packages that no worker calls: reading them in a process where they are imported too takes longer than the rest."""


class Guard:
    """The functions of the harness as they were at the start, and the names of those that have been replaced since."""

    def __init__(self) -> None:
        self._kept = [_Kept(*entry, _inner(entry[-1])) for entry in _entries()]
        self._modules = dict(_own_modules())
        self._tracers = _tracers()

    def replaced(self) -> str:
        """Return the first thing that is no longer what it was, as a clause; empty if all is."""
        for owner, name, place, value, inner in self._kept:
            if _member(owner, name) is not value:
                return f"{place}.{name} was replaced"
            if isinstance(value, FunctionType) and _inner(value) != inner:
                return f"{place}.{name} was replaced"
            if isinstance(value, dict) and not _same_table(value, inner):
                return f"{place}.{name} was changed"
        for module, kept in self._modules.items():
            if sys.modules.get(module) is not kept:
                return f"{module} was replaced"
        if _tracers() != self._tracers:
            return "a tracer of this process was left active"
        return next(_modes(), "")


_GONE = object()


class _Kept(NamedTuple):
    """A function, table or other value that has to stay."""

    owner: object
    """The module or class, or the table of its members, which takes less time to read."""
    name: str
    place: str
    """The name of the owner."""
    value: object
    inner: object
    """What is inside of a value that could be changed in place."""


def _same_table(table: dict[object, object], kept: object) -> bool:
    return isinstance(kept, dict) and table.keys() == kept.keys() and all(table[key] is kept[key] for key in table)


def _member(owner: object, name: str) -> object:
    return owner.get(name, _GONE) if isinstance(owner, dict | MappingProxyType) else inspect.getattr_static(owner, name, _GONE)


def _entries() -> Iterator[tuple[object, str, str, object]]:
    """Yield owner, name, the owner's name and the value of everything that counts."""
    for module in _WHOLE:
        yield from _of(module.__name__, vars(module), functions_only=True)
    for owner, names in _NAMED:
        for name in names.split():
            yield owner, name, _called(owner), _member(owner, name)
    for name, own in _own_modules():
        yield from _of(name, vars(own), functions_only=False)


def _own_modules() -> Iterator[tuple[str, ModuleType]]:
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == "ratchet" and isinstance(module, ModuleType) and not name.startswith(_NEVER_HERE):
            yield name, module


def _of(place: str, members: dict[str, object], *, functions_only: bool) -> Iterator[tuple[object, str, str, object]]:
    for name, value in list(members.items()):
        if name.startswith("__") or isinstance(value, ModuleType) or (functions_only and not callable(value)):
            continue
        yield members, name, place, value
        if isinstance(value, type) and value.__module__.partition(".")[0] == "ratchet" and not functions_only:
            for inner, member in list(vars(value).items()):
                if isinstance(member, FunctionType):
                    yield vars(value), inner, f"{place}.{name}", member


def _inner(value: object) -> object:
    """Return what a function or a table consists of."""
    if isinstance(value, FunctionType):
        return (value.__code__, value.__defaults__)
    return dict(value) if isinstance(value, dict) else None


def _called(owner: object) -> str:
    if isinstance(owner, ModuleType):
        return owner.__name__
    return f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', owner)}"


def _modes() -> Iterator[str]:
    """Yield what intercepts calls without replacing a function: torch's modes."""
    if _python_dispatch._len_torch_dispatch_stack():  # type: ignore[attr-defined]  # torch does not list it, and uses it
        yield "a dispatch mode of torch was left active"
    modes = torch.overrides._get_current_function_mode_stack()
    if any(type(mode).__name__ != "DeviceContext" for mode in modes):  # that is what torch.set_default_device leaves
        yield "a function mode of torch was left active"


def _tracers() -> tuple[object, ...]:
    return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()
