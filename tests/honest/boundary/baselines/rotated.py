"""Pairs of columns turned by an angle that grows with the row, whose table is float32."""

import torch


def kernel(x):
    half = x.shape[1] // 2
    angles = torch.arange(len(x)).float()[:, None] * 10000.0 ** (-torch.arange(half).float() / half)
    one, other = x[:, :half], x[:, half:]
    return torch.cat([one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()], 1)
