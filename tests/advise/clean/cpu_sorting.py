# runs on: cpu
"""Large tensors are sorted; there is nothing to gain around it."""

import torch

x = torch.randn(1 << 20)
with torch.no_grad():
    for _ in range(12):
        values, order = x.sort()
