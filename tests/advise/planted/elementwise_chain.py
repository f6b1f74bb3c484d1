# plants: elementwise-chain
"""An activation is written out as operators, each of which reads and writes 256 MiB."""

import torch

x = torch.randn(8192, 8192, device="cuda")


def gelu(x):
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + torch.tanh(inner))


with torch.no_grad():
    for _ in range(15):
        y = gelu(x)
torch.cuda.synchronize()
