"""The median of each row of few different values, and where it is."""

import torch


def kernel(x):
    return torch.round(x * 8).median(-1)
