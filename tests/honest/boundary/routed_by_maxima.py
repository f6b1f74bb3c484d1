"""The best, and then the best of the others."""

# baseline: routed
# options: --input 1024x64 --input 64x8

import torch


def kernel(x, gate):
    scores = (x @ gate).mul_(2).round_().div_(2)
    first, at = scores.max(-1, keepdim=True)
    second, then = scores.scatter(-1, at, float("-inf")).max(-1, keepdim=True)
    return torch.softmax(torch.cat([first, second], -1), -1), torch.cat([at, then], -1), gate.shape[-1]
