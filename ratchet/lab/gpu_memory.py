"""Tell how much of a GPU's memory an evaluation's own processes hold, while others may use the GPU as well."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ratchet.core.device.gpu import Gpu
from ratchet.lab.child import containment


class InUse(NamedTuple):
    """Bytes: no less than ``least`` and no more than ``most``."""

    least: int
    most: int


def _in_use_bytes() -> int:
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free


class GpuMemory:
    """The memory of the GPU that this process and those below it hold."""

    def __init__(self, gpu: Gpu, in_use_bytes: Callable[[], int] = _in_use_bytes) -> None:
        """Ask ``gpu`` who else is there. ``in_use_bytes``: of whomever."""
        self._gpu, self._in_use_bytes = gpu, in_use_bytes
        self.others_seen = False

    def ours(self) -> InUse:
        """Return what is in use without what others hold.

        Others take and free memory between two questions, so they are asked for before and after. Where the driver does not
        list this process, as in a container, nobody else can be told from it, and all that is in use counts as ours.
        """
        before, used, after = self._of_others(), self._in_use_bytes(), self._of_others()
        held = (0, used) if before is None or after is None else (before, after)
        return InUse(max(0, used - max(held)), max(0, used - min(held)))

    def _of_others(self) -> int | None:
        """Return the bytes that others hold; None where the driver does not say it of one of them."""
        listed = {process.pid: process.used_memory_bytes for process in self._gpu.compute_processes()}
        us = os.getpid()
        if us not in listed:
            return 0
        ours = {us, *containment.below(us)}
        # The driver lists a process of ours that has just ended for a moment longer than it is below us.
        sizes = [size for pid, size in listed.items() if pid not in ours and Path(f"/proc/{pid}").exists()]
        self.others_seen = self.others_seen or bool(sizes)
        return None if None in sizes else sum(size or 0 for size in sizes)
