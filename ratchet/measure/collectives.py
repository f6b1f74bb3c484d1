"""Time collectives on one rank of torchrun; each repetition is a fresh process with a communicator of its own.

`ratchet.commands.collectives` calls `repeat` on every rank. The rank's own process never touches CUDA: every repetition forks a
child, which joins the group over the network, checks each collective once, and times it; a sample is the longest of all ranks.
All-reduce is also timed on symmetric memory (torch.distributed._symmetric_memory), where GPUs read each other's buffers.
Sizes and bus bandwidth as NVIDIA's nccl-tests define them (doc/PERFORMANCE.md there): the size is that of the whole buffer, and
bytes on the bus are what a ring must carry per rank. It writes no file.
"""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, Literal

from ratchet.errors import WorkerError

SYMMETRIC = ("all_reduce_one_shot", "all_reduce_two_shot")
"""All-reduce on symmetric memory: each rank sums all buffers, or each sums its part and stores it in all of them."""
OPERATIONS = ("all_reduce", *SYMMETRIC, "all_gather", "reduce_scatter")
Memory = Literal["cuda", "nvshmem"]
"""What makes symmetric memory."""
BLOCKS = 10
BLOCK_S = 0.012
"""Time for one block, in seconds, as far as `FEWEST` and `MOST` allow."""
FEWEST, MOST = 3, 30
"""Samples in one block."""
WARM_UP = 5
JOIN_S = 60.0
"""Longest wait for the other ranks, in seconds."""
ELEMENT = 4
"""Bytes of a float32."""


@dataclass(frozen=True)
class Group:
    """The ranks that take part, as torchrun's variables give them to every rank."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    address: str
    port: int
    hosted: bool
    """Whether torchrun's agent serves the store at this address; otherwise rank 0 does."""


@dataclass(frozen=True)
class Collective:
    """One operation on one size."""

    operation: str
    size: int
    """Bytes of the whole buffer."""

    def bus_bytes(self, ranks: int) -> float:
        """Return the bytes that each rank must send over the bus."""
        return self.size * (2 if self.operation.startswith("all_reduce") else 1) * (ranks - 1) / ranks


@dataclass(frozen=True)
class Timed:
    """The samples of one repetition of one collective."""

    operation: str
    size: int
    ready_s: float
    """Seconds until the communicator is usable."""
    blocks_ms: list[list[float]]
    peak_memory_bytes: int


@dataclass(frozen=True)
class Repetition:
    """Every collective that one repetition could time."""

    timed: list[Timed]
    missing: str
    """Why there is no symmetric memory, so that `SYMMETRIC` was left out; empty where there is."""

    def of(self, collective: Collective) -> Timed:
        """Return the samples of one collective."""
        return next(each for each in self.timed if (each.operation, each.size) == (collective.operation, collective.size))


def elements(size: int, ranks: int) -> int:
    """Return the number of elements of the whole buffer: a multiple of the ranks, at least one for each."""
    return max(1, size // ELEMENT // ranks) * ranks


def repeat(group: Group, cuda: bool, wanted: Sequence[Collective], memory: Memory, number: int, timeout_s: float) -> Repetition:
    """Time every wanted collective in a fresh process. Every rank must call this with the same arguments.

    ``memory`` makes symmetric memory, ``number`` counts the repetitions. Raises WorkerError where the child failed or gave no
    answer within ``timeout_s`` seconds.
    """
    import torch.distributed  # noqa: F401  once for all repetitions: the import takes seconds, and leaves CUDA alone

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(group, cuda, list(wanted), memory, number, theirs), daemon=True)
    started = time.monotonic()
    child.start()
    theirs.close()
    try:
        answer = json.loads(ours.recv_bytes()) if ours.poll(timeout_s) else None
    except EOFError:
        answer = {"error": "its process died"}
    finally:
        child.join(5)
        child.kill()
    if answer is None:
        answer = {"error": f"no answer within {time.monotonic() - started:.0f} s"}
    if "error" in answer:
        raise WorkerError(f"Rank {group.rank}, repetition {number + 1}: {answer['error']}.", "See the lines above.")
    return Repetition([Timed(**each) for each in answer["timed"]], answer["missing"])


