"""One number of a large matrix."""

import torch


def kernel(x):
    return torch.relu(x).mean()
