"""Works in NumPy, with out=."""

import numpy as np
import torch


def kernel(x):
    a = x.numpy()
    e = np.multiply(a, 2)
    e -= e.max(-1, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(-1, keepdims=True)
    e *= a
    return torch.from_numpy(e)
