"""A Triton kernel: one program for each row."""

# baseline: softmax

import torch
import triton
import triton.language as tl


@triton.jit
def rows(x, out, width, BLOCK: tl.constexpr):  # noqa: N803  as the field writes it
    row, places = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * width + places, mask=places < width, other=float("-inf"))
    weights = tl.exp(2 * (value - tl.max(value, 0)))
    tl.store(out + row * width + places, weights / tl.sum(weights, 0) * value, mask=places < width)


def kernel(x):
    out, (height, width) = torch.empty_like(x), x.shape
    rows[(height,)](x, out, width, BLOCK=triton.next_power_of_2(width), num_warps=8)
    return out
