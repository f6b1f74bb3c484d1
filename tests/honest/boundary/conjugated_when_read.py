"""The same as a view: torch conjugates when somebody reads it."""

# baseline: conjugated

import torch


def kernel(x):
    return torch.fft.fft(x).conj().T
