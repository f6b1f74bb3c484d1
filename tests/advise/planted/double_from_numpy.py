# plants: double-precision
"""Data come from NumPy as float64, and everything is computed in it."""

import numpy
import torch

points = torch.as_tensor(numpy.random.default_rng(0).random((2048, 2048)), device="cuda")
weights = torch.as_tensor(numpy.random.default_rng(1).random((2048, 2048)), device="cuda")
for _ in range(20):
    distances = points @ weights
torch.cuda.synchronize()
