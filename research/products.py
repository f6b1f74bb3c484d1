"""A matrix product in Triton with a space of some thousand configurations: which ``scaling.py`` tunes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ratchet import Workload, benchmark

TUNE = {
    "BLOCK_M": (32, 64, 128, 256),
    "BLOCK_N": (32, 64, 128, 256),
    "BLOCK_K": (16, 32, 64, 128),
    "GROUP_M": (1, 4, 8, 16),  # rows of blocks that run at about the same time, and share columns in the L2 cache
    "NUM_STAGES": (1, 2, 3, 4, 5),
    "NUM_WARPS": (2, 4, 8, 16),
}
TUNING = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "NUM_STAGES": 3, "NUM_WARPS": 4}
SHARED_BYTES = 227 * 1024
REGISTERS = 255


@triton.jit  # type: ignore[untyped-decorator]  # triton ships no types
def product(  # type: ignore[no-untyped-def]  # pointers, which have no type in Triton
    a, b, c, size, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr
):  # fmt: skip
    """c = a b, all square and contiguous; ``size`` is a multiple of every block."""
    number = tl.program_id(0)
    rows, columns = size // BLOCK_M, size // BLOCK_N
    in_group = GROUP_M * columns
    first = number // in_group * GROUP_M
    height = min(rows - first, GROUP_M)
    row = first + number % in_group % height
    column = number % in_group // height
    at_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    at_k = tl.arange(0, BLOCK_K)
    left = a + at_m[:, None] * size + at_k[None, :]
    right = b + at_k[:, None] * size + at_n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, size, BLOCK_K):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BLOCK_K
        right += BLOCK_K * size
    tl.store(c + at_m[:, None] * size + at_n[None, :], total.to(c.dtype.element_ty))


def fits_shared_memory(BLOCK_M: int, BLOCK_N: int, BLOCK_K: int, NUM_STAGES: int) -> bool:
    return NUM_STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2 <= SHARED_BYTES


def fits_registers(BLOCK_M: int, BLOCK_N: int, NUM_WARPS: int) -> bool:
    return BLOCK_M * BLOCK_N <= 32 * NUM_WARPS * REGISTERS // 2


@benchmark(
    configs={"square_2048": {"size": 2048}, "square_4096": {"size": 4096}, "square_8192": {"size": 8192}}, devices=("cuda",)
)
def products(*, device: torch.device, size: int) -> Workload:
    """a, b and c: (size, size)."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)

    def run(BLOCK_M: int, BLOCK_N: int, BLOCK_K: int, GROUP_M: int, NUM_STAGES: int, NUM_WARPS: int) -> torch.Tensor:
        blocks = (size // BLOCK_M) * (size // BLOCK_N)
        product[(blocks,)](a, b, c, size, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_stages=NUM_STAGES, num_warps=NUM_WARPS)
        return c

    return Workload(
        run=run,
        reference=lambda: a.double() @ b.double(),
        dtype="bfloat16",
        flops=2 * size**3,
        bytes=3 * c.nbytes,
        tune=TUNE,
        tuning=TUNING,
        constraints=(fits_shared_memory, fits_registers),
    )
