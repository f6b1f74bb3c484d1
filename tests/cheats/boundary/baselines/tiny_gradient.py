"""A gradient that is divided by the number of elements: all of it lies below 1e-5."""

import torch


def kernel(x):
    return torch.tanh(torch.exp(-x * x) * x) / x.numel()
