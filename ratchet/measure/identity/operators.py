"""Record the operators of torch that a call runs, and keep their results until it ends.

`capture.Recorder` runs a call so. Two things need it. Which free memory torch takes for a tensor depends on addresses, which
differ between processes: where nothing is freed, each address stands for one tensor. And torch's own kernels get arguments
in structures of which parts are never written, so their bytes differ from call to call: the operators say what they compute.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ratchet.measure.identity.launches import TensorAt, Unknown

MOST_HOST_BYTES = 1 << 20
"""A larger tensor in the host's memory is not compared."""


class Operators(TorchDispatchMode):
    """A context in which the operators of torch are recorded, also those that autograd runs in threads of its own."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its compiler (2 to 5 s in each process) to keep it from compiling the method below.
        return "torch._dynamo" in sys.modules

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's base class is not typed
        self.calls: list[list[Any]] = []
        """Name, arguments and result of each operator, as `described`."""
        self._results: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        before = [described(args), described(sorted(named.items()))]  # an operator in place changes its arguments
        result = func(*args, **named)
        self._results.append(result)
        self.calls.append([str(func), *before, described(result)])
        return result

    def held(self, call: Callable[[], object]) -> Callable[[], None]:
        """Return the call within this context; the results are let go when it is over."""

        def run() -> None:
            try:
                with self:
                    call()
            finally:
                self._results.clear()

        return run


def described(value: object) -> Any:
    """Return an argument of an operator as plain values, with a `TensorAt` for each tensor on the GPU."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [described(part) for part in value]
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided:
        facts = (list(value.shape), list(value.stride()), str(value.dtype))
        if value.device.type == "cuda":
            return TensorAt(value.data_ptr(), facts)
        if value.device.type == "cpu" and value.nbytes <= MOST_HOST_BYTES:
            content = value.detach().contiguous().reshape(-1).view(torch.uint8)
            return [*facts, hashlib.sha256(bytes(content.tolist())).hexdigest()]
    return Unknown(type(value).__name__)
