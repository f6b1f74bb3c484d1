"""A filter of 129 terms, applied directly."""

import torch

TERMS = torch.hann_window(129, periodic=False) / 64


def kernel(x):
    return torch.nn.functional.conv1d(x[:, None], TERMS[None, None], padding=64)[:, 0]
