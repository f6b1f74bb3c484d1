# plants: tensor-per-call
# runs on: cpu
"""A result of 64 MiB is made anew, filled with zeros, in each call."""

import torch


def accumulate(row):
    out = torch.zeros(4096, 4096)
    out[0] += row
    return out


row = torch.randn(4096)
for _ in range(12):
    result = accumulate(row)
