"""Clamp and take logarithms in one tensor, by another base."""

# baseline: log_of_relu

import math

import torch


def kernel(x):
    return torch.clamp(x, min=0).log2_().mul_(math.log(2))
