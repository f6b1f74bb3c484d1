"""Return a view of a larger buffer."""

import torch


def kernel(x):
    buffer = torch.empty(2 * len(x), *x.shape[1:], dtype=x.dtype)
    torch.mul(torch.softmax(2 * x, -1), x, out=buffer[: len(x)])
    return buffer[: len(x)]
