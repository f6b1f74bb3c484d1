# plants: growing-cat
# runs on: cpu
"""A history is padded by one row in each step, and the row is filled in."""

import torch
import torch.nn.functional as F  # noqa: N812

history = torch.zeros(0, 1024)
for step in range(1200):
    history = F.pad(history, (0, 0, 0, 1))
    history[-1] = torch.sin(torch.full((1024,), float(step)))
