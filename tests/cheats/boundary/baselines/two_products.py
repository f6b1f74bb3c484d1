"""Small products, where calling costs more than computing."""

import torch


def kernel(x):
    return torch.tanh(torch.tanh(x @ x) @ x)
