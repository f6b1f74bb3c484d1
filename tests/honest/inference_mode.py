"""Compute in inference mode."""

import torch


@torch.inference_mode()
def kernel(x):
    return torch.softmax(2 * x, -1) * x
