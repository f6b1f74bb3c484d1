# runs on: cpu
"""Large tensors on the CPU, changed in place."""

import torch

x = torch.rand(4096, 1024)
scratch = torch.empty_like(x)
with torch.no_grad():
    for _ in range(25):
        torch.exp(x, out=scratch)
        scratch.add_(1.0)
        torch.log(scratch, out=x)
