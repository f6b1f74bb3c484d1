# plants: indexing-loop
# runs on: cpu
"""A Python loop fills a tensor row by row."""

import torch

table = torch.zeros(256, 64)
for step in range(4):
    for i in range(256):
        table[i] = i * step
