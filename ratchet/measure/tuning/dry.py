"""Compile what a call would launch, and launch nothing: for processes that compile while another is being timed.

Triton's kernels are compiled into its cache on disk and loaded (which finds those that want more shared memory or registers
than there are); of CUDA C++, `ratchet.nvcc` fills its own cache. Whoever is timed later finds both there. A call that launches
anything else on the GPU is found out by capturing it: the graph of a dry call is empty.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import ratchet.nvcc


class _Compiled(BaseException):
    """Thrown in place of the first launch. No Exception, so that an author's ``except Exception`` does not take it for one."""


class _Function:
    """Stands for a function of a compiled library. Its attributes may be set, as of a ctypes function."""

    def __call__(self, *_: object) -> NoReturn:
        raise _Compiled


class _Library:
    """Stands for a library that was compiled and not loaded."""

    def __getattr__(self, name: str) -> _Function:
        made = _Function()
        setattr(self, name, made)
        return made


class Dry:
    """Makes this process compile only. There is no way back: fork a process for it."""

    def __init__(self) -> None:
        self.compiled = 0
        """How many kernels were asked for so far: of none, nothing is known."""
        self._knows_triton = False
        self._stand_in_for_nvcc()

    def __call__(self, call: Callable[[], object]) -> None:
        """Go through a call up to its first launch. Raises what compiling raises."""
        if "triton" in sys.modules and not self._knows_triton:
            self._stand_in_for_triton()
        with contextlib.suppress(_Compiled):
            call()

    def launches_nothing(self, call: Callable[[], object]) -> bool:
        """Whether a dry call leaves the GPU alone; also False where that cannot be told. Compile it first."""
        import torch

        if not self.compiled:
            return False
        torch.cuda.synchronize()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with warnings.catch_warnings(record=True) as told, torch.cuda.stream(stream):
            warnings.simplefilter("always")
            try:
                graph.capture_begin()
                self(call)
                graph.capture_end()
            except (Exception, SystemExit):  # noqa: BLE001  what cannot be captured does something on the GPU
                return False
        return any("graph is empty" in str(warning.message).lower() for warning in told)

    def _stand_in_for_nvcc(self) -> None:
        build = ratchet.nvcc.build

        @functools.wraps(ratchet.nvcc.load)
        def load(*arguments: Any, **options: Any) -> _Library:
            build(*arguments, **options)
            self.compiled += 1
            return _Library()

        ratchet.nvcc.load = load  # type: ignore[assignment]

    def _stand_in_for_triton(self) -> None:
        from triton.runtime.jit import JITFunction

        compile_and_launch = JITFunction.run

        def run(function: Any, *arguments: Any, **options: Any) -> Any:
            kernel = compile_and_launch(function, *arguments, **(options | {"warmup": True}))
            self.compiled += 1
            kernel.run  # noqa: B018  loads it: the launcher is compiled, and a lack of resources raised, as before a launch
            return kernel

        JITFunction.run = run
        self._knows_triton = True
