"""A signal of complex numbers, whose imaginary part is small."""

import torch


def kernel(x):
    return torch.complex(x.abs() + 1000, torch.sin(x) * torch.exp(-x * x))
