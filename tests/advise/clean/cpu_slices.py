# runs on: cpu
"""Batches are slices of one tensor, and the products take nearly all of the time."""

import torch

data = torch.randn(4096, 768)
weight = torch.randn(768, 3072)
back = torch.randn(3072, 768)
with torch.no_grad():
    for _ in range(2):
        for start in range(0, 4096, 512):
            out = torch.relu(data[start : start + 512] @ weight) @ back
