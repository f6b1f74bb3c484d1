"""How many processes compile beside the one that is timed."""

from __future__ import annotations

import os
from typing import cast

import pytest

from ratchet.core.device.gpu import Gpu
from ratchet.tune.trials import compiling_processes

GIB = 1 << 30


class Memory:
    """A GPU that only says what is free."""

    def __init__(self, free: int | None) -> None:
        self._free = free

    def free_memory_bytes(self) -> int | None:
        return self._free


@pytest.mark.parametrize(
    ("cores", "free", "workload", "stations", "wanted"),
    [
        (16, None, 0, 1, 12),
        (16, 140 * GIB, 0.1 * GIB, 1, 12),
        (8, 140 * GIB, 0.1 * GIB, 1, 5),
        (8, 140 * GIB, 0.1 * GIB, 4, 1),
        (2, 140 * GIB, 0.1 * GIB, 1, 1),
        (16, 140 * GIB, 10 * GIB, 1, 3),
        (16, 140 * GIB, 40 * GIB, 1, 0),
    ],
    ids=["memory unknown", "twelve at most", "few cores", "shared cores", "no core to spare", "large", "too large"],
)
def test_cores_and_memory_say_how_many(
    cores: int, free: int | None, workload: float, stations: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One core each, three being left, and half of the free memory; none where a single one would take more than that."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert compiling_processes(cast("Gpu", Memory(free)), workload, stations) == wanted
