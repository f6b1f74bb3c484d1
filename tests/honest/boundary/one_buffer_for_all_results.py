"""Gives each call the same memory for its result, as a graph does: right, but who keeps two results has to copy."""

# baseline: hypotenuse
# warned of: lost with its next call

import torch

RESULTS = {}


def kernel(x):
    out = RESULTS.setdefault(x.shape, torch.empty_like(x))
    return torch.addcmul(torch.ones((), dtype=x.dtype), x, x, out=out).sqrt_()
