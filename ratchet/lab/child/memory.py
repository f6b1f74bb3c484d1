"""Memory that the referee owns and a runner may write to: shared pages on the CPU, an allocation shared by CUDA IPC on a GPU.

`lab.runners` makes it, `child.runner` opens it. What crosses between the processes is a descriptor or 64 bytes, and offsets.
CUDA's driver does the sharing, so that neither side reads a pickle of the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ALIGNMENT = 256
"""Bytes between the beginnings of tensors, at least: what CUDA's own allocations have."""
PAGE = 2 << 20
"""CUDA shares whole pages: an allocation of its own never has a part of another one's."""
_POPULATE = 0x8000
"""MAP_POPULATE: no call is the first to touch a page."""
_HANDLE_BYTES = 64


class _Handle(ctypes.Structure):
    _fields_ = (("words", ctypes.c_char * _HANDLE_BYTES),)


class SharedMemory:
    """Bytes that two processes share, as a flat tensor."""

    def __init__(self, flat: torch.Tensor) -> None:
        self._flat, self.size = flat, flat.numel()

    @property
    def handle(self) -> str:
        """Text with which another process opens it, with a descriptor of pages. Raises OSError where a driver shares nothing."""
        return ""

    def tensor(self, offset: int, dtype: torch.dtype, shape: Iterable[int], order: Sequence[int] = ()) -> torch.Tensor:
        """Return the tensor that begins at a byte; ``order``: its dimensions as they lie in memory, if not one after another."""
        flat, shape = self._flat, tuple(shape)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if not size:
            return torch.empty(shape, dtype=dtype, device=flat.device)
        if not 0 <= offset <= self.size - size:
            raise ValueError(f"{size} bytes at {offset} are not within {self.size}")
        strides = torch.empty_permuted(shape, tuple(order or range(len(shape))), device="meta").stride()
        # No view of the whole: each has a version counter of its own, as any argument has.
        alone = torch.empty(0, dtype=dtype, device=flat.device)
        return alone.set_(flat.untyped_storage(), offset // dtype.itemsize, shape, strides)

    def close(self) -> None:
        """Leave the pages to whoever still has a tensor of them."""


class HostMemory(SharedMemory):
    """Pages that both processes map; a runner cannot take them away again."""

    def __init__(self, descriptor: int, size: int) -> None:
        """Map so many bytes of the pages of a descriptor, which are added where they are missing. Raises OSError."""
        size = max(size, ALIGNMENT)
        if os.fstat(descriptor).st_size < size:
            if size > _available():  # the kernel would give out pages until it has to end some process
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            os.ftruncate(descriptor, size)
        pages = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | _POPULATE)
        super().__init__(torch.from_numpy(np.frombuffer(pages, np.uint8)))


def _available() -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) * 1024 if found else sys.maxsize


def new_pages() -> int:
    """Return the descriptor of pages, of which none can be taken away again: whoever reads them cannot be made to crash."""
    descriptor = os.memfd_create("ratchet", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


class DeviceMemory(SharedMemory):
    """An allocation of the GPU in the current context."""

    def __init__(self, handle: str = "", size: int = 0) -> None:
        """Open an allocation of another process by its handle or, without one, make ``size`` bytes. Raises OSError."""
        torch.zeros(1, device="cuda")  # makes the context, and makes it the current one
        torch.cuda.synchronize()
        size = -(-max(size, 1) // PAGE) * PAGE
        self._address = ctypes.c_uint64()
        if handle:
            opened = _Handle.from_buffer_copy(bytes.fromhex(handle))
            _driver("cuIpcOpenMemHandle_v2", ctypes.byref(self._address), opened, ctypes.c_uint(1))
        else:
            _driver("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(size))
        super().__init__(torch.as_tensor(_Bytes(self._address.value, size), device="cuda"))

    @property
    def handle(self) -> str:
        handle = _Handle()
        _driver("cuIpcGetMemHandle", ctypes.byref(handle), self._address)
        return bytes(handle).hex()

    def close(self) -> None:
        """Free it. No process that has opened it may live: CUDA does not say what happens then."""
        torch.cuda.synchronize()
        with contextlib.suppress(OSError):  # a context that is lost has nothing to free
            _driver("cuMemFree_v2", self._address)


class _Bytes:
    """Bytes of the GPU, as torch takes them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def aligned(size: int) -> int:
    """Return the bytes that a tensor of this size takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _driver(name: str, *arguments: Any) -> None:
    status = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if status:
        raise OSError(status, f"{name} gave CUDA error {status}")
