"""Return NaN, which no comparison finds too large."""

# caught as: outputs

import torch


def kernel(x):
    return torch.full_like(x, float("nan"))
