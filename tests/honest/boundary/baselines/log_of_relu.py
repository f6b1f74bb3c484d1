"""Logarithms, of which half are minus infinity."""

import torch


def kernel(x):
    return torch.log(torch.relu(x))
