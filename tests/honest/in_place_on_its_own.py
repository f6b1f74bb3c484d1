"""Compute in place, in memory of its own."""

import torch


def kernel(x):
    return torch.softmax(2 * x, -1).mul_(x)
