"""Imports a module that lies beside it."""

import torch
from helper_of_baseline import scaled


def kernel(x):
    return torch.softmax(scaled(x), -1) * x
