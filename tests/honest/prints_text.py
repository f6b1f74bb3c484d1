"""Prints at import and in its first call."""

import torch

print("speedup of this kernel: unknown, let us see")
SAID = []


def kernel(x):
    if not SAID:
        print(f"called with {tuple(x.shape)}", flush=True)
        SAID.append(1)
    return torch.softmax(2 * x, -1) * x
