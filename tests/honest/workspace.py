"""Keep memory between calls, by shape, and return it each time."""

import torch

KEPT = {}


def kernel(x):
    if x.shape not in KEPT:
        KEPT[x.shape] = torch.empty_like(x)
    out = KEPT[x.shape]
    torch.softmax(2 * x, -1, out=out) if False else out.copy_(torch.softmax(2 * x, -1))
    return out.mul_(x)
