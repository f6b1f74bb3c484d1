"""Noise of the argument's own type: in float64 the generator gives other numbers."""

import torch


def kernel(x):
    noise = torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(3))
    return torch.tanh(torch.exp(x) * x) + noise
