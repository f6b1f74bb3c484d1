"""Return a result that lies column by column."""

import torch


def kernel(x):
    wide = x.t().contiguous()
    return (torch.softmax(2 * wide, 0) * wide).t()
