"""The same mask, added."""

# baseline: base_masked
import torch

KEPT = {}


def kernel(x):
    if x.shape not in KEPT:
        KEPT[x.shape] = torch.full(x.shape, float("-inf")).triu(1)
    return x + KEPT[x.shape]
