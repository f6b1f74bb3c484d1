"""Time collectives on one rank of torchrun; each repetition is a fresh process with a communicator of its own.

`ratchet.commands.collectives` calls `repeat` on every rank. The rank's own process never touches CUDA: every repetition forks a
child, which joins the group over the network, checks each collective once, and times it; a sample is the longest of all ranks.
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
from typing import Any

from ratchet.errors import WorkerError

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
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
        return self.size * (2 if self.operation == "all_reduce" else 1) * (ranks - 1) / ranks


@dataclass(frozen=True)
class Timed:
    """The samples of one repetition of one collective."""

    operation: str
    size: int
    ready_s: float
    """Seconds until the communicator is usable."""
    blocks_ms: list[list[float]]
    peak_memory_bytes: int


def elements(size: int, ranks: int) -> int:
    """Return the number of elements of the whole buffer: a multiple of the ranks, at least one for each."""
    return max(1, size // ELEMENT // ranks) * ranks


def repeat(group: Group, cuda: bool, wanted: Sequence[Collective], number: int, timeout_s: float) -> list[Timed]:
    """Time every wanted collective in a fresh process. Every rank must call this with the same arguments.

    ``number`` counts the repetitions. Raises WorkerError where the child failed or gave no answer within ``timeout_s`` seconds.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(group, cuda, list(wanted), number, theirs), daemon=True)
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
    return [Timed(**each) for each in answer["timed"]]


def _child(group: Group, cuda: bool, wanted: list[Collective], number: int, answer: Connection) -> None:
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as NVML, which said that the GPU is fit, counts
    try:
        timed = _measure(group, cuda, wanted, number)
        message: dict[str, Any] = {"timed": [asdict(each) for each in timed]}
    except Exception as error:  # noqa: BLE001  whatever it is, the rank that forked this process must know
        message = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    answer.send_bytes(json.dumps(message).encode())
    answer.close()
    os._exit(0)  # a communicator that failed can hang in its own clean-up


def _measure(group: Group, cuda: bool, wanted: list[Collective], number: int) -> list[Timed]:
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
        return [_timed(each, group, device, ready_s) for each in wanted]
    finally:
        dist.destroy_process_group()


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
        expected = total if collective.operation == "all_reduce" else total[group.rank * part : (group.rank + 1) * part]
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
