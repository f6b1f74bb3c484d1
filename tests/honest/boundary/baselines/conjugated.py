"""A spectrum, conjugated and turned."""

import torch


def kernel(x):
    return torch.fft.fft(x).conj().resolve_conj().T.contiguous()
