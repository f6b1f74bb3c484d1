"""Compute in slices, as a kernel with tiles does: sums come in another order."""

import torch


def kernel(x):
    out = torch.empty_like(x)
    for rows, to in zip(x.split(7), out.split(7), strict=True):
        powers = torch.exp(2 * (rows - rows.amax(-1, keepdim=True)))
        total = sum(part.sum(-1, keepdim=True) for part in powers.split(5, dim=-1))
        to.copy_(powers / total * rows)
    return out
