"""Return a result that is part of a graph of autograd."""

import torch

SCALE = torch.nn.Parameter(torch.tensor(2.0))


def kernel(x):
    return torch.softmax(SCALE * x, -1) * x
