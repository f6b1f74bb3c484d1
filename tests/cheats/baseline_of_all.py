"""The baseline of every cheat and of every honest candidate."""

import torch


def kernel(x):
    return torch.softmax(2 * x, -1) * x
