# plants: double-precision
# runs on: cpu
"""NumPy's numbers are float64, and nobody changed that."""

import numpy
import torch

points = torch.from_numpy(numpy.random.default_rng(0).random((512, 512)))
weights = torch.from_numpy(numpy.random.default_rng(1).random((512, 512)))
for _ in range(20):
    distances = torch.relu(points @ weights)
