"""The largest of each window, and its place: many windows have none above zero."""

import torch


def kernel(x):
    return torch.nn.functional.max_pool2d(torch.relu(x), 2, return_indices=True)
