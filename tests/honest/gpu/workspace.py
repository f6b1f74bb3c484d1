"""Keep memory between calls, and return it each time."""

import torch

KEPT = {}


def kernel(x):
    out = KEPT.setdefault(x.shape, torch.empty_like(x))
    return torch.mul(torch.softmax(2 * x, -1), x, out=out)
