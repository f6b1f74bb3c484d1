"""Projects onto random directions of its own generator."""

import torch


def kernel(x):
    generator = torch.Generator().manual_seed(7)
    return x @ torch.randn(x.shape[1], 16, generator=generator)
