"""Share the rows between two streams, and join them."""

import torch

SIDE = []


def kernel(x):
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    here, half = torch.cuda.current_stream(), len(x) // 2
    out = torch.empty_like(x)
    SIDE[0].wait_stream(here)
    with torch.cuda.stream(SIDE[0]):
        torch.mul(torch.softmax(2 * x[half:], -1), x[half:], out=out[half:])
    torch.mul(torch.softmax(2 * x[:half], -1), x[:half], out=out[:half])
    here.wait_stream(SIDE[0])
    return out
