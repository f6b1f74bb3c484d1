"""Choose and hold the devices of a run, describe them, and share cases among several.

Asks the GPU's vendor, holds the lock of each device, and starts one thread per device where there are several.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ratchet.core.bench.suite import Suite
from ratchet.core.bench.tree_spec import PythonEnvironment
from ratchet.core.config import Settings
from ratchet.core.device import fitness
from ratchet.core.device.environment import describe, installed_version
from ratchet.core.device.gpu import Gpu, Vendor
from ratchet.core.device.lock import hold, lock_folder
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import UnfitError, UsageError
from ratchet.core.records.environment import Environment, PackageDifference
from ratchet.core.records.run import Plan, Side
from ratchet.core.report.progress import Progress
from ratchet.core.request import DeviceChoice
from ratchet.core.workload import Device

FEW_PAIRS = 5
"""Below this there is hardly any evidence in an interval."""


@dataclass(frozen=True)
class SidePythons:
    """The environment of each side, and the packages that differ; empty where both sides have ours."""

    sides: Mapping[Side, PythonEnvironment] = field(default_factory=dict)
    differs: tuple[PackageDifference, ...] = ()

    def variables(self, side: Side, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables of a program that works for a side, such as its build."""
        return self.sides[side].variables(environ) if side in self.sides else environ


ONE_FOR_BOTH = SidePythons()


@dataclass(frozen=True)
class Machine:
    """The device that a run has to itself."""

    device: Device
    gpu: Gpu | None
    warnings: tuple[str, ...] = ()
    idle: tuple[int, ...] = ()
    """Processes that hold the GPU and compute nothing."""
    others: tuple[Gpu, ...] = ()
    """Further GPUs, which each process of a command uses as well."""
    pythons: SidePythons = ONE_FOR_BOTH
    """The Python environment of each side, where they differ."""
    cpu_threads: int = 1

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs of the run; none on a CPU."""
        return (self.gpu, *self.others) if self.gpu else ()


@contextlib.contextmanager
def machine_of(
    choice: DeviceChoice,
    settings: Settings,
    what: str,
    progress: Progress,
    environ: Mapping[str, str],
    *,
    gives_way: bool = False,
) -> Iterator[Machine]:
    """Hold the chosen device while the body runs. Raises BusyError where others hold it, UnfitError where it is not fit.

    With ``gives_way``, `lock.Preempted` interrupts the body when another run wants the device.
    """
    device, gpu, warnings = choose(choice, settings, environ)
    key, name = (f"gpu-{gpu.uuid}", f"GPU {gpu.index}") if gpu else ("cpu", "The CPU")
    folder = lock_folder(environ)
    with hold(key, what, choice.wait_s, progress.stage, device=name, folder=folder, gives_way=gives_way):
        idle: tuple[int, ...] = ()
        if gpu is not None:
            condition = fitness.inspect(gpu)
            problems = fitness.problems_before(condition)
            if problems:
                raise UnfitError(" ".join(problems))
            warnings = (*warnings, *fitness.warnings_before(condition))
            idle = tuple(process.pid for process in condition.processes)
        if settings.pairs < FEW_PAIRS:
            few = f"With pairs = {settings.pairs}, the confidence intervals are too narrow to trust. Use {FEW_PAIRS} or more."
            warnings = (*warnings, few)
        yield Machine(device, gpu, warnings, idle, cpu_threads=settings.cpu_threads)


@contextlib.contextmanager
def machines_of(
    choice: DeviceChoice,
    settings: Settings,
    what: str,
    progress: Progress,
    environ: Mapping[str, str],
    pythons: SidePythons = ONE_FOR_BOTH,
) -> Iterator[tuple[Machine, ...]]:
    """Hold the chosen devices while the body runs, as `machine_of` does: one, or as many GPUs as the choice names.

    Raises UsageError where they are of different kinds, since a verdict holds for one kind of machine.
    """
    with contextlib.ExitStack() as stack:
        machines = tuple(
            stack.enter_context(machine_of(replace(choice, gpu=number), settings, what, progress, environ))
            for number in _numbers(choice, settings, environ)
        )
        first, *others = (environment_of(machine).fingerprint for machine in machines)
        for machine, other in zip(machines[1:], others, strict=True):
            if other != first:
                both = " and ".join(f"GPU {gpu.index}" for gpu in (*machines[0].gpus, *machine.gpus))
                raise UsageError(
                    f"{both} are of different kinds ({'; '.join(other.differences(first))}).",
                    "Name GPUs of one kind with --gpus.",
                )
        yield tuple(replace(machine, pythons=pythons) for machine in machines)


def joined(machines: Sequence[Machine]) -> Machine:
    """Return the first machine with the GPUs of all, for a command whose every process uses them all."""
    return replace(machines[0], others=tuple(gpu for machine in machines[1:] for gpu in machine.gpus))


def _numbers(choice: DeviceChoice, settings: Settings, environ: Mapping[str, str]) -> list[int | None]:
    if choice.gpus is None:
        return [choice.gpu]
    vendor = vendor_here()
    count = 0 if settings.device == "cpu" else len(vendor.visible_gpus(environ))
    if count == 0:
        raise UnfitError(f"--gpus was given, but {_why_no_gpu(vendor)}.", "See `ratchet doctor`, or leave it out.")
    return list(range(count)) if choice.gpus == "all" else list(choice.gpus)


def _why_no_gpu(vendor: Vendor) -> str:
    return vendor.unsupported or f"no {vendor.name} GPU was found here"


def choose(choice: DeviceChoice, settings: Settings, environ: Mapping[str, str]) -> tuple[Device, Gpu | None, tuple[str, ...]]:
    """Return the device, its GPU and warnings. Raises UnfitError without torch, or without the GPU that was asked for."""
    torch = installed_version("torch")
    if torch is None and not settings.command:
        raise UnfitError(
            f"Measuring needs PyTorch, and {sys.executable} has none.",
            "Activate the environment that has it, or install any build for your CUDA with `pip install torch`; without a GPU "
            "add `--index-url https://download.pytorch.org/whl/cpu`.",
        )
    if settings.device == "cpu":
        return "cpu", None, ()
    vendor = vendor_here()
    gpu = vendor.choose_gpu(choice.gpu, environ)
    blind = bool(torch and torch.endswith("+cpu")) and not settings.command
    if gpu is not None and not blind:
        return "cuda", gpu, ()
    why = "the installed torch has no CUDA in it" if gpu else _why_no_gpu(vendor)
    if settings.device == "cuda" or choice.gpu is not None:
        raise UnfitError(f"A GPU was asked for, but {why}.", "See `ratchet doctor`, or measure with --device cpu.")
    return "cpu", None, (f"Measured on the CPU, since {why}: this says nothing about GPU kernels.",)


def environment_of(machine: Machine, suite: Suite | None = None) -> Environment:
    """Describe the machine and its software: as the trees' processes reported it, or before there are any, as installed."""
    environment = describe(
        machine.gpu,
        machine.device,
        torch_version=suite.torch if suite else None,
        cuda_version=suite.cuda if suite else None,
        triton_version=suite.triton if suite else None,
        cpu_threads=machine.cpu_threads,
        l2_bytes=suite.l2_bytes if suite else None,
    )
    return environment.model_copy(update={"differs": machine.pythons.differs})


