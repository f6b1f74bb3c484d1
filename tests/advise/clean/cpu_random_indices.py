# runs on: cpu
"""Each step draws fresh indices, which nobody can make once."""

import torch

data = torch.randn(50_000, 128)
weight = torch.randn(128, 512)
with torch.no_grad():
    for _ in range(20):
        chosen = torch.randint(0, 50_000, (4096,))
        out = torch.relu(data[chosen] @ weight)
