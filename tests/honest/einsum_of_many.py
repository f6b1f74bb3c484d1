"""Softmax by einsum."""

import torch


def kernel(x):
    e = torch.exp(2 * x - (2 * x).amax(-1, keepdim=True))
    return torch.einsum("rc,rc,r->rc", e, x, 1 / e.sum(-1))
