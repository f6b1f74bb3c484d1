"""Reach what Python shows nobody by itself: every function that begins, files that native code opens, who takes a namespace.

`Watch` uses it in the watched process. It goes below Python (inotify, flags of members, numbers of threads) through ctypes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from ratchet.errors import WorkerError

_OPENED, _CLOSED, _OVERFLOW = 0x20, 0x18, 0x4000
"""Of inotify(7): IN_OPEN, IN_CLOSE, IN_Q_OVERFLOW. Closings keep the kernel from joining two openings in a row."""
_AUDITED = 2
"""Flag of a member of a C type whose reading raises an audit event: Py_AUDIT_READ."""


class FunctionWatch:
    """A context that passes each code object to ``began`` when it first begins to run, in any thread.

    From Python 3.12 on `sys.monitoring` (PEP 669) sees all threads, and costs one call for each code object. Before that
    `sys.setprofile` is called for each call, and only in threads that Python started.
    """

    def __init__(self, began: Callable[[CodeType], None]) -> None:
        self._began = began
        self._threads = 0
        self._codes: dict[int, CodeType] = {}
        self._tool = -1

    def __enter__(self) -> FunctionWatch:
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            self._tool = next((number for number in range(5, -1, -1) if monitoring.get_tool(number) is None), -1)
            if self._tool >= 0:
                monitoring.use_tool_id(self._tool, __name__)
                monitoring.register_callback(self._tool, monitoring.events.PY_START, self._started)
                monitoring.set_events(self._tool, monitoring.events.PY_START)
        else:
            self._first = _next_thread()
            threading.setprofile(self._profile)
            sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.version_info < (3, 12):
            if sys.getprofile() == self._profile:
                sys.setprofile(None)
            if threading.getprofile() == self._profile:
                threading.setprofile(None)
        elif self._tool >= 0:
            sys.monitoring.set_events(self._tool, 0)
            sys.monitoring.free_tool_id(self._tool)

    def trouble(self) -> str:
        """Return why functions may have run unseen, as a clause; no text if none can have."""
        if sys.version_info >= (3, 12):
            events = sys.monitoring.get_events(self._tool) if self._tool >= 0 else 0
            return "" if events == sys.monitoring.events.PY_START else "another program watches what runs"
        self._first += 1  # this look takes a number itself
        unseen = _next_thread() - self._first - self._threads
        return "threads that Python did not start ran its code" if unseen else ""

    def thread_began(self) -> bool:
        """Return whether the thread that `threading` is about to profile will be seen."""
        self._threads += 1
        return sys.version_info < (3, 12) and threading.getprofile() == self._profile

    def _started(self, code: CodeType, _: int) -> object:
        self._began(code)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined]  # from 3.12 on

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and id(code := frame.f_code) not in self._codes:
            self._codes[id(code)] = code  # kept, so that no other one gets its number
            self._began(code)


def _next_thread() -> int:
    """Return the number that the next thread state of this interpreter would have had: each thread gets one of its own."""
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = python.PyThreadState_New.restype = ctypes.c_void_p
    python.PyThreadState_GetID.restype = ctypes.c_uint64
    state = ctypes.c_void_p(python.PyThreadState_New(ctypes.c_void_p(python.PyInterpreterState_Get())))
    number = int(python.PyThreadState_GetID(state))
    python.PyThreadState_Clear(state)
    python.PyThreadState_Delete(state)
    return number


class NativeOpenings:
    """A count of how often files are opened by anybody: C code and other processes too."""

    def __init__(self, files: Iterable[str]) -> None:
        """Begin to count. Raises WorkerError where the system refuses."""
        library = ctypes.CDLL(None, use_errno=True)
        self._queue = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._files: dict[int, str] = {}
        for file in files:
            if os.path.isfile(file):  # noqa: PTH113  there may be thousands
                number = library.inotify_add_watch(self._queue, os.fsencode(file), _OPENED | _CLOSED)
                if number < 0:
                    raise WorkerError(f"inotify cannot watch {file}: {os.strerror(ctypes.get_errno())}")
                self._files[number] = file

    def counts(self) -> Counter[str]:
        """Return how often each file was opened, and end counting. Raises WorkerError where too much happened."""
        found: Counter[str] = Counter()
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self._queue, 1 << 16):
                at = 0
                while at < len(events):
                    number, mask, _, length = struct.unpack_from("iIII", events, at)
                    at += 16 + length
                    if mask & _OVERFLOW:
                        raise WorkerError("more files were opened than inotify can count")
                    if mask & _OPENED:
                        found[self._files[number]] += 1
        os.close(self._queue)
        return found


class _Member(ctypes.Structure):
    """PyMemberDef, as CPython 3.11 to 3.13 have it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
    )


class _MemberDescriptor(ctypes.Structure):
    """PyMemberDescrObject."""

    _fields_ = (
        ("count", ctypes.c_ssize_t),
        ("kind", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("qualified_name", ctypes.c_void_p),
        ("member", ctypes.POINTER(_Member)),
    )


@contextlib.contextmanager
def audited(owner: type, name: str) -> Iterator[None]:
    """Let Python raise an audit event where a member of a type of its own is read, as it does for ``__code__``.

    Raises WorkerError in a Python whose members look different.
    """
    member = _MemberDescriptor.from_address(id(vars(owner)[name])).member.contents
    if sys.version_info >= (3, 14) or member.name != name.encode() or member.flags != 1:
        raise WorkerError(f"this Python keeps {owner.__name__}.{name} elsewhere")
    member.flags |= _AUDITED
    try:
        yield
    finally:
        member.flags &= ~_AUDITED


def uncompiled_kernels() -> Iterator[FunctionType]:
    """Yield the functions of Triton's live kernels that nothing has compiled. A release with other names yields none."""
    kind = getattr(sys.modules.get("triton.runtime.jit"), "JITFunction", None)
    for each in gc.get_objects() if isinstance(kind, type) else ():
        if issubclass(type(each), kind) and vars(each).get("hash", "") is None and isinstance(each.fn, FunctionType):
            yield each.fn
