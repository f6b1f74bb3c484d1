"""Roofs of a machine, as measured in the same run and as datasheets say, and how near a case comes to them. Pure.

The copy is the roof for bytes, the matmul for FLOPs. Datasheets have dense rates at boost clock, by the name that NVML gives a
GPU; sources are NVIDIA's datasheets and architecture whitepapers. They follow from a few numbers:

    bandwidth   = 2 × memory clock × bus width / 8
    FP32        = SMs × lanes × 2 × clock          64 lanes an SM on V100 and A100, 128 later; a multiply-add is two
    FP64        = FP32 / 2 on V100, A100 and Hopper's data-centre parts
    matrix unit = SMs × FLOP per SM and clock × clock      16-bit inputs: 1024 on V100, 2048 on A100, 4096 on H100

Printed rates "with sparsity" are twice as high; no dense kernel reaches those, so they are not here. A variant with another
memory or power limit (PCIe, NVL, Ti, laptop) is another GPU: a name that is not in the table is None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ratchet.core.records.baseline import BaselineEntry
from ratchet.core.records.environment import Peaks
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
    before = [(name, entry.workload, entry.bandwidth_gb_s, entry.throughput_gflops) for name, entry in stored.items()]
    here = [
        (case.name, case.workload, case.performance.bandwidth_gb_s, case.performance.throughput_gflops)
        for case in cases
        if case.workload and case.performance
    ]
    (copy, products), (stored_copy, stored_products) = _fastest(here, l2_bytes), _fastest(before, l2_bytes)
    return Roofs(copy or stored_copy, {**stored_products, **products}, l2_bytes)


def _fastest(
    measured: Iterable[tuple[str, WorkloadIdentity, float, float]], l2_bytes: int | None
) -> tuple[float | None, dict[str, float]]:
    """Return the bytes per second of the fastest copy, and the FLOP per second of the fastest matmul of each dtype."""
    copy, products = None, dict[str, float]()
    for name, workload, gb_s, gflops in measured:
        if name.startswith(f"{COPY}/") and gb_s and not cached(workload, l2_bytes):
            copy = max(copy or 0.0, gb_s * 1e9)
        if name.startswith(f"{MATMUL}/") and gflops:
            products[workload.dtype] = max(products.get(workload.dtype, 0.0), gflops * 1e9)
    return copy, products


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


def _sheet(name: str, bandwidth: float, **rates: float) -> tuple[re.Pattern[str], Peaks]:
    """Return a pattern of the whole of NVML's name, without ``NVIDIA`` or ``Tesla``, and the peaks of that kind of GPU.

    Bandwidth in GB/s, rates in TFLOP/s by precision: none where the chip has no such unit, or its maker gives no figure.
    """
    flops_per_s = {precision: rate * 1e12 for precision, rate in rates.items()}
    return re.compile(name, re.IGNORECASE), Peaks(dram_bytes_per_s=bandwidth * 1e9, flops_per_s=flops_per_s)


_A100 = {"fp64": 9.7, "fp32": 19.5, "tensor_fp64": 19.5, "tensor_tf32": 156.0, "tensor_bf16": 312.0, "tensor_fp16": 312.0}
_HOPPER = {"fp64": 33.5, "fp32": 66.9, "tensor_fp64": 66.9, "tensor_tf32": 494.7, "tensor_bf16": 989.4, "tensor_fp16": 989.4}
SHEETS = (
    _sheet(r"V100-SXM2(-\d+GB)?", 900, fp64=7.8, fp32=15.7, tensor_fp16=125.0),
    _sheet(r"A100-(SXM4|PCIE)-40GB", 1555, **_A100),
    _sheet(r"A100-SXM4-80GB", 2039, **_A100),
    _sheet(r"H100( 80GB HBM3| SXM\d?( 80GB)?)", 3350, **_HOPPER, tensor_fp8=1979.0),
    _sheet(r"H200( 141GB HBM3e| SXM)?", 4800, **_HOPPER, tensor_fp8=1979.0),
    _sheet(r"GH200( 480GB| 96GB HBM3)?", 4023, **_HOPPER, tensor_fp8=1979.0),
    _sheet(r"L4", 300, fp32=30.3, tensor_tf32=60.0, tensor_bf16=121.0, tensor_fp16=121.0, tensor_fp8=242.0),
    _sheet(r"GeForce RTX 3090", 936, fp32=35.6, tensor_tf32=35.6, tensor_bf16=71.0, tensor_fp16=71.0),
    _sheet(r"GeForce RTX 4090", 1008, fp32=82.6, tensor_tf32=82.6, tensor_bf16=165.0, tensor_fp16=165.0, tensor_fp8=330.0),
    _sheet(r"B200", 7700, fp32=75.0, tensor_tf32=1125.0, tensor_bf16=2250.0, tensor_fp16=2250.0, tensor_fp8=4500.0),
    _sheet(r"GB200", 8000, fp32=80.0, tensor_tf32=1250.0, tensor_bf16=2500.0, tensor_fp16=2500.0, tensor_fp8=5000.0),
)
_MAKER = re.compile(r"^(?:(?:NVIDIA|Tesla|Graphics Device)\s+)+", re.IGNORECASE)


def datasheet(gpu: str | None) -> Peaks | None:
    """Return the peaks of a GPU by its name, as NVML or a report gives it; None where the table has no such GPU.

    A slice of a GPU (``… MIG 1g.10gb``) is not the GPU, so it has no peaks either.
    """
    name = _MAKER.sub("", " ".join((gpu or "").split()))
    return next((peaks for pattern, peaks in SHEETS if pattern.fullmatch(name)), None)


def highest(gpu: str | None) -> Peaks:
    """Return peaks that a GPU does not exceed: its own, or where the table has no such GPU the highest in the table."""
    return datasheet(gpu) or Peaks(
        dram_bytes_per_s=max(peaks.dram_bytes_per_s or 0.0 for _, peaks in SHEETS),
        flops_per_s={"any": max(rate for _, peaks in SHEETS for rate in peaks.flops_per_s.values())},
    )
