"""In place as the baseline, by another way."""

# baseline: base_in_place
import torch


def kernel(x):
    return torch.tanh(x.add_(x), out=x)
