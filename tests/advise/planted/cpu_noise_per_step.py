# plants: tensor-per-call
# runs on: cpu
"""A large tensor of zeros is made in each step, only to be added to."""

import torch

x = torch.randn(1024, 1024)
with torch.no_grad():
    for _ in range(40):
        total = torch.zeros(4096, 1024)
        total[:1024] += x
