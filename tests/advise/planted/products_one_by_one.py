# plants: gemm-loop
# runs on: cpu
"""Small products on the CPU, of one matrix after the other."""

import torch

a = torch.randn(64, 8, 8)
b = torch.randn(64, 8, 8)
with torch.no_grad():
    for _ in range(8):
        c = torch.stack([a[i] @ b[i] for i in range(64)])
