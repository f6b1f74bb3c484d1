"""A baseline."""

# baseline: base_empty
import torch


def kernel(x):
    return torch.empty(0, x.shape[1]), x[0].clone()
