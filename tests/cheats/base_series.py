"""Baseline: fourteen terms of a series."""

import torch


def kernel(x):
    y = torch.tanh(x)
    term, total = y.clone(), y.clone()
    for _ in range(1, 14):
        term = term * y * 0.6
        total = total + term
    return total
