"""Judge whether a GPU can give a trustworthy time now, and whether it did while a case was measured.

Every answer says what to do. `inspect` asks the GPU itself; the rest is pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ratchet.core import units
from ratchet.core.device.gpu import ComputeProcess, Gpu
from ratchet.core.records.environment import Telemetry

BUSY = 0.05
"""Share of time in which kernels of others ran, above which a GPU is not ours alone."""


@dataclass(frozen=True)
class Condition:
    """The state of a GPU before we use it. None where the GPU does not say."""

    gpu_index: int
    processes: tuple[ComputeProcess, ...] = ()
    utilization: float | None = None
    slowdown: tuple[str, ...] = ()
    uncorrected_ecc: int | None = None


def inspect(gpu: Gpu, pause: Callable[[float], None] = time.sleep) -> Condition:
    """Look at the GPU, before any process of ours uses it.

    A GPU that seems busy is asked three times over a second, because utilization is an average that still holds work which has
    just ended.
    """
    utilization = gpu.utilization()
    for _ in range(2):
        if utilization is not None and utilization > BUSY:
            pause(0.5)
            later = gpu.utilization()
            utilization = utilization if later is None else min(utilization, later)
    return Condition(
        gpu_index=gpu.index,
        processes=tuple(gpu.compute_processes()),
        utilization=utilization,
        slowdown=gpu.reading().slowdown,
        uncorrected_ecc=gpu.uncorrected_ecc(),
    )


def problems_before(condition: Condition) -> list[str]:
    """Return the reasons why nothing should be measured now, one sentence each; empty where the GPU is fit."""
    gpu = f"GPU {condition.gpu_index}"
    problems = []
    if _in_use(condition):
        problems += [
            f"PID {process.pid} is computing on {gpu}{_uses(process)}; wait for it or choose another GPU with --gpu."
            for process in condition.processes
        ]
        if not condition.processes:
            problems.append(
                f"{gpu} is {units.percent(condition.utilization or 0)} busy though no process is listed (another container, "
                "perhaps); wait for it or choose another GPU with --gpu."
            )
    if condition.slowdown:
        problems.append(
            f"{gpu} is slowed down now ({', '.join(condition.slowdown)}); let it cool and look at its cooling and power supply."
        )
    if condition.uncorrected_ecc:
        problems.append(
            f"{gpu} has had {condition.uncorrected_ecc} uncorrected memory errors (ECC) since the driver was loaded; "
            "reset it, or choose another GPU with --gpu."
        )
    return problems


def warnings_before(condition: Condition) -> list[str]:
    """Return notes that stop nothing, one sentence each: processes that hold the GPU and compute nothing."""
    if _in_use(condition):
        return []
    return [
        f"PID {process.pid} is idle on GPU {condition.gpu_index}{_uses(process)}; times are valid only while it stays idle."
        for process in condition.processes
    ]


def _in_use(condition: Condition) -> bool:
    if condition.utilization is None:
        return bool(condition.processes)
    return condition.utilization > BUSY


def _uses(process: ComputeProcess) -> str:
    return "" if process.used_memory_bytes is None else f" (uses {units.size(process.used_memory_bytes)})"


def problem_during(
    telemetry: Telemetry | None, dropped_blocks: int, blocks: int, ecc_before: int | None, ecc_after: int | None
) -> str | None:
    """Return why the times of one case cannot be trusted, in one sentence, or None.

    ``telemetry`` is None on a CPU. ``ecc_before`` and ``ecc_after`` are counts of uncorrected errors. Too many dropped
    blocks are more than half of all.
    """
    if ecc_before is not None and ecc_after is not None and ecc_after > ecc_before:
        return (
            f"The GPU met {ecc_after - ecc_before} new uncorrected memory errors (ECC) during this case; "
            "reset it, or choose another GPU with --gpu."
        )
    if telemetry is not None and telemetry.foreign_processes > 0:
        who = "another process was" if telemetry.foreign_processes == 1 else f"{telemetry.foreign_processes} other processes were"
        return f"During this case {who} computing on the GPU; measure again when it is free, or choose another with --gpu."
    if dropped_blocks * 2 > blocks:
        reasons = ", ".join(telemetry.slowdown_reasons) if telemetry is not None else ""
        because = f" ({reasons})" if reasons else ""
        return (
            f"{dropped_blocks} of {blocks} blocks were dropped because the GPU was throttled{because}; "
            "let it cool, look at its cooling and power supply, and measure again."
        )
    return None
