"""Measure collectives under torchrun, on every rank: a record like any other run's, and a summary for other tools.

``bench/collectives.py`` calls `measure_collectives`. It locks this rank's GPU (or, on the CPU, local rank 0 locks it), forks a
process for each repetition, and talks to the other ranks over the network. Rank 0 writes both files; under ``ratchet check
--command``, which holds the devices itself, only the times.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ratchet import units
from ratchet.commands.machine import Machine, choose, environment_of, machine_of
from ratchet.commands.request import DeviceChoice, checked_out, root_of, writable
from ratchet.config import load_settings
from ratchet.errors import UnfitError, UsageError
from ratchet.measure.collectives import (
    BLOCK_S,
    BLOCKS,
    OPERATIONS,
    SYMMETRIC,
    Collective,
    Group,
    Memory,
    Timed,
    elements,
    repeat,
)
from ratchet.records.files import save, save_text
from ratchet.records.run import Block, CaseRun, Config, Plan, RunRecord, WorkerSamples, WorkloadIdentity
from ratchet.report.progress import SilentProgress
from ratchet.stats.comparison import performance

RECORD = "collectives.json"
FEWEST = 3
"""Fewest repetitions for an interval."""
_SIZE = re.compile(r"^(\d+)\s*([KMG]?)(i?B)?$", re.IGNORECASE)
_BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
_TIMEOUT_S = 300.0
"""Longest time for one repetition, in seconds."""


@dataclass(frozen=True)
class CollectivesRequest:
    """The operations and sizes to measure; None: the default."""

    operations: str | None
    sizes: str | None
    default_sizes: Mapping[str, str]
    """Sizes for each kind of device."""
    repeats: int
    device: Literal["auto", "cuda", "cpu"]
    memory: Memory = "cuda"
    """What makes symmetric memory."""
    times: Path | None = None
    """Write only the times there, in ratchet's own format for harnesses; None: a record and a summary."""


def measure_collectives(
    wish: CollectivesRequest, results: Path, summary: Path, command: tuple[str, ...], environ: Mapping[str, str]
) -> list[str]:
    """Measure on this rank; rank 0 writes the files. Returns lines for people, none on the other ranks.

    Raises UsageError outside torchrun or for impossible wishes, UnfitError without a GPU for each rank or where nothing that is
    wanted can be measured here, WorkerError where a rank failed.
    """
    group = group_of(environ)
    root = root_of(Path.cwd())
    settings = load_settings(root, environ, {"device": wish.device})
    gpus = _gpus(environ, settings.device)
    if 0 < gpus < group.local_ranks:
        raise UnfitError(
            f"torchrun started {group.local_ranks} ranks on this machine, which has {units.plural(gpus, 'GPU')} for them.",
            "Start as many ranks as there are GPUs, or take --device cpu. In a check of a command, --gpus all gives it all GPUs.",
        )
    of_rank = DeviceChoice(group.local_rank if gpus else None)
    with contextlib.ExitStack() as stack:
        device, gpu, _ = choose(of_rank, settings, environ)
        machine = Machine(device, gpu, (), ())
        if not wish.times and (device == "cuda" or group.local_rank == 0):
            what = f"collectives in {root}"
            machine = stack.enter_context(machine_of(of_rank, settings, what, SilentProgress(), environ))
        wanted = wanted_of(wish, device, group.ranks)
        clock, started = time.monotonic(), datetime.now(UTC)
        repeats = [repeat(group, device == "cuda", wanted, wish.memory, number, _TIMEOUT_S) for number in range(wish.repeats)]
    if reason := next((each.missing for each in repeats if each.missing), ""):
        wanted = [collective for collective in wanted if collective.operation not in SYMMETRIC]
        machine = replace(machine, warnings=(*machine.warnings, f"Symmetric memory was not measured: {reason}."))
    if not wanted:
        raise UnfitError(machine.warnings[-1], "Add another operation, such as --operations all_reduce.")
    if group.rank != 0:
        return []
    cases = [_case(collective, [each.of(collective) for each in repeats], group, machine, wish.memory) for collective in wanted]
    if wish.times:
        samples = {
            case.name: [ms for worker in case.head for block in worker.blocks for ms in block.samples_ms] for case in cases
        }
        save_text(wish.times, json.dumps({"unit": "ms", "benchmarks": samples}) + "\n")
        return [*machine.warnings, f"Times: {wish.times}"]
    writable(results), writable(summary)
    record = RunRecord(
        kind="run",
        started_at=started,
        wall_s=time.monotonic() - clock,
        command=command,
        environment=environment_of(machine, settings),
        plan=Plan(pairs=wish.repeats, blocks=BLOCKS, block_ms=BLOCK_S * 1e3, seed=0, clock=_clock(machine.device), cache="warm"),
        policy=settings.policy,
        head=checked_out(root, results),
        cases=tuple(cases),
        warnings=machine.warnings,
    )
    save(results / RECORD, record)
    rows = [_summary_row(collective, case, group.ranks) for collective, case in zip(wanted, cases, strict=True)]
    backend = _BACKENDS[machine.device]
    path = summary / f"collectives_{backend}_{group.ranks}.json"
    machine_name = record.environment.fingerprint.processor
    setup = {"backend": backend, "world_size": group.ranks, "machine": machine_name, "date": f"{started:%Y-%m-%d}"}
    save_text(path, json.dumps({**setup, "warnings": machine.warnings, "results": rows}, indent=2) + "\n")
    return [
        f"{group.ranks} ranks on {machine_name}: time, and bandwidth on the bus",
        *(
            f"{row['operation']:<20}{row['size_bytes']:>13} B {row['time_us']:>12} us {row['busbw_gb_s']:>10} GB/s"
            for row in rows
        ),
        *machine.warnings,
        f"Record:  {results / RECORD}",
        f"Summary: {path}",
    ]


