"""Reach what Python tells nobody by itself: which functions begin, what native code opens, which objects live.

`Watch` uses it in the watched process. It goes below Python (inotify, numbers of threads) through ctypes.
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

from ratchet.core.errors import WorkerError

_OPENED, _CLOSED, _OVERFLOW = 0x20, 0x18, 0x4000
"""Of inotify(7): IN_OPEN, IN_CLOSE, IN_Q_OVERFLOW. Closings keep the kernel from joining two openings in a row."""


class FunctionWatch:
    """A context that passes each code object to ``began`` when it begins to run, in any thread.

    From Python 3.12 on `sys.monitoring` (PEP 669) sees all threads, and costs one call for each code object. Before that
    `sys.setprofile` is called for each call, and only in threads that Python started.
    """

    def __init__(self, began: Callable[[CodeType], None]) -> None:
        self._began = began
        self._codes: dict[int, CodeType] = {}
        self._threads, self._tool = 0, -1

    def __enter__(self) -> FunctionWatch:
        if sys.version_info < (3, 12):
            self._threads = _next_thread() + 1
            threading.setprofile(self._profile)
            sys.setprofile(self._profile)
        else:
            monitoring = sys.monitoring
            self._tool = next((number for number in range(5, -1, -1) if monitoring.get_tool(number) is None), -1)
            if self._tool < 0:
                raise WorkerError("six other programs watch what runs")
            monitoring.use_tool_id(self._tool, __name__)
            monitoring.register_callback(self._tool, monitoring.events.PY_START, self._started)
            monitoring.set_events(self._tool, monitoring.events.PY_START)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(self._tool, 0)
            sys.monitoring.free_tool_id(self._tool)
            return
        for owner in (sys, threading):
            if owner.getprofile() == self._profile:
                owner.setprofile(None)

    def thread_began(self) -> bool:
        """Return whether the thread that `threading` is about to profile will be seen."""
        self._threads += 1
        return sys.version_info < (3, 12) and threading.getprofile() == self._profile

    def trouble(self) -> str:
        """Return why functions may have run unseen, as a clause; no text if none can have."""
        if sys.version_info >= (3, 12):
            return "" if sys.monitoring.get_events(self._tool) else "its own code stopped what watches functions"
        unseen, self._threads = _next_thread() - self._threads, self._threads + 1  # the number that this look took
        return "threads that Python did not start ran its code" if unseen else ""

    def _started(self, code: CodeType, _: int) -> object:
        self._began(code)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined]  # from 3.12 on

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and id(code := frame.f_code) not in self._codes:
            self._codes[id(code)] = code  # kept, so that no other one gets its number
            self._began(code)


def _next_thread() -> int:
    """Return the number that the next thread would have had in this interpreter: each gets its own, whoever starts it."""
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = python.PyThreadState_New.restype = ctypes.c_void_p
    python.PyThreadState_GetID.restype = ctypes.c_uint64
    state = ctypes.c_void_p(python.PyThreadState_New(ctypes.c_void_p(python.PyInterpreterState_Get())))
    number = int(python.PyThreadState_GetID(state))
    python.PyThreadState_Clear(state)
    python.PyThreadState_Delete(state)
    return number


class NativeOpenings:
    """A count of how often files are opened from now on, by anybody: C code and other processes too."""

    def __init__(self, files: Iterable[str]) -> None:
        """Begin to count. Raises WorkerError where the system refuses."""
        library = ctypes.CDLL(None, use_errno=True)
        self._queue = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        there = [file for file in files if os.path.isfile(file)]  # noqa: PTH113  there may be thousands
        numbers = [library.inotify_add_watch(self._queue, os.fsencode(file), _OPENED | _CLOSED) for file in there]
        if self._queue < 0 or -1 in numbers:
            raise WorkerError(f"inotify cannot watch its files: {os.strerror(ctypes.get_errno())}")
        self._files = dict(zip(numbers, there, strict=True))

    def counts(self) -> Counter[str]:
        """Return how often each file was opened, and end counting. Raises WorkerError where too much happened."""
        found: Counter[str] = Counter()
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self._queue, 1 << 16):
                for number, mask, _, _ in struct.iter_unpack("iIII", events):
                    if mask & _OVERFLOW:
                        raise WorkerError("more files were opened than inotify can count")
                    found.update([self._files[number]] if mask & _OPENED else ())
        os.close(self._queue)
        return found


JIT_FUNCTION, COMPILED_KERNEL = ("triton.runtime.jit", "JITFunction"), ("triton.compiler.compiler", "CompiledKernel")
"""Modules and names of the classes of which `freeze` keeps the objects in sight."""
_FROZEN: list[Any] = []
_MARK: list[list[Any]] = [[]]
"""Holds an object that was made after the last freezing, and that the collector lists, unless somebody freezes objects again."""


def uncompiled_kernels() -> Iterator[FunctionType]:
    """Yield the functions of Triton's live kernels that nothing has compiled. A release with other names yields none."""
    kernels = (each for each in living(JIT_FUNCTION) if vars(each).get("hash", "") is None)
    yield from (kernel.fn for kernel in kernels if isinstance(kernel.fn, FunctionType))


def living(*kinds: tuple[str, str]) -> list[Any]:
    """Return the live objects of these classes, as far as their modules were imported: those too that `freeze` hid."""
    named = (getattr(sys.modules.get(module), name, None) for module, name in kinds)
    if not (classes := tuple(kind for kind in named if isinstance(kind, type))):
        return []
    seen = [*_FROZEN, *gc.get_objects()]
    if not any(each is _MARK[0] for each in seen):  # somebody else froze what lived
        gc.unfreeze()
        seen = gc.get_objects()
    return list({id(each): each for each in seen if issubclass(type(each), classes)}.values())


def freeze() -> None:
    """Hide all that lives from the collector, as `gc.freeze` does; `living` finds Triton's kernels all the same.

    The collector lists nothing that is frozen; and after an unfreezing, each collection takes 0.3 s where torch is loaded.
    """
    _FROZEN[:] = living(JIT_FUNCTION, COMPILED_KERNEL)
    gc.freeze()
    _MARK[0] = []
