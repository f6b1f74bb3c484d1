# plants: loader-stall
# runs on: cpu
"""Samples are made from text in Python, in the process that trains."""

import torch
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __len__(self):
        return 1200

    def __getitem__(self, index):
        text = " ".join(str(index * factor) for factor in range(300))
        return torch.tensor([hash(word) % 512 for word in text.split()], dtype=torch.float32)


weight = torch.randn(300, 64)
with torch.no_grad():
    for batch in DataLoader(Words(), batch_size=32):
        out = torch.relu(batch @ weight)
