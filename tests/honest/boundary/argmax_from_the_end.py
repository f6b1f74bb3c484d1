"""The last of the largest, where the baseline takes any of them."""

# baseline: argmax

import torch


def kernel(x):
    return x.shape[-1] - 1 - torch.round(x).flip(-1).max(-1).indices
