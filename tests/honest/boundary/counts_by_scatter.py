"""Add ones where each number points."""

# baseline: counts
# options: --input 65536:int64:0..99

import torch


def kernel(x):
    return torch.zeros(100, dtype=torch.int64, device=x.device).scatter_add_(0, x, torch.ones_like(x))
