"""The eight largest of each row, which has ties."""

import torch


def kernel(x):
    return torch.topk(torch.round(2 * x), 8, dim=-1)
