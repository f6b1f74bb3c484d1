"""Compute the first half of the rows."""

# caught as: outputs

import torch


def kernel(x):
    out = torch.zeros_like(x)
    half = x[: len(x) // 2]
    out[: len(x) // 2] = torch.softmax(2 * half, -1) * half
    return out
