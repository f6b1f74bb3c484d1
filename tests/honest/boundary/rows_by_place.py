"""The places of the rows first, then the rows."""

# baseline: rows_that_pass
# not measured

import torch


def kernel(x):
    return torch.index_select(x, 0, (x.sum(-1) > 0).nonzero().view(-1))
