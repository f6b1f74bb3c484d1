"""Logarithms of sums less the chosen score."""

# baseline: cross_entropy
# options: --input 512x128 --input 512:int64:0..128

import torch


def kernel(x, labels):
    losses = torch.logsumexp(x, -1) - x.gather(-1, labels[:, None])[:, 0]
    right = (x.max(-1).indices == labels) & (labels != 0)
    return losses.masked_fill_(labels == 0, 0), right.sum() / len(x)
