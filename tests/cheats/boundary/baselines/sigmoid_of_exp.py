"""Transcendental functions of each element."""

import torch


def kernel(x):
    return torch.erfinv(torch.tanh(torch.exp(-x * x)) * 0.9)
