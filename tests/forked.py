"""A process of its own for a part of a test."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def forked(work: Callable[[int], object]) -> str:
    """Return what a function writes to a pipe in a process of its own."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads of the parent are no concern of the child, which runs this function alone
        pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            work(writer)
        except BaseException:  # noqa: BLE001  the parent cannot see it otherwise
            traceback.print_exc()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text
