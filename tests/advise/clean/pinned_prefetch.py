"""Batches come from pinned memory on a stream of their own while the GPU computes."""

import torch

host = [torch.randn(2048, 4096).pin_memory() for _ in range(3)]
weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
buffers = [torch.empty(2048, 4096, device="cuda") for _ in range(2)]
copying = torch.cuda.Stream()
ready = [torch.cuda.Event() for _ in range(2)]
used = [torch.cuda.Event() for _ in range(2)]
total = torch.zeros((), device="cuda")
for step in range(30):
    slot = step % 2
    with torch.cuda.stream(copying):
        used[slot].wait(copying)
        buffers[slot].copy_(host[step % 3], non_blocking=True)
        ready[slot].record(copying)
    ready[slot].wait()
    y = buffers[slot].bfloat16()
    for _ in range(12):
        y = y @ weight
    used[slot].record()
torch.cuda.synchronize()
