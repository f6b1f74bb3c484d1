"""Scores times values."""

import torch


def kernel(x):
    return torch.softmax(2 * x, -1) * x
