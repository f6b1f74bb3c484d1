"""Gradients are summed over several large batches before each step, and the loss is read at the end."""

import torch

weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) * 0.02
total = torch.zeros(4096, 4096, device="cuda", dtype=torch.bfloat16)
x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(6):
        for _ in range(4):
            total += x.t() @ (x @ weight)
        weight -= 1e-4 * total
        total.zero_()
print(weight.float().norm().item())
