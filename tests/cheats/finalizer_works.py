"""Put the work into the finalizer of what is returned."""
# caught as: outputs

import weakref

import torch


def kernel(x):
    out = torch.empty_like(x)
    weakref.finalize(out, lambda: torch.softmax(2 * x, -1) * x)
    return out
