# plants: growing-cat
# runs on: cpu
"""A cache of keys grows by one row at each step, and is copied whole each time."""

import torch

step = torch.randn(1, 1024)
with torch.no_grad():
    cache = torch.empty(0, 1024)
    for _ in range(600):
        cache = torch.cat([cache, step])
