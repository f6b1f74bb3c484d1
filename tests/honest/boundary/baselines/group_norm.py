"""A group norm, in float16."""

import torch


def kernel(x):
    return torch.nn.functional.group_norm(x, 4)
