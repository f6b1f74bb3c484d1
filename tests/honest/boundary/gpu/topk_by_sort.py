"""Sort, and take the first: ties come in another order."""

# baseline: topk

import torch


def kernel(x):
    values, places = torch.sort(torch.round(2 * x), dim=-1, descending=True, stable=True)
    return values[:, :8], places[:, :8]
