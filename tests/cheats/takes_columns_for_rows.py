"""Read memory as if rows followed one another in it, which they do not in the arguments that the user makes."""

# caught as: outputs
# options: --inputs make_transposed.py:make_inputs
import torch


def kernel(x):
    x = x.as_strided(x.shape, (x.shape[1], 1))
    return torch.softmax(2 * x, -1) * x
