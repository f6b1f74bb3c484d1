# plants: gemm-loop
"""Forty small matrix products one by one, where one batched product would do."""

import torch

a = torch.randn(40, 256, 256, device="cuda", dtype=torch.bfloat16)
b = torch.randn(40, 256, 256, device="cuda", dtype=torch.bfloat16)
out = torch.empty_like(a)
for _ in range(20):
    for i in range(40):
        torch.matmul(a[i], b[i], out=out[i])
torch.cuda.synchronize()
