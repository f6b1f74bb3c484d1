# plants: small-kernels
"""A hundred operators a step on tensors of 4 KiB: the launches take longer than the work."""

import torch


def smooth(state, noise):
    for _ in range(20):
        state = torch.tanh(state)
        state = state * 0.9
        state = state + noise
        state = torch.sigmoid(state)
        state = state - 0.5
    return state


state = torch.zeros(1024, device="cuda")
noise = torch.randn(1024, device="cuda")
with torch.no_grad():
    for _ in range(20):
        state = smooth(state, noise)
torch.cuda.synchronize()
