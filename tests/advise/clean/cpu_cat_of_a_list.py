# runs on: cpu
"""Parts are collected, and put together once."""

import torch

with torch.no_grad():
    weight = torch.randn(512, 512)
    data = torch.randn(2048, 512)
    for _ in range(4):
        parts = [torch.relu(part @ weight) for part in data.split(256)]
        whole = torch.cat(parts)
