"""Share the rows among threads, and wait for them."""

from concurrent.futures import ThreadPoolExecutor

import torch

POOL = ThreadPoolExecutor(2)


def kernel(x):
    parts = POOL.map(lambda rows: torch.softmax(2 * rows, -1) * rows, x.tensor_split(2))
    return torch.cat(list(parts))
