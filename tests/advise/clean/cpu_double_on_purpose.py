# runs on: cpu
"""A solver that needs float64 makes it itself."""

import torch

matrix = torch.randn(384, 384, dtype=torch.float64) + 40 * torch.eye(384, dtype=torch.float64)
right = torch.randn(384, 64, dtype=torch.float64)
for _ in range(20):
    answer = torch.linalg.solve(matrix, right)
