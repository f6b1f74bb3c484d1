"""What `baseline_of_all` computes, in a place that is kept."""

import torch

KEPT = {}


def kernel(x):
    if "out" not in KEPT:
        KEPT["out"] = torch.empty_like(x)
    return torch.mul(torch.softmax(2 * x, -1), x, out=KEPT["out"])
