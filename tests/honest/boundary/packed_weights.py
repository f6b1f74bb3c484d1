"""Keep the fixed weights in the order that the product reads, once for each device."""

# baseline: fixed_weights
# options: --input 64x512

import torch

WEIGHT = torch.randn(256, 512, generator=torch.Generator().manual_seed(7))
PACKED = {}


def kernel(x):
    if x.device not in PACKED:
        PACKED[x.device] = WEIGHT.to(x.device).t().contiguous()
    return torch.mm(x, PACKED[x.device]).relu_()
