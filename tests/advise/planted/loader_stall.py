# plants: loader-stall
# runs on: cpu
"""The training process itself prepares each sample, and the model waits meanwhile."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        time.sleep(1e-3)  # a file that is read
        return torch.full((256,), float(index))


weight = torch.randn(256, 256)
with torch.no_grad():
    for batch in DataLoader(Slow(), batch_size=8):
        torch.relu(batch @ weight).sum()
