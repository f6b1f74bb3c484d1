"""A product whose columns are scaled from one to a hundred million."""

import torch

WEIGHTS = torch.randn(512, 512, generator=torch.Generator().manual_seed(1))
SCALES = torch.logspace(0, 8, 512)


def kernel(x):
    return (x @ WEIGHTS.to(x.device)) * SCALES.to(x.device)
