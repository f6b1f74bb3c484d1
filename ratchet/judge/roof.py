"""How near a case comes to what the same machine reached in the same run: the copy for bytes, the matmul for FLOPs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ratchet.records.baseline import BaselineEntry
from ratchet.records.run import CaseRun, WorkloadIdentity

COPY, MATMUL = "copy", "matmul"
"""Benchmarks with these names are the roofs."""


@dataclass(frozen=True)
class Roofs:
    """Measured ceilings: bytes per second, and FLOP per second by dtype."""

    bytes_per_s: float | None
    flops_per_s: Mapping[str, float]


def measured_roofs(cases: tuple[CaseRun, ...], stored: Mapping[str, BaselineEntry]) -> Roofs:
    """The best copy and matmul of this run; where the run has none, of the stored baseline of the same machine."""
    copies: list[float] = []
    products: dict[str, float] = {}
    for name, entry in stored.items():
        _note(name, entry.workload, entry.bandwidth_gb_s, entry.throughput_gflops, copies, products)
    fresh_copies: list[float] = []
    fresh_products: dict[str, float] = {}
    for case in cases:
        if case.workload and case.performance:
            done = case.performance
            _note(case.name, case.workload, done.bandwidth_gb_s, done.throughput_gflops, fresh_copies, fresh_products)
    return Roofs(max(fresh_copies or copies, default=None), {**products, **fresh_products})


def share(workload: WorkloadIdentity, seconds: float, roofs: Roofs) -> tuple[str, float] | None:
    """(roof that binds, share of it reached); None where no roof was measured for this case."""
    times = {}
    if roofs.bytes_per_s and workload.bytes:
        times[COPY] = workload.bytes / roofs.bytes_per_s
    if workload.flops and workload.dtype in roofs.flops_per_s:
        times[MATMUL] = workload.flops / roofs.flops_per_s[workload.dtype]
    if not times:
        return None
    roof = max(times, key=lambda name: times[name])
    return roof, times[roof] / seconds


def _note(
    name: str, workload: WorkloadIdentity, gb_s: float, gflops: float, copies: list[float], products: dict[str, float]
) -> None:
    benchmark = name.partition("/")[0]
    if benchmark == COPY and gb_s:
        copies.append(gb_s * 1e9)
    if benchmark == MATMUL and gflops:
        products[workload.dtype] = max(products.get(workload.dtype, 0.0), gflops * 1e9)
