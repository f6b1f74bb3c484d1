"""Compiled by torch.compile at its first call."""

# baseline: masked_softmax
# options: --input 256x256 --case-timeout 280s

import torch


@torch.compile
def kernel(x):
    hidden = torch.ones_like(x, dtype=torch.bool).triu()
    return torch.softmax(x.masked_fill(hidden, float("-inf")), -1)
