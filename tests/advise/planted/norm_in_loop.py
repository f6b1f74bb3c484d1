# plants: sync-in-loop
"""The norm of the gradient is compared in Python at each step, which waits for the GPU."""

import torch

x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
weight = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) * 0.02
largest = 0.0
with torch.no_grad():
    for _ in range(60):
        hidden = torch.relu(x @ weight)
        gradient = hidden.t() @ x
        norm = gradient.float().norm().item()
        largest = max(largest, norm)
