"""Codes of eight bits, with the scale of each row."""

import torch


def kernel(x):
    scale = x.abs().amax(-1) / 127
    return torch.clamp(torch.round(x / scale[:, None]), -128, 127).to(torch.int8), scale
