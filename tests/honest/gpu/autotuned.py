"""A Triton kernel that tunes itself at its first call."""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (4, 8)], key=["columns"])
@triton.jit
def softmax(out, x, columns: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0) * columns + tl.arange(0, block)
    inside = tl.arange(0, block) < columns
    values = tl.load(x + place, mask=inside, other=-float("inf"))
    powers = tl.exp(2 * (values - tl.max(values, 0)))
    tl.store(out + place, powers / tl.sum(powers, 0) * values, mask=inside)


def kernel(x):
    out = torch.empty_like(x)
    softmax[(x.shape[0],)](out, x, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out
