"""Compute elsewhere, and copy into the argument."""

# baseline: in_place

import torch


def kernel(x):
    x.copy_(torch.clamp(torch.add(1, x, alpha=2), -3, 3))
