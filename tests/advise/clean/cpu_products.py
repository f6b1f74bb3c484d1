# runs on: cpu
"""Large products on the CPU, into results that are there already."""

import torch

a = torch.randn(768, 768)
b = torch.randn(768, 768)
out = torch.empty(768, 768)
for _ in range(20):
    torch.mm(a, b, out=out)
    torch.mm(out, b, out=a)
    a.mul_(1e-3)
