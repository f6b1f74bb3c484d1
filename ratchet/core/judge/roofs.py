"""How near a case comes to the roof that its machine reached in the same run: the copy for bytes, the matmul for FLOPs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ratchet.core.records.baseline import BaselineEntry
from ratchet.core.records.run import CaseRun, WorkloadIdentity

COPY, MATMUL = "copy", "matmul"
"""Benchmarks with these names are the roofs."""


@dataclass(frozen=True)
class Roofs:
    """Measured ceilings: bytes per second, and FLOP per second by dtype."""

    bytes_per_s: float | None
    flops_per_s: Mapping[str, float]
    l2_bytes: int | None = None
    """Size of the L2 cache, where it is known: the copy is no roof for what fits into it."""


@dataclass(frozen=True)
class RoofShare:
    """The share that a case reaches of the roof that binds it."""

    roof: str
    share: float | None
    """None where the roof does not hold the case, for the reason that ``cached`` gives."""
    cached: Literal["warm", "fits"] | None = None


def measured_roofs(cases: tuple[CaseRun, ...], stored: Mapping[str, BaselineEntry], l2_bytes: int | None = None) -> Roofs:
    """Return the best copy and matmul of this run; where the run has none, of the stored baseline of the same machine.

    A copy whose data come from the L2 cache (of ``l2_bytes``) says nothing about device memory, and is left out.
    """
    copies: list[float] = []
    products: dict[str, float] = {}
    for name, entry in stored.items():
        speed = 0.0 if cached(entry.workload, l2_bytes) else entry.bandwidth_gb_s
        _note(name, entry.workload, speed, entry.throughput_gflops, copies, products)
    fresh_copies: list[float] = []
    fresh_products: dict[str, float] = {}
    for case in cases:
        if case.workload and case.performance:
            done = case.performance
            speed = 0.0 if cached(case.workload, l2_bytes) else done.bandwidth_gb_s
            _note(case.name, case.workload, speed, done.throughput_gflops, fresh_copies, fresh_products)
    return Roofs(max(fresh_copies or copies, default=None), {**products, **fresh_products}, l2_bytes)


def is_warm(workload: WorkloadIdentity) -> bool:
    """Return whether the samples found their data in the L2 cache: asked for so, or replayed in a graph."""
    return workload.device == "cuda" and (workload.cache == "warm" or workload.clock == "graph")


def cached(workload: WorkloadIdentity, l2_bytes: int | None) -> Literal["warm", "fits"] | None:
    """Return why a case on a GPU may get its data from the L2 cache instead of device memory; None where it may not.

    What fits is read from device memory by the first touch after a flush; what is written stays in the cache.
    """
    if is_warm(workload):
        return "warm"
    return "fits" if workload.device == "cuda" and l2_bytes and 0 < (workload.bytes or 0) <= l2_bytes else None


def share(workload: WorkloadIdentity, seconds: float, roofs: Roofs) -> RoofShare | None:
    """Return how near the case comes to the roof that binds it; None where no roof was measured for it."""
    times = {}
    if roofs.bytes_per_s and workload.bytes:
        times[COPY] = workload.bytes / roofs.bytes_per_s
    if workload.flops and workload.dtype in roofs.flops_per_s:
        times[MATMUL] = workload.flops / roofs.flops_per_s[workload.dtype]
    if not times:
        return None
    roof = max(times, key=lambda name: times[name])
    if roof == COPY and (why := cached(workload, roofs.l2_bytes)):
        return RoofShare(roof, None, why)
    return RoofShare(roof, times[roof] / seconds)


def _note(
    name: str, workload: WorkloadIdentity, gb_s: float, gflops: float, copies: list[float], products: dict[str, float]
) -> None:
    if name.startswith(f"{COPY}/") and gb_s:
        copies.append(gb_s * 1e9)
    if name.startswith(f"{MATMUL}/") and gflops:
        products[workload.dtype] = max(products.get(workload.dtype, 0.0), gflops * 1e9)
