# plants: indexing-loop
# runs on: cpu
"""A Python loop normalises a matrix row by row."""

import torch

table = torch.rand(150, 32)
with torch.no_grad():
    for _ in range(5):
        for row in range(table.shape[0]):
            table[row] /= table[row].sum()
