"""A baseline."""

import torch


def kernel(x):
    mask = x > 0
    return torch.softmax(x.masked_fill(~mask, float("-inf")), -1)
