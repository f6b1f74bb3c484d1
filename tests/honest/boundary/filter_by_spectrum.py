"""The same filter by way of the spectrum."""

# baseline: long_filter
# options: --input 64x4096

import torch

TERMS = torch.hann_window(129, periodic=False) / 64


def kernel(x):
    size = x.shape[1] + 128
    spectrum = torch.fft.rfft(x, size) * torch.fft.rfft(TERMS, size)
    return torch.fft.irfft(spectrum, size)[:, 64 : 64 + x.shape[1]]
