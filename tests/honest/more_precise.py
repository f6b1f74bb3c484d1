"""Compute in double precision inside."""

import torch


def kernel(x):
    wide = x.double()
    return (torch.softmax(2 * wide, -1) * wide).float()
