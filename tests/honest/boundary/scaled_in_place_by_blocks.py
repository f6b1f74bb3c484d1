"""Sums of squares by blocks, and a product with the reciprocal: an element at the limit may fall on its other side."""

# baseline: scaled_in_place
# options: --input 1024x1024 --input =0.05

import torch


def kernel(x, limit):
    norms = x.square().unflatten(-1, (-1, 8)).sum(-1).sum(-1).sqrt_()
    x.mul_(1 / (norms + 1e-6)[:, None])
    return {"norms": norms, "clipped": torch.count_nonzero(x.abs() > limit)}
