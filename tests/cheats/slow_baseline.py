"""Keep the core busy while the baseline is timed."""

import threading

import torch


def burn():
    while True:
        sum(range(1000))


threading.Thread(target=burn, daemon=True).start()


def kernel(x):
    return torch.softmax(2 * x, -1) * x
