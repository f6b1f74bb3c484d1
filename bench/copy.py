"""A copy within device memory: the bandwidth that a kernel bound by memory can hope for."""

from __future__ import annotations

import torch

from ratchet import Workload, benchmark

MIB = 1 << 20


@benchmark(
    configs={"mib_256": {"mib": 256}},
    devices=("cuda", "cpu"),
    cpu_configs={"mib_4": {"mib": 4}},  # stays in the cache: the memory of a shared machine is too noisy
)
def copy(*, device: torch.device, mib: int) -> Workload:
    """x and out: ``mib`` MiB of float32 each; the bytes count the read and the write."""
    x = torch.randn(mib * MIB // 4, device=device)
    out = torch.empty_like(x)
    return Workload(
        run=lambda: out.copy_(x),
        reference=x.double,
        dtype="float32",
        flops=0,
        bytes=2 * x.nbytes,
        tolerance={"float32": 0.0},
    )
