"""Baseline: a sine of values that are made finite and small first."""

import torch


def kernel(x):
    return torch.sin(torch.nan_to_num(x, 0.0, 9.0, -9.0).clamp(-50, 50))
