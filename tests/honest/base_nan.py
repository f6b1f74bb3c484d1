"""Its result holds NaN where the input is negative."""

import torch


def kernel(x):
    return torch.log(x)
