"""The place of the largest, of few different values."""

import torch


def kernel(x):
    return torch.argmax(torch.round(x), -1)
