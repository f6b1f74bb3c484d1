"""Column sums as a product with ones."""

# baseline: base_sum
# options: --input 2048x1024
import torch


def kernel(x):
    return torch.ones(1, x.shape[0]).mm(x)[0]