def plan_of(settings: Settings, device: Device, *, sessions: bool = False) -> Plan:
    """Return how to measure on this device, in one session or, where cases look changed, in several."""
    return Plan(
        pairs=settings.pairs,
        blocks=settings.blocks,
        block_ms=settings.block_ms_on(device),
        placements=settings.placements,
        tunes_each_process=settings.tune_each_process,
        budget_s=settings.budget,
        sessions=sessions,
        seed=settings.seed,
        order_seed=settings.order_seed,
        clock="cpu" if device == "cpu" else settings.clock,
        cache="warm" if device == "cpu" else settings.cache,
    )


M = TypeVar("M")
P = TypeVar("P")
R = TypeVar("R")


class Stopped(BaseException):
    """The end of a part because another machine failed, or because somebody interrupted the run."""


def in_parallel(work: Callable[[M, P, Progress], R], parts: Sequence[tuple[M, P]], progress: Progress) -> list[R]:
    """Do ``work`` for all parts at once, one thread each. Return the results in the order of the parts.

    The first error ends the other threads at their next progress report and is raised. A single part runs in this thread.
    """
    if len(parts) == 1:
        machine, part = parts[0]
        return [work(machine, part, progress)]
    shared = _Shared(progress, len(parts))
    with ThreadPoolExecutor(len(parts), thread_name_prefix="machine") as pool:
        try:
            futures = [pool.submit(work, machine, part, _Part(shared, number)) for number, (machine, part) in enumerate(parts)]
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            shared.stop = not all(future.done() and not future.exception() for future in futures)
    errors = [error for future in futures if (error := future.exception()) and not isinstance(error, Stopped)]
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


class _Shared:
    """The progress of all parts, merged into one stream, and whether they have to stop."""

    def __init__(self, progress: Progress, parts: int) -> None:
        self.progress = progress
        self.stop = False
        self.lock = threading.Lock()
        self.cases = 0
        self.steps = [0] * parts

    @contextlib.contextmanager
    def reporting(self) -> Iterator[Progress]:
        with self.lock:
            if self.stop:
                raise Stopped
            yield self.progress


class _Part(Progress):
    """The progress of one part. Its end is none: the run goes on until all parts have ended."""

    def __init__(self, shared: _Shared, number: int) -> None:
        self._shared = shared
        self._number = number

    def start(self, total_cases: int, pairs: int) -> None:
        with self._shared.reporting() as progress:
            self._shared.cases += total_cases
            progress.start(self._shared.cases, pairs)

    def announce(self, text: str) -> None:
        with self._shared.reporting() as progress:
            progress.announce(text)

    def stage(self, text: str) -> None:
        with self._shared.reporting() as progress:
            if self._number == 0:  # the others do the same at about the same time
                progress.stage(text)

    def case(self, name: str, pair: int, done: int) -> None:
        with self._shared.reporting() as progress:
            self._shared.steps[self._number] = done
            progress.case(name, pair, sum(self._shared.steps))

    def during(self, work: Callable[[], str]) -> AbstractContextManager[None]:
        return self._shared.progress.during(work)

    def waiting(self) -> None:
        with self._shared.reporting():
            pass
