"""Rounds to steps of a tenth of the row's largest value."""

import torch


def kernel(x):
    step = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / step) * step
