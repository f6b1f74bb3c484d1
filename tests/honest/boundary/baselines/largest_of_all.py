"""Where the largest of a whole matrix of rounded values is, as rows and columns are counted through."""

import torch


def kernel(x):
    return torch.round(x).argmax(), torch.round(x.double()).max().item()
