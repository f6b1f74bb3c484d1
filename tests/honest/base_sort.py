"""A baseline."""

import torch


def kernel(x):
    return torch.sort(x, -1)
