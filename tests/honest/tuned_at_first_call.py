"""Times two ways at its first call, and keeps the faster one."""

import time

import torch


def whole(x):
    return torch.softmax(2 * x, -1) * x


def by_blocks(x):
    out = torch.empty_like(x)
    for n in range(0, len(x), 64):
        part = x[n : n + 64]
        torch.mul(torch.softmax(2 * part, -1), part, out=out[n : n + 64])
    return out


BEST = {}


def kernel(x):
    if x.shape not in BEST:
        took = {}
        for way in (whole, by_blocks):
            start = time.perf_counter()
            for _ in range(3):
                way(x)
            took[way] = time.perf_counter() - start
        BEST[x.shape] = min(took, key=took.get)
    return BEST[x.shape](x)
