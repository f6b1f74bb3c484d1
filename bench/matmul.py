"""torch's square matrix product: bfloat16 on a GPU, float32 on the CPU. A library's kernel, timed as a landmark."""

from __future__ import annotations

import torch

from ratchet import Workload, benchmark


@benchmark(
    configs={"square_2048": {"size": 2048}, "square_4096": {"size": 4096}},
    devices=("cuda", "cpu"),
    cpu_configs={"square_256": {"size": 256}, "square_512": {"size": 512}},
)
def matmul(*, device: torch.device, size: int) -> Workload:
    """a, b and out: (size, size)."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    a = torch.randn(size, size, device=device, dtype=dtype)
    b = torch.randn(size, size, device=device, dtype=dtype)
    out = torch.empty_like(a)
    return Workload(
        run=lambda: torch.mm(a, b, out=out),
        reference=lambda: a.double() @ b.double(),
        dtype=str(dtype).removeprefix("torch."),
        flops=2 * size**3,
        bytes=3 * out.nbytes,
    )
