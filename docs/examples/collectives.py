"""Bus bandwidth of collectives by size, with NCCL, or gloo where there is no GPU. Needs torch and nothing else:

    torchrun --nproc-per-node=8 collectives.py                      # a table, and profiles/collectives_nccl_8.json
    ratchet check --gpus all --command "torchrun --nproc-per-node=8 collectives.py --json {out}" --format json

Each operation's result is checked on every rank before and after it is timed; a sample is the longest time of all ranks.
All-reduce is also timed on symmetric memory (torch.distributed._symmetric_memory), where GPUs read each other's buffers. Sizes
and bus bandwidth are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md there): the size is that of the whole buffer, and bytes on
the bus are what a ring must carry per rank. Exit codes: 1 a wrong result, 2 wrong usage, 3 nothing can be measured here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SYMMETRIC = ("all_reduce_one_shot", "all_reduce_two_shot")
"""All-reduce on symmetric memory: each rank sums all buffers, or each sums its part and stores it in all of them."""
OPERATIONS = ("all_reduce", *SYMMETRIC, "all_gather", "reduce_scatter")
SIZES = {"cuda": "64KiB,1MiB,16MiB,256MiB", "cpu": "64KiB,1MiB"}
BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
BLOCKS, BLOCK_MS = 10, 12.0
"""Blocks of samples, with fresh inputs each, and the time for one, as far as `FEWEST` and `MOST` allow."""
FEWEST, MOST = 3, 30
"""Samples in one block."""
WARM_UP = 5
JOIN_S = 60.0
"""Longest wait for the other ranks, in seconds."""
ELEMENT = 4
"""Bytes of a float32."""
_SIZE = re.compile(r"(\d+)\s*([KMG]?)(i?B)?", re.IGNORECASE)


class Refusal(Exception):
    """Nothing comes of this run; the sentence says why."""

    def __init__(self, sentence: str, code: int) -> None:
        """Keep the exit code beside the sentence."""
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Group:
    """The ranks that take part, as torchrun's variables give them to every rank, and this one's device."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    device: torch.device


@dataclass(frozen=True)
class Collective:
    """One operation on one size."""

    operation: str
    size: int
    """Bytes of the whole buffer."""

    @property
    def name(self) -> str:
        """The name of its case."""
        power = next(power for power in (3, 2, 1, 0) if self.size % 1024**power == 0)
        return f"collectives/{self.operation}_{self.size // 1024**power}{('', 'Ki', 'Mi', 'Gi')[power]}B"

    def bus_bytes(self, ranks: int) -> float:
        """Return the bytes that each rank must send over the bus."""
        return self.size * (2 if self.operation.startswith("all_reduce") else 1) * (ranks - 1) / ranks


@dataclass(frozen=True)
class Prepared:
    """One collective on its buffers."""

    fill: Callable[[], object]
    call: Callable[[], object]
    result: torch.Tensor
    expected: torch.Tensor

    def check(self, what: str) -> None:
        """Raise Refusal unless the result of one call is exact: all numbers are small whole ones, so every sum is exact."""
        self.fill()
        self.call()
        if not torch.equal(self.result, self.expected):
            raise Refusal(f"{what} gave a wrong result.", 1)


# What is wanted.


def group_of(environ: Mapping[str, str], device: str) -> Group:
    """Return the group that torchrun put this process into. Raises Refusal."""
    try:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        rank, ranks, local_rank, local_ranks = (int(environ[name]) for name in names)
    except (KeyError, ValueError):
        sentence = "This process was not started by torchrun. Start it with torchrun --nproc-per-node=2 collectives.py."
        raise Refusal(sentence, 2) from None
    if ranks == 1:
        raise Refusal("A collective needs two ranks or more: torchrun --nproc-per-node=2, or as many as there are GPUs.", 2)
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    if gpus == 0 and device == "cuda":
        raise Refusal("There is no GPU here. Take --device cpu.", 3)
    if 0 < gpus < local_ranks:
        raise Refusal(f"torchrun started {local_ranks} ranks, and there are GPUs for {gpus}. In a check, take --gpus all.", 3)
    return Group(rank, ranks, local_rank, local_ranks, torch.device("cuda", local_rank) if gpus else torch.device("cpu"))


def wanted_of(operations: str, sizes: str, ranks: int) -> list[Collective]:
    """Return every operation with every size. Raises Refusal."""
    names = [name.strip() for name in operations.split(",")]
    for name in names:
        if name not in OPERATIONS:
            raise Refusal(f"There is no collective {name!r}. Choose from {', '.join(OPERATIONS)}.", 2)
    found = [_bytes(text.strip(), ranks) for text in sizes.split(",")]
    return [Collective(name, size) for name in dict.fromkeys(names) for size in dict.fromkeys(found)]


