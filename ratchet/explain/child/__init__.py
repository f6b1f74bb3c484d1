"""Programs that run in a process of their own: the targets of profilers and of `ratchet advise`; and what a worker traces."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

TROUBLE = 70
"""Exit status where nothing could be called."""


def give_up(mark: str, sentence: str) -> NoReturn:
    """End this process with `TROUBLE`, and a last line on stderr that begins with ``mark`` and says why."""
    with contextlib.suppress(OSError, ValueError):  # an author's code may have closed it
        sys.stdout.flush()
    sys.stderr.write(f"\n{mark}{one_line(sentence)}\n")
    sys.stderr.flush()
    os._exit(TROUBLE)  # a broken CUDA context may hang in exit hooks


def one_line(sentence: str) -> str:
    return " ".join(sentence.split())[:500]
