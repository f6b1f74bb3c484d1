# plants: pageable-copy
"""Each batch of 64 MiB is copied to the GPU from ordinary memory."""

import torch

batches = [torch.randn(4096, 4096) for _ in range(4)]
weight = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
total = torch.zeros((), device="cuda")
for step in range(24):
    x = batches[step % 4].to("cuda")
    total += (x.bfloat16() @ weight).float().mean()
print("done", float(total))
