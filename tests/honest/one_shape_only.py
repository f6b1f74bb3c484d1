"""Be written for one shape, and say so."""

import torch


def kernel(x):
    assert x.shape == (64, 64), "this kernel is for 64 × 64"
    return torch.softmax(2 * x, -1) * x
