"""Baseline that imports a neighbour."""

import cheat_helper
import torch


def kernel(x):
    return cheat_helper.work(torch.softmax(2 * x, -1) * x)
