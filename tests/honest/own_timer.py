"""Time itself at the first call, and choose the faster of two ways."""

import time

import torch

CHOSEN = []


def one(x):
    return torch.softmax(2 * x, -1) * x


def other(x):
    return torch.exp(torch.log_softmax(2 * x, -1)) * x


def kernel(x):
    if not CHOSEN:
        times = []
        for way in (one, other):
            start = time.perf_counter()
            way(x)
            times.append((time.perf_counter() - start, way is other))
        CHOSEN.append(other if min(times)[1] else one)
    return CHOSEN[0](x)
