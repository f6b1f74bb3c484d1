"""A layer norm and an activation in bfloat16, step by step."""

import torch


def kernel(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return torch.nn.functional.silu((x - mean) * torch.rsqrt(variance + 1e-5) * weight + bias)
