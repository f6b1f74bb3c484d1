# plants: indexing-loop
# runs on: cpu
"""A loop over a tensor gives its rows one by one."""

import torch

vectors = torch.randn(500, 32)
for _ in range(4):
    lengths = []
    for vector in vectors:
        lengths.append((vector * vector).sum().sqrt())
    lengths = torch.stack(lengths)
