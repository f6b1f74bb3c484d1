"""A named tuple in a list."""

from collections import namedtuple

import torch

Moments = namedtuple("Moments", ["mean", "variance"])


def kernel(x):
    return [Moments(*reversed(torch.var_mean(x, -1))), len(x)]
