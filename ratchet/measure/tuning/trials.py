"""The worker's part: one case built once, its configurations tried one after another against the same reference."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.measure import correctness
from ratchet.measure.tuning.dry import Dry
from ratchet.measure.tuning.endings import ending_of, reason_of
from ratchet.workload import Workload


class Trials:
    """A case, at several places in memory, with what it should compute."""

    def __init__(self, workloads: tuple[Workload, ...]) -> None:
        self.workloads = workloads
        self._expected = correctness.tensors(workloads[0].reference())

    def tuned(self, configuration: Mapping[str, Any]) -> tuple[Workload, ...]:
        """The case at every place, with other values of its parameters."""
        return tuple(dataclasses.replace(each, tuning=dict(configuration), constraints=()) for each in self.workloads)

    def check(self, workload: Workload) -> tuple[float, float]:
        """Compile and run it, and compare with the reference: the relative error, and the seconds of the first call.

        Raises WrongResult, and whatever compiling and running raise.
        """
        began = time.perf_counter()
        workload.run(**workload.tuning)
        _settle()
        first_s = time.perf_counter() - began
        return correctness.check(workload, self._expected), first_s


class Compiler:
    """A case in a process that compiles its configurations and launches nothing."""

    def __init__(self, build: Callable[[], Workload]) -> None:
        self._dry = Dry()
        self._workload = build()

    def compile(self, configuration: Mapping[str, Any] | None, *, verify: bool) -> dict[str, Any]:
        """How that ended, and with ``verify`` whether it left the GPU alone. None: nothing yet, the case was only to be built."""
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
