"""A system of equations with a symmetric matrix."""

import torch


def kernel(x):
    return torch.linalg.solve(x @ x.T + 8 * torch.eye(x.shape[0]), x)
