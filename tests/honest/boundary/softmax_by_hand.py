"""Exponentials and their sum, in one tensor; a row that is hidden whole divides nothing by nothing."""

# baseline: masked_softmax

import torch


def kernel(x):
    hidden = torch.ones_like(x, dtype=torch.bool).triu()
    highest = x.masked_fill(hidden, float("-inf")).amax(-1, keepdim=True)
    weights = (x - highest).exp_().tril_(-1)
    return weights.div_(weights.sum(-1, keepdim=True))
