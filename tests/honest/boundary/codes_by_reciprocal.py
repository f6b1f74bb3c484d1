"""Multiply by the reciprocal of the scale, and round there."""

# baseline: codes

import torch


def kernel(x):
    low, high = x.aminmax(dim=-1)
    largest = torch.maximum(-low, high)
    return (x * (127 / largest)[:, None]).round_().clamp_(-128, 127).to(torch.int8), largest / 127
