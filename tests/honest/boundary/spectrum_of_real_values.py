"""Half of the spectrum, and the other half by symmetry; imaginary zeros may have another sign."""

# baseline: spectrum

import torch


def kernel(x):
    half = torch.fft.rfft(x)
    return torch.cat([half, half[:, 1 : (x.shape[-1] + 1) // 2].conj().flip(-1)], -1)
