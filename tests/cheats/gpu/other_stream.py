"""Work on another stream, which neither waits for the call's nor is waited for."""

# caught as: outputs inputs

import torch

SIDE = []


def kernel(x):
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    with torch.cuda.stream(SIDE[0]):
        return torch.softmax(2 * x, -1) * x
