# plants: indexing-loop
# runs on: cpu
"""A Python loop fills a tensor row by row."""

import torch

table = torch.zeros(512, 64)
for step in range(6):
    for i in range(512):
        table[i] = i * step
