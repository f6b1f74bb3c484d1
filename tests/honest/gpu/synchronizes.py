"""Wait for the GPU within the call."""

import torch


def kernel(x):
    out = torch.softmax(2 * x, -1) * x
    torch.cuda.synchronize()
    return out
