"""Compile Triton's kernels on all cores, and each of them once for all workers of both sides.

`child.autotuning` calls `compile_ahead` before an autotuner times its configurations, and puts `once_for_all` around Triton's
compiler. What is compiled is in Triton's cache on the disk from then on, also if the check is interrupted.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MOST_THREADS = 16
"""Threads that compile. A sixth of the work needs Python's lock, so that more would wait for each other."""


def name_of(tuner: Any) -> str:
    """Return the name of the kernel of one of Triton's autotuners."""
    function = tuner
    while not hasattr(function, "__name__") and hasattr(function, "fn"):
        function = function.fn
    return str(getattr(function, "__name__", "a kernel"))


def compile_ahead(tuner: Any, configurations: Sequence[Any], named: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Compile a kernel for all configurations of an autotuner, which is about to call it with these arguments.

    Needs Triton 3.4, whose `AsyncCompileMode` hands compilations to threads. What fails here fails again there.
    """
    mode = getattr(sys.modules.get("triton.runtime._async_compile"), "AsyncCompileMode", None)
    if mode is None or len(configurations) < 2:
        return
    say(f"compiling {len(configurations)} configurations of {name_of(tuner)}")
    arguments = tuple(tuner.nargs.values())
    # Whatever goes wrong here costs time only: the autotuner compiles what is missing.
    with contextlib.suppress(Exception), ThreadPoolExecutor(MOST_THREADS) as pool, mode(pool, ignore_errors=True):
        for each in configurations:
            with contextlib.suppress(Exception):
                values = each.all_kwargs()
                if each.pre_hook:  # it may set what the kernel is compiled for, such as the shape of a block
                    each.pre_hook({**tuner.nargs, **named, **values})
                tuner.fn.run(*arguments, **{**named, "warmup": True}, **values)


def once_for_all(compile_it: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    """Return Triton's compiler so that no two processes compile the same kernel at the same time: the second finds it made."""

    @functools.wraps(compile_it)
    def compiled(src: Any, target: Any = None, options: Any = None, **named: Any) -> Any:
        say(f"compiling {getattr(src, 'name', 'a kernel')}")
        with _held(f"{_hash(src)} {target} {options}"):
            return compile_it(src, target=target, options=options, **named)

    return compiled


def _hash(src: Any) -> str:
    return str(src.hash()) if hasattr(src, "hash") else f"{os.getpid()} {threading.get_ident()}"


@contextlib.contextmanager
def _held(key: str) -> Iterator[None]:
    """Hold one byte of a file that this user's processes share; without such a file, hold nothing."""
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])
    try:
        path = Path(tempfile.gettempdir(), f"ratchet-compiling-{os.getuid()}")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            # A lock of the open file (fcntl(2)), which excludes threads too, and ends with whoever holds it.
            fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        yield
    finally:
        os.close(file)
