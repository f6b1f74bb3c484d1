"""Try configurations of a case in a worker: compile without launching, run and check, and say how each one ended.

Processes that compile while another is being timed must launch nothing. Triton's kernels are compiled into its cache on disk and
loaded, which finds those that want more shared memory or registers than there are; for CUDA C++, `ratchet.nvcc` fills its own
cache. The process that is timed later finds both there. A call that launches anything else on the GPU is detected by capturing
it: the graph of a dry call is empty. `child.worker` uses `Trials` to check and time, `Compiler` to compile ahead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import torch

import ratchet.nvcc
from ratchet.core.bench.child import correctness
from ratchet.core.bench.child.calls import TimedCall, forget_compiled
from ratchet.core.bench.child.correctness import WrongResult
from ratchet.core.bench.messages import DECLARATION
from ratchet.core.errors import RatchetError
from ratchet.core.untrusted import clean
from ratchet.core.workload import Parameter, SpaceError, Workload, constraint_text
from ratchet.tune.records import Ending

if TYPE_CHECKING:
    from ratchet.core.bench.child.worker import Worker

_COMPILE = {"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError", "CudaBuildError"}
_RESOURCES = {"OutOfResources", "OutOfMemoryError"}
_NOT_ENOUGH = re.compile(r"out of (resource|memory)|too many resources|OUT_OF_RESOURCES|exceeds? .*shared memory", re.IGNORECASE)
_NOT_LAUNCHED = re.compile(r"invalid (configuration|argument)|cudaErrorInvalid(Configuration|Value)", re.IGNORECASE)


def ending_of(error: BaseException) -> Ending:
    """Classify an error by the names of its classes, since Triton may not be installed; then by its text."""
    names = {each.__name__ for each in type(error).__mro__}
    text = str(error)
    if isinstance(error, WrongResult):
        return "wrong"
    if names & _RESOURCES or _NOT_ENOUGH.search(text) or _NOT_LAUNCHED.search(text):
        return "resources"
    if names & _COMPILE or "PassManager::run failed" in text:
        return "compile"
    return "crash"


def reason_of(error: BaseException) -> str:
    """Return one line about an error. The last line says most: a compiler's own words come after the source that it quotes."""
    if isinstance(error, WrongResult):
        return clean(f"wrong result: {error}")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else "no reason given"
    return clean(said if type(error).__name__ == "CudaBuildError" else f"{type(error).__name__}: {said}")


class _Compiled(BaseException):
    """The end of a dry call, raised in place of the first launch.

    Not an Exception, so that an author's ``except Exception`` does not catch it.
    """


class _Function:
    """A stand-in for a function of a compiled library. Its attributes can be set, like those of a ctypes function."""

    def __call__(self, *_: object) -> NoReturn:
        raise _Compiled


class _Library:
    """A stand-in for a library that was compiled and not loaded."""

    def __getattr__(self, name: str) -> _Function:
        made = _Function()
        setattr(self, name, made)
        return made


class CompileOnly:
    """A mode in which this process only compiles: it replaces ``ratchet.nvcc.load`` and Triton's launch.

    There is no way back: fork a process for it.
    """

    def __init__(self) -> None:
        self.compiled = 0
        """Number of kernels that were compiled so far; while it is 0, it is unknown whether a dry call launches anything."""
        self._knows_triton = False
        self._stand_in_for_nvcc()

    def __call__(self, call: Callable[[], object]) -> None:
        """Go through a call up to its first launch. Raises whatever compiling raises."""
        if "triton" in sys.modules and not self._knows_triton:
            self._stand_in_for_triton()
        with contextlib.suppress(_Compiled):
            call()

    def launches_nothing(self, call: Callable[[], object]) -> bool:
        """Return whether a dry call leaves the GPU alone; False also where that is unknown. Compile it first."""
        import torch

        if not self.compiled:
            return False
        torch.cuda.synchronize()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with warnings.catch_warnings(record=True) as caught, torch.cuda.stream(stream):
            warnings.simplefilter("always")
            try:
                graph.capture_begin()
                self(call)
                graph.capture_end()
            except (Exception, SystemExit):  # noqa: BLE001  what cannot be captured does something on the GPU
                return False
        return any("graph is empty" in str(warning.message).lower() for warning in caught)

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


class Trials:
    """A case that is built once, at several places in memory, and its expected result: that of the reference.

    Without a reference, it is that of the workload's own tuning.
    """

    def __init__(self, workloads: tuple[Workload, ...]) -> None:
        self._calls = tuple(map(TimedCall, workloads))
        self._expected = correctness.expected_of(self._calls[0])

    def tuned(self, configuration: Mapping[str, Any]) -> tuple[TimedCall, ...]:
        """Return the case at every place, with other values of its parameters."""
        return tuple(each.tuned(configuration) for each in self._calls)

    def check(self, call: TimedCall) -> tuple[float, float]:
        """Compile and run it, and compare with what is expected. Returns the relative error and the seconds of the first call.

        Raises WrongResult, and whatever compiling and running raise.
        """
        began = time.perf_counter()
        call()
        _settle()
        first_s = time.perf_counter() - began
        return correctness.check(call, self._expected).error, first_s


