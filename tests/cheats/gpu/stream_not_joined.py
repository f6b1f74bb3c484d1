"""Work on another stream that waits for the call's, and is not waited for."""

# caught as: outputs inputs

import torch

SIDE = []


def kernel(x):
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    SIDE[0].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(SIDE[0]):
        out = torch.softmax(2 * x, -1) * x
        for _ in range(20):
            out = torch.softmax(2 * x, -1) * x
        return out
