"""Threads that are joined, from a pool that stays, with a queue."""

import queue
import threading

import torch

JOBS, DONE = queue.Queue(), queue.Queue()


def work():
    while True:
        x, out = JOBS.get()
        torch.mul(torch.softmax(2 * x, -1), x, out=out)
        DONE.put(1)


for _ in range(2):
    threading.Thread(target=work, daemon=True).start()


def kernel(x):
    out, half = torch.empty_like(x), len(x) // 2
    JOBS.put((x[:half], out[:half]))
    JOBS.put((x[half:], out[half:]))
    DONE.get()
    DONE.get()
    return out
