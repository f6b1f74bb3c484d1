"""Checksums of device memory, made on the device.

Equal launches on other data are other work: an index, a list of lengths or a schedule in device memory decides how long a
kernel runs. So what the launches find there is part of a workload's identity. A checksum is the sum of all 64-bit words,
each times an odd number of its own, modulo 2^64 (multilinear hashing): the order of summation does not matter, so equal data
gives equal checksums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ratchet.measure.identity.base import Opaque
from ratchet.measure.identity.driver import Driver

if TYPE_CHECKING:
    import torch

CHUNK_WORDS = 1 << 21
"""16 MiB at a time: it stays in the L2 cache."""
MOST_BYTES = 64 << 30

Range = tuple[int, int]
"""Address and size in bytes."""


class Contents:
    """Reads device memory through a buffer of its own, on torch's current stream."""

    def __init__(self, driver: Driver, device: torch.device, stream: int, chunk_words: int = CHUNK_WORDS) -> None:
        import torch

        self._driver = driver
        self._stream = stream
        self._buffer = torch.empty(chunk_words, dtype=torch.int64, device=device)
        self._weights = weights(chunk_words, device)

    def sums(self, ranges: Sequence[Range]) -> list[tuple[int, ...]]:
        """A tuple for each range, of one checksum for each chunk of it."""
        import torch

        if sum(size for _, size in ranges) > MOST_BYTES:
            raise Opaque("it has too much memory to compare")
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
    """Odd numbers, the same in every process: an integer hash of their index (after splitmix64)."""
    import torch

    mixed = torch.arange(1, count + 1, dtype=torch.int64, device=device) * -0x61C8864680B583EB
    mixed = (mixed ^ (mixed >> 30)) * -0x40A7B892E31B1A47
    mixed = (mixed ^ (mixed >> 27)) * -0x6B2FB644ECCEEE15
    return (mixed ^ (mixed >> 31)) | 1
