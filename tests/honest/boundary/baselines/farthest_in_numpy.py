"""In NumPy: where each row is farthest from its mean, of few different values, and how far."""

import numpy as np
import torch


def kernel(x):
    rows = x.numpy()
    away = np.abs(rows - rows.mean(-1, keepdims=True))
    return torch.from_numpy(away.argmax(-1)), torch.from_numpy(away.max(-1))
