"""A baseline."""

import torch


def kernel(x):
    return torch.softmax(x, -1) @ x.mT
