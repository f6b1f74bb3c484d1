"""A matrix product in Triton whose tile and arithmetic can be chosen: two planted causes in one kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, out, N, K,
    TENSOR: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One tile of out = a @ b; all sides are multiples of the tile's."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_at = a + row[:, None] * K + inner[None, :]
    b_at = b + inner[:, None] * N + column[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        left = tl.load(a_at)
        right = tl.load(b_at)
        if TENSOR:
            acc = tl.dot(left, right, acc)
        else:  # float32 operands at full precision: no matrix unit takes them
            acc = tl.dot(left.to(tl.float32), right.to(tl.float32), acc, input_precision="ieee")
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    tl.store(out + row[:, None] * N + column[None, :], acc.to(out.dtype.element_ty))


def launch(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, tensor: bool, tile: tuple[int, int, int], warps: int) -> None:
    """a: (M, K), b: (K, N), out: (M, N), all contiguous; ``tile`` is (BLOCK_M, BLOCK_N, BLOCK_K)."""
    rows, inner = a.shape
    columns = b.shape[1]
    grid = (rows // tile[0], columns // tile[1])
    matmul[grid](
        a, b, out, columns, inner, TENSOR=tensor, BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=tile[2], num_warps=warps, num_stages=3
    )
