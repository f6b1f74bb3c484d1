"""Take the memory at import, where it is not counted."""
# options: --memory-limit 50MB
# caught as: memory

import torch

TABLE = torch.zeros(300 << 20, dtype=torch.uint8).add_(1)


def kernel(x):
    return torch.softmax(2 * x, -1) * x + 0 * TABLE[0]
