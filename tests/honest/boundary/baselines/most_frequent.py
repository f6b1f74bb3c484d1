"""The number that comes most often, in each of 64 parts."""

import torch


def kernel(x):
    return torch.stack([torch.bincount(part, minlength=100) for part in x.view(64, -1)]).argmax(-1)
