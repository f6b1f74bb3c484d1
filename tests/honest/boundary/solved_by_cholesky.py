"""The same by the factor of Cholesky, which needs half of the work."""

# baseline: solved
# options: --input 128x128

import torch


def kernel(x):
    return torch.cholesky_solve(x, torch.linalg.cholesky(x @ x.T + 8 * torch.eye(x.shape[0])))
