"""Roofs of this machine: a copy within device memory, and a square matrix product in each precision."""

from __future__ import annotations

import torch

from ratchet import Workload, benchmark

MIB = 1 << 20


@benchmark(configs={"mib_256": {"mib": 256}}, cpu_configs={"mib_64": {"mib": 64}}, devices=("cuda", "cpu"))
def copy(*, device: torch.device, mib: int) -> Workload:
    """x and out: ``mib`` MiB of float32 each, more than a cache holds; the bytes count the read and the write."""
    x = torch.randn(mib * MIB // 4, device=device)
    out = torch.empty_like(x)
    return Workload(run=lambda: out.copy_(x), reference=lambda: x, dtype="float32", flops=0, bytes=2 * x.nbytes)


@benchmark(
    configs={dtype: {"dtype": dtype, "size": 4096} for dtype in ("float64", "float32", "float16", "bfloat16")},
    cpu_configs={dtype: {"dtype": dtype, "size": 1024} for dtype in ("float64", "float32")},
    devices=("cuda", "cpu"),
)
def matmul(*, device: torch.device, dtype: str, size: int) -> Workload:
    """a, b and out: (size, size)."""
    a, b = (torch.randn(size, size, device=device).to(getattr(torch, dtype)) for _ in range(2))
    out = torch.empty_like(a)
    return Workload(
        run=lambda: torch.mm(a, b, out=out),
        reference=lambda: a.double() @ b.double(),
        dtype=dtype,
        flops=2 * size**3,
        bytes=3 * out.nbytes,
    )
