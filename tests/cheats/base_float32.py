"""Baseline that always works in float32."""

import torch


def kernel(x):
    x = x.float()
    return torch.softmax(2 * x, -1) * x
