"""The order of rounded keys, in which equal ones come in any order."""

import torch


def kernel(x):
    return torch.argsort(torch.round(4 * x), -1)
