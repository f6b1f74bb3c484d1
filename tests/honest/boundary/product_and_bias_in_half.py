"""The same layer in its own type, as a library computes it: small sums of large parts are rounded as the parts are."""

# baseline: product_and_bias
# options: --input 128x256:float16

import torch

WEIGHTS = torch.randn(256, 128, generator=torch.Generator().manual_seed(1)).half()
BIAS = torch.randn(128, generator=torch.Generator().manual_seed(2)).half()


def kernel(x):
    return x @ WEIGHTS + BIAS
