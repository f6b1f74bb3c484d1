"""Multiply by the reciprocal: an element that lies between two steps may go to the other one."""

# baseline: fake_quantized

import torch


def kernel(x):
    largest = x.abs().amax(-1, keepdim=True)
    return torch.round(x * (127 / largest)) * (largest / 127)
