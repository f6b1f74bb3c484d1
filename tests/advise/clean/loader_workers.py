# runs on: cpu
"""Samples are cheap and come in whole batches; the model takes nearly all of the time."""

import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(2048, 512))
loader = DataLoader(data, batch_size=None, sampler=torch.utils.data.BatchSampler(range(2048), 256, drop_last=True))
weight = torch.randn(512, 4096)
back = torch.randn(4096, 512)
with torch.no_grad():
    for _ in range(3):
        for (batch,) in loader:
            torch.relu(batch @ weight) @ back
