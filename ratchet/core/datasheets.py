"""Peaks of GPUs: dense rates at boost clock, by the name that NVML gives a GPU. Sources: NVIDIA's datasheets and architecture
whitepapers. They follow from a few numbers:

    bandwidth   = 2 × memory clock × bus width / 8
    FP32        = SMs × lanes × 2 × clock          64 lanes an SM on V100 and A100, 128 later; a multiply-add is two
    FP64        = FP32 / 2 on V100, A100 and Hopper's data-centre parts
    matrix unit = SMs × FLOP per SM and clock × clock      16-bit inputs: 1024 on V100, 2048 on A100, 4096 on H100

Printed rates "with sparsity" are twice as high; no dense kernel reaches those, so they are not here. A variant with another
memory or power limit (PCIe, NVL, Ti, laptop) is another GPU: a name that is not in the table is None, never a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ratchet.core.records.environment import Peaks


@dataclass(frozen=True)
class Datasheet:
    """One kind of GPU. Bandwidth in GB/s, rates in TFLOP/s; None: the chip has no such unit, or its maker gives no figure."""

    name: re.Pattern[str]
    """Matches the whole of NVML's name, without ``NVIDIA`` or ``Tesla``."""
    bandwidth: float
    fp32: float
    fp64: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    tensor_fp64: float | None = None

    def peaks(self) -> Peaks:
        """Peaks in bytes and FLOP per second."""
        rates = {
            "fp64": self.fp64,
            "fp32": self.fp32,
            "tensor_fp64": self.tensor_fp64,
            "tensor_tf32": self.tf32,
            "tensor_bf16": self.bf16,
            "tensor_fp16": self.fp16,
            "tensor_fp8": self.fp8,
        }
        known = {precision: rate * 1e12 for precision, rate in rates.items() if rate is not None}
        return Peaks(dram_bytes_per_s=self.bandwidth * 1e9, flops_per_s=known)


def _sheet(name: str, bandwidth: float, fp32: float, **rates: float) -> Datasheet:
    both = rates.pop("half", None)  # bfloat16 and float16 alike
    half = {} if both is None else {"bf16": both, "fp16": both}
    return Datasheet(re.compile(name, re.IGNORECASE), bandwidth, fp32, **half, **rates)


_A100 = {"fp64": 9.7, "tensor_fp64": 19.5, "tf32": 156.0, "half": 312.0}
_HOPPER = {"fp64": 33.5, "tensor_fp64": 66.9, "tf32": 494.7, "half": 989.4, "fp8": 1979.0}
SHEETS = (
    _sheet(r"V100-SXM2(-\d+GB)?", 900, 15.7, fp64=7.8, fp16=125.0),
    _sheet(r"A100-(SXM4|PCIE)-40GB", 1555, 19.5, **_A100),
    _sheet(r"A100-SXM4-80GB", 2039, 19.5, **_A100),
    _sheet(r"H100( 80GB HBM3| SXM\d?( 80GB)?)", 3350, 66.9, **_HOPPER),
    _sheet(r"H200( 141GB HBM3e| SXM)?", 4800, 66.9, **_HOPPER),
    _sheet(r"GH200( 480GB| 96GB HBM3)?", 4023, 66.9, **_HOPPER),
    _sheet(r"L4", 300, 30.3, tf32=60.0, half=121.0, fp8=242.0),
    _sheet(r"GeForce RTX 3090", 936, 35.6, tf32=35.6, half=71.0),
    _sheet(r"GeForce RTX 4090", 1008, 82.6, tf32=82.6, half=165.0, fp8=330.0),
    _sheet(r"B200", 7700, 75.0, tf32=1125.0, half=2250.0, fp8=4500.0),
    _sheet(r"GB200", 8000, 80.0, tf32=1250.0, half=2500.0, fp8=5000.0),
)
_MAKER = re.compile(r"^(?:NVIDIA|Tesla|Graphics Device)\s+", re.IGNORECASE)


def datasheet(gpu: str | None) -> Peaks | None:
    """Return the peaks of a GPU by its name, as NVML or a report gives it; None where the table has no such GPU.

    A slice of a GPU (``… MIG 1g.10gb``) is not the GPU, so it has no peaks either.
    """
    name = " ".join((gpu or "").split())
    while _MAKER.match(name):
        name = _MAKER.sub("", name)
    return next((sheet.peaks() for sheet in SHEETS if sheet.name.fullmatch(name)), None)


def highest(gpu: str | None) -> Peaks:
    """Return peaks that a GPU does not exceed: its own, or where the table has no such GPU the highest in the table."""
    sheets = [sheet.peaks() for sheet in SHEETS]
    return datasheet(gpu) or Peaks(
        dram_bytes_per_s=max(sheet.dram_bytes_per_s or 0.0 for sheet in sheets),
        flops_per_s={"any": max(rate for sheet in sheets for rate in sheet.flops_per_s.values())},
    )
