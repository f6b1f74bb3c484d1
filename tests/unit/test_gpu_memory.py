"""How an evaluation tells its own memory of a GPU from that of others, with a GPU that says what the test wants."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace
from typing import Any

from ratchet.core.device.gpu import ComputeProcess
from ratchet.lab.gpu_memory import GpuMemory, InUse

GIB = 2**30
OURS = ComputeProcess(os.getpid(), 2 * GIB)
OTHER = os.getppid()
"""A process that lives and is not below this one."""


def memory(used: int, *listings: list[ComputeProcess]) -> GpuMemory:
    """Of a GPU of which so much is in use; ``listings``: what it answers, one after the other, the last for ever."""
    left = list(listings)
    gpu: Any = SimpleNamespace(compute_processes=lambda: left.pop(0) if len(left) > 1 else left[0])
    return GpuMemory(gpu, lambda: used)


def test_all_is_ours_where_nobody_else_is_there() -> None:
    """The driver's own share counts as well: the same of it is there before and after."""
    alone = memory(3 * GIB, [OURS])
    assert (alone.ours(), alone.others_seen) == (InUse(3 * GIB, 3 * GIB), False)


def test_what_others_hold_is_not_ours() -> None:
    shared = memory(10 * GIB, [OURS, ComputeProcess(OTHER, 7 * GIB)])
    assert (shared.ours(), shared.others_seen) == (InUse(3 * GIB, 3 * GIB), True)


def test_what_others_may_have_taken_between_two_questions_may_be_theirs_or_ours() -> None:
    """Whichever way they went: nobody knows how much they held at the moment in between."""
    small, large = [OURS, ComputeProcess(OTHER, GIB)], [OURS, ComputeProcess(OTHER, 7 * GIB)]
    assert memory(10 * GIB, small, large).ours() == memory(10 * GIB, large, small).ours() == InUse(3 * GIB, 9 * GIB)


def test_memory_of_an_unknown_size_may_be_any_part() -> None:
    assert memory(10 * GIB, [OURS, ComputeProcess(OTHER, None)]).ours() == InUse(0, 10 * GIB)


def test_processes_below_this_one_are_ours() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        mine = memory(10 * GIB, [OURS, ComputeProcess(child.pid, 7 * GIB)])
        found = mine.ours()
        child.kill()
    assert (found, mine.others_seen) == (InUse(10 * GIB, 10 * GIB), False)


def test_a_process_that_has_ended_is_nobody_else() -> None:
    """A driver lists a process for a moment after its end, and those that an evaluation starts end all the time."""
    with subprocess.Popen(["true"]) as ended:
        pass
    gone = memory(3 * GIB, [OURS, ComputeProcess(ended.pid, GIB)])
    assert (gone.ours(), gone.others_seen) == (InUse(3 * GIB, 3 * GIB), False)


def test_nobody_is_told_apart_where_the_driver_counts_processes_otherwise() -> None:
    """As in a container, where the driver names the numbers of another namespace."""
    apart = memory(10 * GIB, [ComputeProcess(OTHER, 7 * GIB)])
    assert (apart.ours(), apart.others_seen) == (InUse(10 * GIB, 10 * GIB), False)
