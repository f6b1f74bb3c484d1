"""Sorting by NumPy, stable."""

# baseline: base_sort
import numpy as np
import torch


def kernel(x):
    places = np.argsort(x.numpy(), -1, kind="stable")
    return torch.from_numpy(np.take_along_axis(x.numpy(), places, -1)), torch.from_numpy(places)
