"""A gated activation and its norm."""

import torch


def kernel(x):
    left, right = x.chunk(2, -1)
    gated = torch.nn.functional.gelu(left) * right
    return gated, gated.norm(dim=-1)
