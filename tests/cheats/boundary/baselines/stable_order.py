"""The stable order of keys of which many are equal."""

import torch


def kernel(x):
    return torch.sort(torch.round(x), dim=-1, stable=True)[1]
