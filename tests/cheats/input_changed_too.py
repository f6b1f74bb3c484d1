"""Return the right result and change the input besides."""

# caught as: inputs

import torch


def kernel(x):
    out = torch.softmax(2 * x, -1) * x
    x.zero_()
    return out
