# plants: double-precision
# runs on: cpu
"""One table of float64 makes all that follows float64."""

import torch

data = torch.randn(1024, 512)
scale = torch.linspace(0, 1, 512, dtype=torch.float64)
for _ in range(40):
    out = torch.exp(data * scale).mul(2)
    total = out.sum()
