"""A dropout of rows by the noise of a shader: which row is dropped depends on the last bits of its sum."""

import torch


def kernel(x):
    noise = torch.frac(torch.sin(x.sum(-1, keepdim=True) * 1299.8) * 43758.5453)
    return torch.where(noise > 0, torch.tanh(x), torch.zeros_like(x))
