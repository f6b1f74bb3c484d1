"""Compute with NumPy, and return its array."""

import numpy as np


def kernel(x):
    values = x.numpy()
    powers = np.exp(2 * values - 2 * values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) * values
