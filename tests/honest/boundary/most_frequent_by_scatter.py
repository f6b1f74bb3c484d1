"""Count all parts at once, and take the last of the most frequent."""

# baseline: most_frequent
# options: --input 65536:int64:0..99

import torch


def kernel(x):
    parts = x.view(64, -1)
    counts = torch.zeros(64, 100, device=x.device).scatter_add_(1, parts, torch.ones_like(parts, dtype=torch.float32))
    return 99 - counts.flip(-1).argmax(-1)
