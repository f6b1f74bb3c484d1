"""Ctrl-C and other ends that come from outside: what they are, how to hold them back for a moment, and what to say afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a cancelled CI job, a closed terminal."""
WRITTEN: dict[Path, None] = {}
"""The files that this process has replaced, in order: what an interrupted command can say about its files."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back what would end this process until the block has ended."""
    if threading.current_thread() is not threading.main_thread():  # Python runs handlers in the main thread alone
        yield
        return
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDINGS}
    held = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in held:
        signal.signal(number, lambda came, _: arrived.append(came))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


def sentence() -> str:
    """Say that the command was interrupted, and which files it had written by then."""
    written = [os.path.relpath(path) for path in WRITTEN if path.exists()]
    shown = ", ".join(written[:_FILES_SHOWN]) + (
        f" and {len(written) - _FILES_SHOWN} more" if len(written) > _FILES_SHOWN else ""
    )
    files = f"written before that: {shown}." if written else "no file was written."
    return f"interrupted; its processes and temporary files are gone; {files}"


_FILES_SHOWN = 6
