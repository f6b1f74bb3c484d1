"""Sums up to each element by a product with a triangle of ones, and block after block."""

# baseline: running_sum
# options: --input 256x512

import torch


def kernel(x):
    ones = torch.ones(64, 64, device=x.device, dtype=x.dtype).triu()
    within = x.view(len(x), -1, 64) @ ones
    before = within[:, :, -1].cumsum(-1).roll(1, -1)
    before[:, 0] = 0
    return (within + before[:, :, None]).view_as(x)