def _bytes(text: str, ranks: int) -> int:
    """Return a size as a number that all ranks can share, at least one element for each."""
    match = _SIZE.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise Refusal(f"{text!r} is not a size. Write sizes such as 65536, 64KiB or 16MiB.", 2)
    wanted = int(match[1]) * 1024 ** " KMG".index(match[2].upper() or " ")
    return max(1, wanted // ELEMENT // ranks) * ranks * ELEMENT


# Symmetric memory, where there is any.


def no_symmetric_memory(group: Group, memory: str) -> str:
    """Return why there is no symmetric memory; empty where there is. Every rank gets the same answer."""
    for problem_of in (missing_for_symmetric_memory, failure_of_symmetric_memory):  # the second waits for all ranks
        problems = [""] * group.ranks
        dist.all_gather_object(problems, problem_of(group, memory))
        if found := next(filter(None, problems), ""):
            return found
    return ""


def missing_for_symmetric_memory(group: Group, memory: str) -> str:
    """Return what this rank lacks for symmetric memory, as far as it can tell by itself; empty where nothing is missing."""
    if group.device.type != "cuda":
        return "it is memory of GPUs, and this run uses the CPU"
    if group.local_ranks != group.ranks:
        return "the GPUs are those of several machines"
    for peer in set(range(group.local_ranks)) - {group.local_rank}:
        if not torch.cuda.can_device_access_peer(group.local_rank, peer):
            return f"GPU {group.local_rank} cannot read the memory of GPU {peer} (no peer-to-peer access)"
    if memory == "nvshmem":
        try:
            from torch.distributed._symmetric_memory import is_nvshmem_available
        except ImportError:
            return f"torch {torch.__version__} knows no NVSHMEM: take 2.9 or newer, or --symmetric-memory cuda"
        if not is_nvshmem_available():
            return "NVSHMEM is not installed: pip install nvidia-nvshmem-cu13 (or -cu12), or take --symmetric-memory cuda"
    return ""


def failure_of_symmetric_memory(group: Group, memory: str) -> str:
    """Return what torch says where it cannot make symmetric memory."""
    try:
        if memory == "nvshmem":
            from torch.distributed._symmetric_memory import set_backend

            set_backend("NVSHMEM")
        for operation in SYMMETRIC:
            one = prepared(Collective(operation, 1024 * group.ranks), group)
            one.fill()
            one.call()
        torch.cuda.synchronize()
    except (ImportError, AttributeError, RuntimeError) as error:  # an early torch, a container that may not share memory, …
        first = str(error).partition("\n")[0][:200]
        return f"torch {torch.__version__} cannot make it here ({type(error).__name__}: {first})"
    return ""


# The operations, and their times.


def prepared(collective: Collective, group: Group) -> Prepared:
    """Return one collective with its buffers."""
    rank, ranks = group.rank, group.ranks
    ramp = torch.arange(collective.size // ELEMENT, device=group.device, dtype=torch.float32).remainder_(7)
    part = len(ramp) // ranks
    given, total = ramp + rank, ramp * ranks + sum(range(ranks))
    if collective.operation in SYMMETRIC:
        from torch.distributed import _symmetric_memory as symmetric_memory

        name = dist.group.WORLD.group_name
        buffer = symmetric_memory.empty(len(ramp), dtype=ramp.dtype, device=ramp.device)
        symmetric_memory.rendezvous(buffer, name)
        if collective.operation == "all_reduce_two_shot":
            reduce = torch.ops.symm_mem.two_shot_all_reduce_
            return Prepared(lambda: buffer.copy_(given), lambda: reduce(buffer, "sum", name), buffer, total)
        reduce_out, result = torch.ops.symm_mem.one_shot_all_reduce_out, torch.empty_like(ramp)
        fill = lambda: (buffer.copy_(given), result.fill_(-1.0))  # noqa: E731
        return Prepared(fill, lambda: reduce_out(buffer, "sum", name, result), result, total)
    if collective.operation == "all_reduce":
        buffer = torch.empty_like(ramp)
        return Prepared(lambda: buffer.copy_(given), lambda: dist.all_reduce(buffer), buffer, total)
    if collective.operation == "all_gather":
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name in older releases
        own, result = given[:part].clone(), torch.empty_like(ramp)
        expected = (ramp[:part] + torch.arange(ranks, device=group.device)[:, None]).flatten()
        return Prepared(lambda: result.fill_(-1.0), lambda: gather(result, own), result, expected)
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    result = torch.empty(part, device=group.device)
    return Prepared(lambda: result.fill_(-1.0), lambda: scatter(result, given), result, total[rank * part :][:part])


def timed(collective: Collective, group: Group) -> list[float]:
    """Return samples in milliseconds, the longest of all ranks each. Raises Refusal for a wrong result."""
    one = prepared(collective, group)
    what = f"{collective.operation} of {collective.size} bytes on rank {group.rank}"
    one.check(what)
    times = _times_on_gpu if group.device.type == "cuda" else _times_on_cpu

    def longest(count: int) -> list[float]:
        taken = torch.tensor(times(one.call, count), device=group.device)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        return taken.tolist()

    one.fill()
    times(one.call, WARM_UP)
    most = min(MOST, int(36 / math.log10(group.ranks)))  # a sum of sums grows, and must not reach infinity
    count = min(most, max(FEWEST, round(BLOCK_MS / max(longest(2)))))
    samples = []
    for _ in range(BLOCKS):
        one.fill()
        samples += longest(count)
    one.check(what)
    return samples


def _times_on_gpu(call: Callable[[], object], count: int) -> list[float]:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(second) for first, second in itertools.pairwise(events)]


def _times_on_cpu(call: Callable[[], object], count: int) -> list[float]:
    times = [time.perf_counter()]
    for _ in range(count):
        call()
        times.append(time.perf_counter())
    return [(second - first) * 1e3 for first, second in itertools.pairwise(times)]


# The program.


def measure(given: argparse.Namespace) -> None:
    """Measure on this rank; rank 0 prints, and writes the file. Raises Refusal."""
    group = group_of(os.environ, given.device)
    kind = group.device.type
    wanted = wanted_of(given.operations or ",".join(OPERATIONS), given.sizes or SIZES[kind], group.ranks)
    # Rendezvous would make a multicast object, which nothing here uses and which has put hosts out of service.
    os.environ |= {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
    if kind == "cuda":
        torch.cuda.set_device(group.device)
    of_rank = group.device if kind == "cuda" else None
    dist.init_process_group(BACKENDS[kind], timeout=timedelta(seconds=JOIN_S), device_id=of_rank)
    warnings = []
    if any(each.operation in SYMMETRIC for each in wanted) and (reason := no_symmetric_memory(group, given.symmetric_memory)):
        warnings.append(f"Symmetric memory was not measured: {reason}.")
        wanted = [each for each in wanted if each.operation not in SYMMETRIC]
    if not wanted:
        raise Refusal(f"{warnings[0]} Add another operation, such as --operations all_reduce.", 3)
    samples = {each: timed(each, group) for each in wanted}
    dist.destroy_process_group()
    if group.rank != 0:
        return
    print(*warnings, sep="\n", end="\n" if warnings else "")
    if given.json:
        times = {"unit": "ms", "benchmarks": {each.name: taken for each, taken in samples.items()}}
        given.json.write_text(json.dumps(times) + "\n", encoding="utf-8")
        return
    rows = [_row(each, taken, group, given.symmetric_memory) for each, taken in samples.items()]
    machine = torch.cuda.get_device_name(group.device) if kind == "cuda" else platform.processor() or platform.machine()
    setup = {"backend": BACKENDS[kind], "world_size": group.ranks, "machine": machine, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    path = given.summary / f"collectives_{BACKENDS[kind]}_{group.ranks}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**setup, "warnings": warnings, "results": rows}, indent=2) + "\n", encoding="utf-8")
    print(f"{group.ranks} ranks on {machine}: time, and bandwidth on the bus")
    for row in rows:
        print("{operation:<20}{size_bytes:>13} B {time_us:>12} us {busbw_gb_s:>10} GB/s".format(**row))
    print(f"Summary: {path}")


def _row(collective: Collective, samples: list[float], group: Group, memory: str) -> dict[str, Any]:
    median_ms = statistics.median(samples)
    is_symmetric = collective.operation in SYMMETRIC
    return {
        "operation": collective.operation,
        "backend": f"symmetric memory ({memory})" if is_symmetric else BACKENDS[group.device.type],
        "size_bytes": collective.size,
        "time_us": round(median_ms * 1e3, 3),
        "algbw_gb_s": round(collective.size / median_ms * 1e-6, 3),
        "busbw_gb_s": round(collective.bus_bytes(group.ranks) / median_ms * 1e-6, 3),
    }


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description="Measure collectives on every rank of torchrun.")
    parser.add_argument("--operations", help=f"some of {','.join(OPERATIONS)} (default: all)")
    parser.add_argument("--sizes", help=f"of the whole buffer (default: {SIZES['cuda']}; on the CPU {SIZES['cpu']})")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: GPUs if there are any")
    parser.add_argument("--symmetric-memory", choices=("cuda", "nvshmem"), default="cuda", help="what makes it (default: cuda)")
    parser.add_argument("--json", type=Path, help="write only the times there, for ratchet check --command")
    parser.add_argument("--summary", type=Path, default=Path("profiles"), help="folder of the JSON summary (default: profiles)")
    try:
        measure(parser.parse_args(arguments))
    except Refusal as refusal:
        print(f"collectives: {refusal}", file=sys.stderr, flush=True)
        if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun's last lines then show it
            told = {"message": {"message": str(refusal), "extraInfo": {"timestamp": int(time.time())}}}
            Path(path).write_text(json.dumps(told), encoding="utf-8")
        if dist.is_initialized():
            os._exit(refusal.code)  # other ranks may be within a collective, for which a clean end would wait
        return refusal.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
