# plants: pageable-copy
"""Each result of 64 MiB is copied back into ordinary memory."""

import torch

weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
results = []
for _ in range(16):
    y = (x @ weight).float()
    results.append(y.cpu())
    if len(results) > 2:
        results.pop(0)
