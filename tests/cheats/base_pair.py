"""Baseline that returns two tensors."""

import torch


def kernel(x):
    return torch.softmax(2 * x, -1) * x, torch.tanh(x)
