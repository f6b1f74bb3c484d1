# plants: tensor-per-call
# runs on: cpu
"""Coordinates are kept as lists of lists, and made a tensor for each distance."""

import torch

points = [[float(x), float(y)] for x in range(40) for y in range(40)]
for number in range(60):
    here = torch.tensor(points)
    distances = (here - number).square().sum(-1)
