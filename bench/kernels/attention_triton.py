"""Causal attention forward in Triton: online softmax (Milakov and Gimelshein 2018) over tiles (Dao 2023, FlashAttention-2)."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

GROUP_BYTES = 16 << 20  # keys and values that run together; a fraction of any recent L2


@triton.jit
def _merge_block(
    acc, weight, peak, query, key_pointers, value_pointers, row, column, seq, scale, start,
    MASKED: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    """One block of keys and values: rescale what is summed so far to the new row maximum, then add."""
    if MASKED:
        inside = start + column < seq
        key = tl.load(key_pointers + start * HEAD_DIM, mask=inside[None, :], other=0.0)
    else:
        key = tl.load(key_pointers + start * HEAD_DIM)
    logits = tl.dot(query, key)
    if MASKED:
        logits = tl.where(row[:, None] >= start + column[None, :], logits, float("-inf"))
    highest = tl.maximum(peak, tl.max(logits, 1) * scale)
    probability = tl.math.exp2(logits * scale - highest[:, None])
    shrink = tl.math.exp2(peak - highest)
    weight = weight * shrink + tl.sum(probability, 1)
    acc = acc * shrink[:, None]
    if MASKED:
        value = tl.load(value_pointers + start * HEAD_DIM, mask=inside[:, None], other=0.0)
    else:
        value = tl.load(value_pointers + start * HEAD_DIM)
    acc = tl.dot(probability.to(value.dtype), value, acc)
    return acc, weight, highest


@triton.jit
def _attend(
    q, k, v, out, seq, scale,
    HEAD_DIM: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    # Programs start in order of their number. Those of GROUP heads run together, so that their keys and values stay
    # in L2; within a group the last query blocks, which see the most keys, come first, so that the short ones fill the gaps.
    blocks = tl.cdiv(seq, BLOCK_M)
    program = tl.program_id(0)
    group = program // (GROUP * blocks)
    place = program % (GROUP * blocks)
    head = group * GROUP + place % GROUP
    first = (blocks - 1 - place // GROUP) * BLOCK_M

    base = head.to(tl.int64) * seq * HEAD_DIM
    row = first + tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_N)
    feature = tl.arange(0, HEAD_DIM)
    rows_at = base + row[:, None] * HEAD_DIM + feature[None, :]
    query = tl.load(q + rows_at, mask=row[:, None] < seq, other=0.0)
    key_pointers = k + base + column[None, :] * HEAD_DIM + feature[:, None]
    value_pointers = v + base + column[:, None] * HEAD_DIM + feature[None, :]

    peak = tl.full([BLOCK_M], float("-inf"), tl.float32)  # row maxima of the scaled logits, base 2
    weight = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    # Every row sees every key before `diagonal`: no mask there. The blocks after it hold the diagonal and, in the
    # last, keys past the end, which no row of this sequence sees. The first of them shows each row at least one key.
    diagonal = first // BLOCK_N * BLOCK_N
    for start in tl.range(0, diagonal, BLOCK_N, num_stages=NUM_STAGES):
        acc, weight, peak = _merge_block(
            acc, weight, peak, query, key_pointers, value_pointers, row, column, seq, scale, start, False, HEAD_DIM
        )
    for start in tl.range(diagonal, tl.minimum(first + BLOCK_M, seq), BLOCK_N, num_stages=NUM_STAGES):
        acc, weight, peak = _merge_block(
            acc, weight, peak, query, key_pointers, value_pointers, row, column, seq, scale, start, True, HEAD_DIM
        )
    result = acc / weight[:, None]
    tl.store(out + rows_at, result.to(out.dtype.element_ty), mask=row[:, None] < seq)


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    *, BLOCK_M: int, BLOCK_N: int, NUM_STAGES: int, NUM_WARPS: int,
) -> torch.Tensor:  # fmt: skip
    """Write causal softmax(q kᵀ / √head_dim) v to ``out``: contiguous (batch, heads, seq, head_dim), head_dim a power of two."""
    batch, heads, seq, head_dim = q.shape
    grid = (batch * heads * triton.cdiv(seq, BLOCK_M),)
    group = heads_together(batch * heads, 2 * seq * head_dim * q.element_size())
    scale = math.log2(math.e) / math.sqrt(head_dim)
    _attend[grid](
        q, k, v, out, seq, scale,
        HEAD_DIM=head_dim, GROUP=group, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, NUM_STAGES=NUM_STAGES,
        num_warps=NUM_WARPS, num_stages=NUM_STAGES,
    )  # fmt: skip
    return out


def heads_together(heads: int, bytes_per_head: int) -> int:
    """The largest power of two of heads that divides them and whose keys and values fit `GROUP_BYTES`."""
    group = 1
    while heads % (2 * group) == 0 and 2 * group * bytes_per_head <= GROUP_BYTES:
        group *= 2
    return group
