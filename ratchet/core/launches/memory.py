"""Checksum the device memory that a workload's launches can reach, as it is before they run.

`identity.of` uses `Memory` in the worker. It allocates a buffer on the GPU and copies device memory through it.

Equal launches on other data are other work: an index, a list of lengths or a schedule in device memory decides how long a
kernel runs. So its content is part of a workload's identity. A checksum is the sum of all 64-bit words,
each times an odd number of its own, modulo 2^64 (multilinear hashing): the order of summation does not matter, so equal data
gives equal checksums.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ratchet.core.launches.driver import Driver, NoIdentity
from ratchet.core.launches.record import Place

if TYPE_CHECKING:
    import torch


CHUNK_WORDS = 1 << 21
"""16 MiB at a time: it stays in the L2 cache."""
MOST_BYTES = 64 << 30
"""Workloads with more memory to compare are opaque, and so are timed."""

Range = tuple[int, int]
"""Address and size in bytes."""


class Contents:
    """A reader of device memory through a buffer of its own, on the stream that is given."""

    def __init__(self, driver: Driver, device: torch.device, stream: int, chunk_words: int = CHUNK_WORDS) -> None:
        import torch

        self._driver = driver
        self._stream = stream
        self._buffer = torch.empty(chunk_words, dtype=torch.int64, device=device)
        self._weights = weights(chunk_words, device)

    def sums(self, ranges: Sequence[Range]) -> list[tuple[int, ...]]:
        """Return a tuple for each range, of one checksum for each chunk of it. Raises NoIdentity beyond `MOST_BYTES`."""
        import torch

        if sum(size for _, size in ranges) > MOST_BYTES:
            raise NoIdentity("it has too much memory to compare")
        found = [list(self._chunks(address, size)) for address, size in ranges]
        every = [each for one in found for each in one]
        numbers = iter(torch.stack(every).tolist() if every else [])
        return [tuple(next(numbers) for _ in one) for one in found]

    def _chunks(self, address: int, size: int) -> Sequence[torch.Tensor]:
        step = 8 * len(self._buffer)
        return [self._sum(address + at, min(step, size - at)) for at in range(0, size, step)]

    def _sum(self, address: int, size: int) -> torch.Tensor:
        words = -(-size // 8)
        self._buffer[words - 1] = 0  # the last word may be filled in part
        self._driver.copy(self._buffer.data_ptr(), address, size, self._stream)
        return (self._buffer[:words] * self._weights[:words]).sum()


def weights(count: int, device: torch.device) -> torch.Tensor:
    """Return odd numbers, the same in every process."""
    return index_hash(0, count, device) | 1


def index_hash(start: int, count: int, device: torch.device) -> torch.Tensor:
    """Return pseudo-random 64-bit numbers, one for each index from ``start`` on, the same in every process (after splitmix64)."""
    import torch

    mixed = torch.arange(start + 1, start + count + 1, dtype=torch.int64, device=device) * -0x61C8864680B583EB
    mixed = (mixed ^ (mixed >> 30)) * -0x40A7B892E31B1A47
    mixed = (mixed ^ (mixed >> 27)) * -0x6B2FB644ECCEEE15
    return mixed ^ (mixed >> 31)


_SMALLEST_ADDRESS = 1 << 16
"""Smaller numbers are sizes and strides; nothing is mapped down there."""

Segments = Iterable[Mapping[str, Any]]
"""The result of ``torch.cuda.memory_snapshot()``: segments with their blocks."""


def live(segments: Segments, device: int) -> list[Range]:
    """Return the tensors' memory: address and requested bytes of every block in use, by address."""
    blocks = (block for segment in segments if segment["device"] == device for block in segment["blocks"])
    in_use = (block for block in blocks if block["state"] == "active_allocated" and block["requested_size"])
    return sorted((int(block["address"]), int(block["requested_size"])) for block in in_use)


def reserved(segments: Segments, device: int) -> list[Range]:
    """Return all that torch holds of a device: whole segments, by address."""
    return sorted((int(segment["address"]), int(segment["total_size"])) for segment in segments if segment["device"] == device)


class Allocations:
    """The allocations of captured calls, one call after the other, from the events that torch's allocator records."""

    def __init__(self) -> None:
        self._live: dict[int, int] = {}

    def of_call(self, events: Iterable[Mapping[str, Any]]) -> list[Range]:
        """Return all that a call can have used, by address: what was there when it began, and what it got, freed or not.

        Where two allocations had one address in turn, the larger one stands for both: launches name addresses and no times, so
        which of the two is meant is unknown. But a call that allocates in another order uses other addresses for other things.
        """
        used = dict(self._live)
        for event in events:
            address, size = int(event["addr"]), int(event["size"])
            if event["action"] == "alloc":
                used[address] = max(size, used.get(address, 0))
                self._live[address] = size
            elif event["action"] == "free_completed":
                self._live.pop(address, None)
        return sorted(used.items())


def covering(ranges: Sequence[Range], address: int) -> Range | None:
    """Return the range that an address lies in, or just at the end of; None where there is none."""
    index = bisect.bisect_right(ranges, (address, 1 << 64)) - 1
    if index < 0:
        return None
    start, size = ranges[index]
    return ranges[index] if address <= start + size else None


@dataclass(frozen=True)
class Allocation:
    """An allocation: from ``before`` the captured call, from ``during`` it, or ``foreign`` to torch."""

    kind: str
    start: int
    size: int


class Memory:
    """The contents of memory that was allocated before the capture. Nothing may run between `Memory` and the last question."""

    def __init__(self, driver: Driver, contents: Contents, before: Sequence[Range]) -> None:
        self._driver = driver
        self._contents = contents
        self._before = list(before)
        self._sums = dict(zip(self._before, contents.sums(self._before), strict=True))
        self._torch: list[Range] = []

    def captured(self, everything: Sequence[Range]) -> None:
        """Note all memory of torch once the calls are captured."""
        self._torch = list(everything)

    def find(self, during: Sequence[Range], address: int) -> Place | None:
        """Return the place of an address, as `launches.Find` describes. Raises NoIdentity.

        ``during``, by address, is what a captured call got for itself: it finds only its own data there.
        """
        if address < _SMALLEST_ADDRESS:
            return None
        if found := covering(self._before, address):
            return Place(Allocation("before", *found), address - found[0])
        if found := covering(during, address):
            return Place(Allocation("during", *found), address - found[0])
        if covering(self._torch, address):
            # No tensor holds it, so its content at the time of timing is unknown.
            raise NoIdentity("it uses memory that no tensor holds")
        if (foreign := self._driver.points_to(address)) is None:
            return None
        return Place(Allocation("foreign", *foreign), address - foreign[0])

    def described(self, allocations: Sequence[Hashable]) -> list[object]:
        """Return facts that two processes can compare: of these allocations in this order, of all others sorted by content."""
        known = [each for each in allocations if isinstance(each, Allocation)]
        foreign = [(each.start, each.size) for each in known if each.kind == "foreign"]
        sums = dict(zip(foreign, self._contents.sums(foreign), strict=True)) | self._sums
        named = [(each.kind, each.size, sums.get((each.start, each.size), ())) for each in known]
        mentioned = {(each.start, each.size) for each in known}
        # Memory that no launch names may still be reached, through addresses in memory or in a tensor map.
        others = sorted((size, sums[start, size]) for start, size in self._before if (start, size) not in mentioned)
        return [named, others]

    def variables(self, ranges: Sequence[Range]) -> list[tuple[int, ...]]:
        """Return checksums of variables in device memory."""
        return self._contents.sums(ranges)