def group_of(environ: Mapping[str, str]) -> Group:
    """Return the group that torchrun put this process into. Raises UsageError."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    try:
        rank, ranks, local_rank, local_ranks, port = (int(environ[name]) for name in names)
        address = environ["MASTER_ADDR"]
    except (KeyError, ValueError):
        raise UsageError(
            "This process was not started by torchrun.", "Start it with torchrun --nproc_per_node=2 bench/collectives.py."
        ) from None
    if ranks == 1:
        raise UsageError(
            "A collective needs two ranks or more.", "Use torchrun --nproc_per_node=2, or as many as there are GPUs."
        )
    return Group(rank, ranks, local_rank, local_ranks, address, port, environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")


def wanted_of(wish: CollectivesRequest, device: str, ranks: int) -> list[Collective]:
    """Return every operation with every size, as requested. Raises UsageError."""
    if wish.repeats < FEWEST and not wish.times:
        raise UsageError(f"{wish.repeats} repetitions are too few for an interval.", f"Take --repeats {FEWEST} or more.")
    operations = [name.strip() for name in (wish.operations or ",".join(OPERATIONS)).split(",")]
    for operation in operations:
        if operation not in OPERATIONS:
            raise UsageError(f"There is no collective {operation!r}.", f"Choose from {', '.join(OPERATIONS)}.")
    sizes = [_bytes(text, ranks) for text in (wish.sizes or wish.default_sizes[device]).split(",")]
    return [Collective(operation, size) for operation in dict.fromkeys(operations) for size in dict.fromkeys(sizes)]


def _bytes(text: str, ranks: int) -> int:
    match = _SIZE.match(text.strip())
    if not match or int(match[1]) == 0:
        raise UsageError(f"{text!r} is not a size.", "Write sizes such as 65536, 64KiB or 16MiB.")
    wanted = int(match[1]) * 1024 ** " KMG".index(match[2].upper() or " ")
    return elements(wanted, ranks) * 4


def _case(collective: Collective, taken: Sequence[Timed], group: Group, machine: Machine, memory: Memory) -> CaseRun:
    name = f"{collective.operation}_{re.sub(r'[.]0+ | ', '', units.size(collective.size))}"
    parameters = {"bytes": collective.size, "ranks": group.ranks, "nodes": group.ranks // group.local_ranks}
    backend = f"symmetric memory ({memory})" if collective.operation in SYMMETRIC else _BACKENDS[machine.device]
    workload = WorkloadIdentity(
        parameters={**parameters, "backend": backend},
        device=machine.device,
        dtype="float32",
        flops=0,
        bytes=collective.bus_bytes(group.ranks),
        clock=_clock(machine.device),
        cache="warm",
    )
    workers = tuple(_worker(number, timed) for number, timed in enumerate(taken))
    return CaseRun(
        name=f"collectives/{name}",
        benchmark="collectives",
        config=Config(name=name, parameters=workload.parameters),
        workload=workload,
        performance=performance(workers, workload, 0.95),
        head=workers,
        in_reference=False,
    )


def _worker(number: int, timed: Timed) -> WorkerSamples:
    blocks = tuple(Block(index, index, tuple(samples)) for index, samples in enumerate(timed.blocks_ms))
    return WorkerSamples(
        number, started_first=True, blocks=blocks, ready_s=timed.ready_s, peak_memory_bytes=timed.peak_memory_bytes, error=0.0
    )


def _summary_row(collective: Collective, case: CaseRun, ranks: int) -> dict[str, object]:
    median_ms = case.performance.median_time_ms if case.performance else float("nan")
    return {
        "operation": collective.operation,
        "backend": case.config.parameters["backend"],
        "size_bytes": collective.size,
        "time_us": round(median_ms * 1e3, 3),
        "algbw_gb_s": round(collective.size / median_ms * 1e-6, 3),
        "busbw_gb_s": round(collective.bus_bytes(ranks) / median_ms * 1e-6, 3),
    }


def _gpus(environ: Mapping[str, str], device: str) -> int:
    from ratchet.measure.device.vendor import vendor_here

    return 0 if device == "cpu" else len(vendor_here().visible_gpus(environ))


def _clock(device: str) -> str:
    return "event" if device == "cuda" else "cpu"
