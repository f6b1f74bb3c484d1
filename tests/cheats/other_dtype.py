"""Return the result in half precision."""

# caught as: failed

import torch


def kernel(x):
    return (torch.softmax(2 * x, -1) * x).half()
