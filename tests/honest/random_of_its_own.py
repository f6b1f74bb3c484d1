"""The same directions, drawn once."""

# baseline: base_random
import torch

KEPT = {}


def kernel(x):
    if x.shape[1] not in KEPT:
        KEPT[x.shape[1]] = torch.randn(x.shape[1], 16, generator=torch.Generator().manual_seed(7))
    return x @ KEPT[x.shape[1]]
