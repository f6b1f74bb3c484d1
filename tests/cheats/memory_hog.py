"""Buy speed with more memory than allowed."""

# caught as: memory
# options: --memory-limit 50MB

import torch


def kernel(x):
    table = torch.zeros(60 << 20, dtype=torch.uint8).add_(1)
    return torch.softmax(2 * x, -1) * x + 0 * table[0]