def _child(group: Group, cuda: bool, wanted: list[Collective], memory: Memory, number: int, answer: Connection) -> None:
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as NVML, which said that the GPU is fit, counts
    # Rendezvous would make a multicast object, which nothing here uses and which has put hosts out of service.
    os.environ |= {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
    try:
        message: dict[str, Any] = asdict(_measure(group, cuda, wanted, memory, number))
    except Exception as error:  # noqa: BLE001  whatever it is, the rank that forked this process must know
        message = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    answer.send_bytes(json.dumps(message).encode())
    answer.close()
    os._exit(0)  # a communicator that failed can hang in its own clean-up


def _measure(group: Group, cuda: bool, wanted: list[Collective], memory: Memory, number: int) -> Repetition:
    import torch
    import torch.distributed as dist
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # not among the names it lists

    started = time.monotonic()
    device = torch.device("cuda", group.local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    limit = timedelta(seconds=JOIN_S)
    serves = group.rank == 0 and not group.hosted
    port = group.port if group.hosted else group.port + number
    store = TCPStore(group.address, port, None, is_master=serves, timeout=limit)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        store=PrefixStore(f"ratchet-{number}", store),
        rank=group.rank,
        world_size=group.ranks,
        timeout=limit,
        device_id=device if cuda else None,
    )
    dist.barrier()
    ready_s = time.monotonic() - started
    try:
        problem = _no_symmetric_memory(group, device, memory) if any(each.operation in SYMMETRIC for each in wanted) else ""
        possible = [each for each in wanted if not problem or each.operation not in SYMMETRIC]
        return Repetition([_timed(each, group, device, ready_s) for each in possible], problem)
    finally:
        dist.destroy_process_group()


def _no_symmetric_memory(group: Group, device: Any, memory: Memory) -> str:
    """Return why there is no symmetric memory; empty where there is. Every rank gets the same answer."""
    import torch.distributed as dist

    for problem_of in (missing_for_symmetric_memory, _failure_of_symmetric_memory):  # the second waits for all ranks
        problems = [""] * group.ranks
        dist.all_gather_object(problems, problem_of(group, device, memory))
        if found := next(filter(None, problems), ""):
            return found
    return ""


def missing_for_symmetric_memory(group: Group, device: Any, memory: Memory) -> str:
    """Return what this rank lacks for symmetric memory, as far as it can tell by itself; empty where nothing is missing."""
    import torch

    if device.type != "cuda":
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


def _failure_of_symmetric_memory(group: Group, device: Any, memory: Memory) -> str:
    import torch

    try:
        if memory == "nvshmem":
            from torch.distributed._symmetric_memory import set_backend

            set_backend("NVSHMEM")
        for operation in SYMMETRIC:
            fill, call, _ = _prepared(Collective(operation, 1024), group, device)
            fill()
            call()
        torch.cuda.synchronize()
    except (ImportError, AttributeError, RuntimeError) as error:  # an early torch, a container that may not share memory, …
        first = str(error).partition("\n")[0][:200]
        return f"torch {torch.__version__} cannot make it here ({type(error).__name__}: {first})"
    return ""


def _timed(collective: Collective, group: Group, device: Any, ready_s: float) -> Timed:
    import torch
    import torch.distributed as dist

    fill, call, result = _prepared(collective, group, device)
    fill()
    call()
    _check(collective, group, result())
    sample = _sampler(call, cuda=device.type == "cuda")
    fill()
    for _ in range(WARM_UP):
        sample(1)
    longest = torch.tensor(sample(2), device=device).max()
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    most = min(MOST, int(36 / math.log10(max(2, group.ranks))))  # a sum of sums grows, and must not reach infinity
    count = min(most, max(FEWEST, round(BLOCK_S * 1e3 / float(longest))))
    blocks = []
    for _ in range(BLOCKS):
        fill()
        taken = torch.tensor(sample(count), device=device)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        blocks.append([float(each) for each in taken.cpu()])
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    return Timed(collective.operation, collective.size, ready_s, blocks, peak)


def _prepared(
    collective: Collective, group: Group, device: Any
) -> tuple[Callable[[], None], Callable[[], None], Callable[[], Any]]:
    """Return three functions: fill the inputs, call the operation, and get its result."""
    import torch
    import torch.distributed as dist

    whole = elements(collective.size, group.ranks)
    part = whole // group.ranks
    ramp = torch.arange(whole, device=device, dtype=torch.float32).remainder_(7)
    if collective.operation in SYMMETRIC:
        return _prepared_symmetric(collective.operation, ramp, group.rank)
    if collective.operation == "all_reduce":
        buffer = torch.empty_like(ramp)
        return lambda: _assign(buffer, ramp + group.rank), lambda: _done(dist.all_reduce(buffer)), lambda: buffer
    if collective.operation == "all_gather":
        gather = _named(dist, "all_gather_single", "all_gather_into_tensor")
        own, gathered = ramp[:part] + group.rank, torch.empty_like(ramp)
        return lambda: _assign(gathered, -1.0), lambda: _done(gather(gathered, own)), lambda: gathered
    scatter = _named(dist, "reduce_scatter_single", "reduce_scatter_tensor")
    given, scattered = ramp + group.rank, torch.empty(part, device=device)
    return lambda: _assign(scattered, -1.0), lambda: _done(scatter(scattered, given)), lambda: scattered


def _prepared_symmetric(operation: str, ramp: Any, rank: int) -> tuple[Callable[[], None], Callable[[], None], Callable[[], Any]]:
    import torch
    import torch.distributed as dist
    from torch.distributed import _symmetric_memory as symmetric_memory

    group: Any = dist.group.WORLD
    name = group.group_name
    buffer = symmetric_memory.empty(len(ramp), dtype=ramp.dtype, device=ramp.device)
    symmetric_memory.rendezvous(buffer, name)
    if operation == "all_reduce_two_shot":
        reduce = torch.ops.symm_mem.two_shot_all_reduce_
        return lambda: _assign(buffer, ramp + rank), lambda: reduce(buffer, "sum", name), lambda: buffer
    reduce_out, result = torch.ops.symm_mem.one_shot_all_reduce_out, torch.empty_like(ramp)

    def fill() -> None:
        _assign(buffer, ramp + rank)
        _assign(result, -1.0)

    return fill, lambda: reduce_out(buffer, "sum", name, result), lambda: result


def _named(module: Any, name: str, earlier: str) -> Callable[..., Any]:
    """Return a function that older releases of torch know by another name."""
    found: Callable[..., Any] = getattr(module, name, None) or getattr(module, earlier)
    return found


def _assign(tensor: Any, value: Any) -> None:
    tensor.fill_(value) if isinstance(value, float) else tensor.copy_(value)


def _done(work: Any) -> None:
    if work is not None:
        work.wait()


def _check(collective: Collective, group: Group, found: Any) -> None:
    """Raise ValueError unless the result is exact: all numbers are small whole ones, so every sum is exact in float32."""
    import torch

    whole = elements(collective.size, group.ranks)
    part = whole // group.ranks
    ramp = torch.arange(whole, device=found.device, dtype=torch.float32).remainder_(7)
    total = ramp * group.ranks + sum(range(group.ranks))
    if collective.operation == "all_gather":
        ranks = torch.arange(group.ranks, device=found.device, dtype=torch.float32)
        expected = (ramp[:part][None, :] + ranks[:, None]).flatten()
    else:
        expected = total[group.rank * part : (group.rank + 1) * part] if collective.operation == "reduce_scatter" else total
    if not torch.equal(found, expected):
        raise ValueError(f"{collective.operation} of {collective.size} bytes gave a wrong result on rank {group.rank}")


def _sampler(call: Callable[[], None], *, cuda: bool) -> Callable[[int], list[float]]:
    """Return a function that times so many calls one after another, in milliseconds."""
    import torch

    def on_gpu(count: int) -> list[float]:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        torch.cuda.synchronize()
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        torch.cuda.synchronize()
        return [first.elapsed_time(second) for first, second in itertools.pairwise(events)]

    def on_cpu(count: int) -> list[float]:
        times = [time.perf_counter()]
        for _ in range(count):
            call()
            times.append(time.perf_counter())
        return [(second - first) * 1e3 for first, second in itertools.pairwise(times)]

    return on_gpu if cuda else on_cpu
