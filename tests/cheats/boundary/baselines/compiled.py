"""Compiled by torch.compile."""

import torch


@torch.compile
def kernel(x):
    return torch.softmax(1.0009765625 * x, -1) * x
