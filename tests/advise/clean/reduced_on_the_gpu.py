"""Statistics of large batches stay on the GPU until the loop is over."""

import torch

x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)
means = []
with torch.no_grad():
    for _ in range(60):
        means.append(x.mean(dim=0))
print(torch.stack(means).float().mean().item())
