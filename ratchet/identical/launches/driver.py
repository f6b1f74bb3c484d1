"""Define the identity of a workload and the reason why it has none (`NoIdentity`), and ask the CUDA driver for the facts.

The other files of this package call the driver through `Driver`, which loads libcuda with ctypes. It reads, copies within device
memory, and creates a stream.

CUDA Driver API, sections Unified Addressing, Memory Management, Module Management, Stream Management and Context Management.
Names that end in _v2 are what cuda.h turns the documented ones into.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

MOST_LAUNCHES = 50
"""Launches that are shown to people; all of them are in the digest."""


@dataclass(frozen=True)
class Identity:
    """The identity of a workload: equal digests do the same on one GPU; an ``opaque`` workload has no digest and is timed."""

    digest: str
    opaque: str
    launches: tuple[str, ...] = ()
    spent: bool = False
    """The process may be damaged, since a capture failed in it: end it, and prepare the next case in a fresh one."""
    resources: Mapping[str, int] | None = None
    """What its kernels take, as `records.run.Resources`."""
    one_by_one: bool = False
    """Each launch waits for the one before it, on whatever streams they are."""

    def __post_init__(self) -> None:
        if bool(self.digest) == bool(self.opaque):
            raise ValueError("an identity has a digest, or a reason why it has none")


class NoIdentity(Exception):
    """A part of a workload that decides its time cannot be seen; the message says which."""

    def __init__(self, reason: str, *, spent: bool = False) -> None:
        super().__init__(reason)
        self.spent = spent


_DEVICE = 2
_MEMORY_TYPE, _IS_MANAGED = 2, 8
"""CU_MEMORYTYPE_DEVICE, and two of CUpointer_attribute."""
_LIMITS = (2, 5, 6)
"""CUlimit: heap, L2 fetch granularity, persisting L2. Not the stack: the driver enlarges it for whatever ran before."""
LOCAL_BYTES, REGISTERS = 3, 4
"""CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES and CU_FUNC_ATTRIBUTE_NUM_REGS."""
_STREAM_ATTRIBUTES = (1, 3, 8, 9, 10)
"""CUlaunchAttributeID of streams: L2 window, waiting, priority, memory domains."""


class Driver:
    """The CUDA driver of this process. Raises NoIdentity where it lacks a function or refuses an answer."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self._library = ctypes.CDLL(library)
        self._own_streams = 0

    def points_to(self, address: int) -> tuple[int, int] | None:
        """Return start and size of the device allocation that holds an address; None for an address unknown to the driver."""
        kind, managed = c_uint64(0), c_uint64(0)  # wide enough for whatever the driver writes
        if self.code("cuPointerGetAttribute", byref(kind), c_int(_MEMORY_TYPE), c_uint64(address)) != 0:
            return None
        self.code("cuPointerGetAttribute", byref(managed), c_int(_IS_MANAGED), c_uint64(address))
        if kind.value != _DEVICE or managed.value:
            raise NoIdentity("it uses memory that the host and the GPU share")
        start, size = c_uint64(0), c_size_t(0)
        self.call("cuMemGetAddressRange_v2", byref(start), byref(size), c_uint64(address))
        return start.value, size.value

    def module(self, function: int) -> int:
        """Return the handle of the module that a kernel is in."""
        module = c_void_p()
        self.call("cuFuncGetModule", byref(module), c_void_p(function))
        return module.value or 0

    def attribute(self, function: int, attribute: int) -> int:
        """Return an attribute of a kernel, a CUfunction_attribute."""
        value = c_int(0)
        self.call("cuFuncGetAttribute", byref(value), c_int(attribute), c_void_p(function))
        return value.value

    def variable(self, function: int, name: str) -> tuple[int, int]:
        """Return address and size of a ``__device__`` or ``__constant__`` variable of the module that a kernel is in."""
        start, size = c_uint64(0), c_size_t(0)
        module = c_void_p(self.module(function))
        if self.code("cuModuleGetGlobal_v2", byref(start), byref(size), module, c_char_p(name.encode())) != 0:
            raise NoIdentity(f"the variable {name} in device memory cannot be read")
        return start.value, size.value

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Queue a copy within device memory."""
        self.call("cuMemcpyDtoDAsync_v2", c_uint64(target), c_uint64(source), c_size_t(size), c_void_p(stream))

    def blocking_stream(self) -> int:
        """Create a stream that the legacy default stream waits for, and which waits for it: CU_STREAM_DEFAULT."""
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), c_uint(0))
        self._own_streams += 1
        return stream.value or 0

    def streams_of_others(self) -> int:
        """Return a number that grows by one with each stream that is made in this process, unless it is made here.

        The driver numbers the streams of a process in the order in which they are made (cuStreamGetId).
        """
        stream, number = c_void_p(self.blocking_stream()), c_uint64(0)
        try:
            self.call("cuStreamGetId", stream, byref(number))
        finally:
            self.call("cuStreamDestroy_v2", stream)
        return number.value - self._own_streams

    def settings(self, stream: int) -> list[object]:
        """Return the settings that a library may have made for all its launches: of the context, and of the stream."""
        found: list[object] = []
        for limit in _LIMITS:
            number = c_size_t(0)
            found += (self.code("cuCtxGetLimit", byref(number), c_int(limit)), number.value)
        preferred = c_int(0)
        found += (self.code("cuCtxGetCacheConfig", byref(preferred)), preferred.value)
        for attribute in _STREAM_ATTRIBUTES:
            answer = (c_uint64 * 8)()  # CUlaunchAttributeValue is 64 bytes
            found += (self.code("cuStreamGetAttribute", c_void_p(stream), c_int(attribute), answer), bytes(answer).hex())
        return found

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function and return its CUresult. Raises NoIdentity where the driver does not have it."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise NoIdentity(f"this driver has no {name}, which CUDA 12.4 and later have") from None
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises NoIdentity for any CUresult but CUDA_SUCCESS."""
        self.check(name, self.code(name, *arguments))

    def check(self, name: str, code: int) -> None:
        """Raise NoIdentity where ``code`` is not CUDA_SUCCESS."""
        if code != 0:
            raise NoIdentity(f"the driver's {name} gives error {code}")
