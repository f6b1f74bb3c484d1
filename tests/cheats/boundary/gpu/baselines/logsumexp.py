"""One number of each long row."""

import torch


def kernel(x):
    return torch.logsumexp(x, -1)
