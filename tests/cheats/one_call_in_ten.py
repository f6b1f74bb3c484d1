"""Leave out one call in ten, by chance: the memory of an earlier result is returned."""

# caught as: outputs inputs
import random

import torch

LAST = []


def kernel(x):
    if LAST and random.SystemRandom().random() < 0.1:
        return LAST[0]
    LAST[:] = [torch.softmax(2 * x, -1) * x]
    return LAST[0]
