# plants: elementwise-chain
"""An activation is written out operator by operator, on a large tensor."""

import torch


def gelu(x):
    inner = x * x
    inner = inner * x
    inner = inner * 0.044715
    inner = inner + x
    inner = inner * 0.79788456
    return torch.tanh(inner) * x


x = torch.randn(4096, 8192, device="cuda")
with torch.no_grad():
    for _ in range(20):
        y = gelu(x)
torch.cuda.synchronize()
