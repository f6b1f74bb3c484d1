"""Return half of the result."""

# caught as: failed

import torch


def kernel(x):
    return (torch.softmax(2 * x, -1) * x)[: len(x) // 2]
