"""Roofs of a machine, and where cases stand below them (Williams, Waterman and Patterson 2009).

`ratchet.explain.roofline` computes it. Pure.
"""

from __future__ import annotations

from typing import Literal

from ratchet.core.judge.roofs import datasheet
from ratchet.core.records import NotNegative, Positive, Record
from ratchet.core.records.environment import Fingerprint, Peaks
from ratchet.core.records.run import Side

Bound = Literal["memory", "compute", "neither", "cache"]


class Roof(Record):
    """One ceiling."""

    kind: Literal["dram", "l2", "compute"]
    source: Literal["datasheet", "report", "measured"]
    """``report``: what the profiler's report holds the GPU to, at the clocks of the measurement."""
    rate: Positive
    """Bytes per second; FLOP per second where ``kind`` is ``compute``."""
    precision: str | None = None
    """Precision of a compute roof: ``fp32``, ``tensor_bf16`` … (as in `Peaks`)."""

    @property
    def key(self) -> str:
        """A name such as ``dram measured`` or ``tensor_bf16 datasheet``."""
        return f"{self.precision or self.kind} {self.source}"


class RooflinePoint(Record):
    """One case, or one side of it, in one call."""

    case: str
    side: Side | None = None
    flops: NotNegative
    """Operations of one call, in ``precision``."""
    precision: str
    """The one whose roof it is read against: of several, the one that takes the most time there."""
    bytes: NotNegative
    """To and from device memory, in one call."""
    seconds: Positive
    source: Literal["counters", "declared"]
    """``counters``: the profiler counted; ``declared``: the benchmark says so."""
    timed_by: Literal["benchmark", "profiler"] = "benchmark"
    warm: bool = False
    """Timed with its data in the L2 cache, or with data that fit into it: the roof of the memory does not hold it."""
    all_flops: dict[str, NotNegative] = {}
    """Every precision, where there are counters."""
    of_declared: NotNegative | None = None
    """Counted over declared FLOPs, in the workload's own precision; None where one of them is not known."""
    shares: dict[str, NotNegative] = {}
    """Key of a roof → fraction of it that was reached; without the memory's where declared bytes come from the cache."""
    bound: Bound | None = None
    """By what; ``neither`` where it is far from both. None where no roof is known for it."""
    bound_roof: str | None = None
    """Key of the nearest roof."""

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where one of them is 0."""
        return self.flops / self.bytes if self.bytes and self.flops else None

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds


class Roofline(Record):
    """``results/roofline/roofline.json``: roofs, points, and what is to be known beside them."""

    schema_version: Literal[1] = 1
    device: str
    """Name of the GPU, or of the CPU."""
    roofs: tuple[Roof, ...] = ()
    points: tuple[RooflinePoint, ...] = ()
    notes: tuple[str, ...] = ()


def printed_peaks(fingerprint: Fingerprint) -> Peaks | None:
    """Return the datasheet's peaks of a machine. A slice of a GPU (MIG) is not the GPU."""
    return None if fingerprint.mig == "on" else datasheet(fingerprint.gpu)
