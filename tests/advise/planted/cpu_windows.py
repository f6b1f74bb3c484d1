# plants: indexing-loop
# runs on: cpu
"""A moving sum is taken row by row in Python."""

import torch

series = torch.randn(400, 16)
sums = torch.zeros(400, 16)
with torch.no_grad():
    for _ in range(5):
        for at in range(1, len(series)):
            sums[at] = sums[at - 1] + series[at]