class Compiler:
    """A case in a process that compiles its configurations and launches nothing."""

    def __init__(self, build: Callable[[], Workload]) -> None:
        self._dry = CompileOnly()
        self._workload = build()

    def compile(self, configuration: Mapping[str, Any] | None, *, verify: bool) -> dict[str, Any]:
        """Compile a configuration (None: none yet); with ``verify``, find out whether that left the GPU alone."""
        if configuration is None:
            return {"ending": "correct", "compile_s": 0.0, "dry": True}
        workload = dataclasses.replace(self._workload, tuning=dict(configuration), constraints=())
        run, tuning = workload.run, dict(workload.tuning)
        began = time.perf_counter()
        ending, reason = "correct", ""
        try:
            self._dry(lambda: run(**tuning))
        except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything; it costs this configuration
            ending, reason = ending_of(error), reason_of(error)
        compile_s = time.perf_counter() - began
        dry = ending == "correct" and self._dry.launches_nothing(lambda: run(**tuning)) if verify else True
        return {"ending": ending, "reason": reason, "compile_s": compile_s, "dry": dry}


def _settle() -> None:
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


# What a worker answers


def _answer_space(
    worker: Worker, case: str, seed: int, clock: str, cache: Literal["cold", "warm"], enumerator: str, codes: str
) -> dict[str, Any]:
    """Return the search space of a case. Its constraints are the author's code, so the space is enumerated in this process.

    ``enumerator`` (``module:function``) does that and writes to the file ``codes``; nothing is enumerated if it is empty.
    """
    worker.begin(case)
    try:
        workload = worker.tree.build(case, seed)
    except SpaceError as error:
        return {"stage": DECLARATION, "trouble": str(error)[:300], "last_lines": []}
    clock = worker.clock_of(workload, clock, {})
    enumerated: dict[str, Any] = {}
    if workload.tune and enumerator:
        module, _, function = enumerator.partition(":")
        try:
            enumerated = getattr(importlib.import_module(module), function)(workload, Path(codes))
        except RatchetError as error:
            enumerated = {"error": error.message, "hint": error.hint}
    state = cache if clock == "event" else "cold" if clock == "cold-graph" else "warm"  # the others have no choice
    return {
        "workload": worker.identity_of(case, workload, workload.dtype or "unknown", clock, state),
        "space": {name: list(values) for name, values in workload.tune.items()},
        "constraints": [constraint_text(constraint) for constraint in workload.constraints],
        "default": dict(workload.tuning),
        "foreign": worker.tree.provenance.foreign(),
        **enumerated,
    }


def _answer_open(worker: Worker, case: str, seed: int, placements: int) -> dict[str, Any]:
    """Build a case whose configurations will be tried."""
    worker.release()
    worker.begin(case)
    first = worker.tree.build(case, seed)
    held = int(torch.cuda.memory_allocated()) if worker.device.type == "cuda" else 0
    more = [worker.tree.build(case, seed) for _ in range(1, worker.places_for(placements, held))]
    worker.kept["trials"] = Trials((first, *more))
    worker.forget_memory()
    return {"ready": True}


def _answer_try(worker: Worker, tuning: dict[str, Parameter], clock: str, cache: Literal["cold", "warm"]) -> dict[str, Any]:
    """Compile and check a configuration of the open case; ``block`` then times it."""
    worker.release()
    gc.freeze()  # kernels stay: among a thousand of them the collector takes longer than timing, for each configuration
    trials: Trials | None = worker.kept.get("trials")
    if trials is None:
        raise RuntimeError("no case is open")
    forget_compiled(in_parallel=True)  # after eight versions of a function torch would run it uncompiled
    try:
        calls = trials.tuned(tuning)
        error, first_s = trials.check(calls[0])
        taken_up = worker.take_up("", tuning, calls, worker.clock_of(calls[0].workload, clock, {}), cache)
        call_ms = sorted(taken_up.take(3).times_ms)[1]
    except (Exception, SystemExit) as error:  # noqa: BLE001  as in `answer`, but it costs this configuration only
        return {"ending": ending_of(error), "reason": reason_of(error)}
    return {"ending": "correct", "error": error, "first_s": first_s, "call_ms": call_ms}


def _answer_compile(worker: Worker, case: str, seed: int, tuning: dict[str, Parameter] | None, *, verify: bool) -> dict[str, Any]:
    """Compile a configuration and launch nothing. Afterwards this worker can only compile: `CompileOnly` has no way back."""
    compiler: Compiler | None = worker.kept.get("compiler")
    if compiler is None:
        worker.begin(case)
        compiler = worker.kept["compiler"] = Compiler(lambda: worker.tree.build(case, seed))
    return compiler.compile(tuning, verify=verify)


OPERATIONS = {"space": _answer_space, "open": _answer_open, "try": _answer_try, "compile": _answer_compile}
"""Requests of a search (`ratchet.tools`)."""
